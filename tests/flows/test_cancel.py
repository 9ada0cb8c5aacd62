"""A run that is told to stop: training is saved, Prefect sees it cancelled, a rerun goes on."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
from pathlib import Path

import pytest

from enginehouse.errors import Interrupted
from tasks._stopping import StopWish
from tests.conftest import Checkout
from tests.test_services import list_processes

# Trains the recipe to its end, as a rerun does, and anew, with nothing to go on from.
FINISH = """
import json, tempfile
from pathlib import Path
from enginehouse.artifact import Workspace
from enginehouse.project import find_project
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
    record = plain(task, place, config, **inputs)
    if place != "train":
        return record
    with tempfile.TemporaryDirectory() as scratch:
        anew = train(config=config, here=Workspace(context.store, Path(scratch)), **inputs)
    print(json.dumps([[r.files["weights.safetensors"].sha256, r.notes["resumed"]]
                      for r in (record, anew)]))
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


def list_checkpoints(checkout: Checkout) -> list[str]:
    return sorted(path.name for path in checkout.store.glob("resumable/tiny.train/*/step-*.pt"))


def stop_in_training(checkout: Checkout, number: int) -> subprocess.CompletedProcess[str]:
    """Run the recipe, and send this signal once it has trained for a while."""
    run = checkout.start("-m", "flows.cli", "run", "--recipe", "tiny")
    while not list_checkpoints(checkout):
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
    stopped = stop_in_training(checkout, signal.SIGTERM)
    assert stopped.returncode == 143, stopped.stdout + stopped.stderr
    assert "Traceback" not in stopped.stdout + stopped.stderr
    assert "a checkpoint is kept" in stopped.stderr
    assert "Run again: it goes on from there." in stopped.stderr
    assert list_processes(f"ENGINEHOUSE_STATE={checkout.state}") == []
    flows, tasks = read_states(checkout)
    assert flows == ["CANCELLED"]
    assert tasks == ["CANCELLED"]
    last = list_checkpoints(checkout)[-1]
    done = checkout.run("-c", FINISH)
    assert done.returncode == 0, done.stderr
    (weights, resumed), anew = json.loads(done.stdout.splitlines()[-1])
    assert [f"step-{step:09}" for step in resumed] == [last[:14]]
    assert anew == [weights, []]
    assert not list_checkpoints(checkout)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_is_a_wish_and_what_is_under_way_is_finished(number: int) -> None:
    before = signal.getsignal(number)
    wish, finished = StopWish(), []
    with pytest.raises(Interrupted, match="between two stages") as caught, wish.heed():
        os.kill(os.getpid(), number)
        finished.append(wish())
    assert finished == [True]
    assert caught.value.signal == number
    assert signal.getsignal(number) == before
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
