"""A run that is told to stop: training is saved, Prefect sees it cancelled, a rerun goes on."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

import pytest

from enginehouse.errors import Interrupted
from tasks._stopping import StopWish
from tests.conftest import Checkout
from tests.test_services import list_processes

# Trains the recipe to its end, as a rerun does; or anew, with no store to find anything in.
FINISH = """
import json, sys, tempfile
from pathlib import Path
from enginehouse.artifact import Workspace
from enginehouse.project import find_project
from enginehouse.store import Store
from enginehouse.train.train import train
from flows.environment import prepare_environment
from flows.inspection import Inspection
from flows.recipes import load_recipe
from flows.road import plainly, walk
from flows.run import make_context
from tasks.data import resolve_data

class Enough(Exception):
    pass

def step(task, place, config, **inputs):
    if place != "train":
        return plain(task, place, config, **inputs)
    if "anew" in sys.argv:
        scratch = Path(tempfile.mkdtemp())
        model = train(config=config, here=Workspace(context.store, scratch), **inputs)
    else:
        model = plain(task, place, config, **inputs)
    print(json.dumps([model.files["weights.safetensors"].sha256, model.notes["resumed"]]))
    raise Enough

project = find_project()
prepare_environment(project)
recipe = load_recipe(project, "tiny")
resolved = resolve_data(project, recipe.data.path, print)
context = make_context(project.open_store(), recipe, resolved)
plain = plainly(context)
try:
    walk(recipe, resolved.version, step, Inspection(project, "tiny", resolved, context.store))
except Enough:
    pass
"""


def finish(checkout: Checkout, *options: str) -> Any:
    """The digest of the weights, and the steps after which training went on."""
    done = checkout.run("-c", FINISH, *options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def count_checkpoints(checkout: Checkout) -> int:
    return len(list(checkout.store.glob("resumable/tiny.train/*/step-*.pt")))


def newest_checkpoint(checkout: Checkout) -> str:
    found = sorted(path.name for path in checkout.store.glob("resumable/tiny.train/*/step-*.pt"))
    return found[-1] if found else ""


def stop_in_training(checkout: Checkout, number: int) -> subprocess.CompletedProcess[str]:
    """Run the recipe, and send this signal once it has trained for a while."""
    before = newest_checkpoint(checkout)
    run = checkout.start("-m", "flows.cli", "run", "--recipe", "tiny")
    while newest_checkpoint(checkout) <= before:
        with contextlib.suppress(subprocess.TimeoutExpired):
            run.wait(0.05)
        assert run.poll() is None, run.communicate()
    os.kill(run.pid, number)
    out, err = run.communicate(timeout=120)
    return subprocess.CompletedProcess("run", run.returncode, out, err)


def read_states(checkout: Checkout) -> tuple[list[str], list[str]]:
    """The states of flow runs, and of the runs of the task `train`, in Prefect's database."""
    (database,) = checkout.state.rglob("prefect.db")
    with contextlib.closing(sqlite3.connect(database)) as connection:
        flows = connection.execute("SELECT state_type FROM flow_run ORDER BY created")
        tasks = connection.execute("SELECT state_type FROM task_run WHERE name = 'train'")
        return [row[0] for row in flows], [row[0] for row in tasks]


def test_a_run_that_is_stopped_in_training_is_cancelled_and_goes_on(checkout: Checkout) -> None:
    recipes = checkout.root / "prefect.yaml"
    longer = "epochs: 60\n          patience: 1000\n          checkpoint_minutes: 0"
    recipes.write_text(recipes.read_text().replace("epochs: 3", longer))
    for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
        stopped = stop_in_training(checkout, number)
        assert stopped.returncode == code, stopped.stdout + stopped.stderr
        assert "Traceback" not in stopped.stdout + stopped.stderr
        assert "a checkpoint is kept" in stopped.stderr
        assert "Run again: it goes on from there." in stopped.stderr
    assert count_checkpoints(checkout) == 2
    assert list_processes(f"ENGINEHOUSE_STATE={checkout.state}") == []
    flows, tasks = read_states(checkout)
    assert flows == ["CANCELLED", "CANCELLED"]
    assert set(tasks) == {"CANCELLED"}
    weights, resumed = finish(checkout)
    assert len(resumed) == 2
    assert 0 < resumed[0] < resumed[1]
    assert count_checkpoints(checkout) == 0
    assert finish(checkout, "anew") == [weights, []]


def test_the_first_signal_is_a_wish_and_what_is_under_way_is_finished() -> None:
    before = signal.getsignal(signal.SIGTERM)
    wish, finished = StopWish(), []
    with pytest.raises(Interrupted, match="between two stages") as caught, wish.heed():
        os.kill(os.getpid(), signal.SIGTERM)
        finished.append(wish())
    assert finished == [True]
    assert caught.value.signal == signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) == before
    with pytest.raises(Interrupted):
        wish.check()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_second_signal_ends_the_process_at_once(number: int, tmp_path: Path) -> None:
    script = f"""
import os
from tasks._stopping import StopWish
with StopWish().heed():
    os.kill(os.getpid(), {int(number)})
    print("finishes", flush=True)
    os.kill(os.getpid(), {int(number)})
    print("never")
"""
    root = Path(__file__).parents[2]
    done = Checkout(root, {"ENGINEHOUSE_STATE": str(tmp_path)}).run("-c", script)
    assert done.returncode == -number
    assert done.stdout == "finishes\n"
    assert "Once more ends at once" in done.stderr
