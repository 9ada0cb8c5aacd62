"""How training in two processes ends early, and goes on: asked to, killed, on two nodes."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import torch
from safetensors.torch import load_file

from enginehouse.artifact import Report, Workspace, never, silent
from enginehouse.errors import Interrupted, TrainingError
from enginehouse.prepare.record import Pack
from enginehouse.train.loop import STEPS
from enginehouse.train.record import TrainedModel
from enginehouse.train.train import train
from tests.unit import strained_rank
from tests.unit.tiny_pack import open_workspace, seal_pack, tiny_config

CONFIG = tiny_config(
    model={"family": "strained", "name": "wait-0-3"},
    devices=2,
    epochs=2,
    log_every=1,
    optimizer="sgd",
)
PARENT = """
import sys
from pathlib import Path
from tests.unit.test_ddp_ends import CONFIG, train
from tests.unit.tiny_pack import open_workspace, seal_pack

def report(message, done=0, total=0, **metrics):
    print(message, flush=True)

folder = Path(sys.argv[1])
train(seal_pack(folder), CONFIG, open_workspace(folder, report))
"""


@pytest.fixture
def pack(tmp_path: Path) -> Pack:
    return seal_pack(tmp_path)


@pytest.fixture(autouse=True)
def _strained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    strained_rank.install(tmp_path, monkeypatch)


def open_resumable(
    folder: Path, report: Report = silent, stopping: Callable[[], bool] = never
) -> Workspace:
    """A fresh scratch folder, and always the same one for checkpoints."""
    here = open_workspace(folder)
    return Workspace(
        here.store, here.scratch, report, stopping=stopping, resumable=folder / "resumable"
    )


def read_weights(folder: Path, model: TrainedModel) -> dict[str, torch.Tensor]:
    return load_file(open_workspace(folder).path(model, "weights.safetensors"))


@pytest.fixture
def others() -> set[psutil.Process]:
    """Processes that earlier tests left to this one (servers that processes are forked from)."""
    return set(psutil.Process().children(recursive=True))


def list_ranks(parent: int) -> list[psutil.Process]:
    """The ranks below a process, by rank."""
    below = psutil.Process(parent).children(recursive=True)
    ranks = [each for each in below if "enginehouse.train.rank" in each.cmdline()]
    return sorted(ranks, key=lambda each: int(each.environ()["RANK"]))


def assert_nothing_left(processes: list[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(processes, timeout=20)
    assert not alive


def test_asked_to_stop_it_saves_and_a_rerun_comes_to_the_same(
    pack: Pack, tmp_path: Path, others: set[psutil.Process]
) -> None:
    gate, running, begun = tmp_path / "gate", [], []

    def report(message: str, done: int = 0, total: int = 0, **metrics: float) -> None:
        if message == STEPS:
            begun.append(done)

    def stopping() -> bool:
        if running:
            gate.touch()  # the second question comes after the ranks were told
        elif begun:
            running.extend(set(psutil.Process().children(recursive=True)) - others)
        return bool(running)

    with pytest.raises(Interrupted, match="in epoch 1, after 4 steps; a checkpoint is kept"):
        train(pack, CONFIG, open_resumable(tmp_path, report, stopping))
    assert_nothing_left(running)
    resumed = train(pack, CONFIG, open_resumable(tmp_path))
    assert resumed.notes["resumed"] == [4]
    whole = train(pack, CONFIG.model_copy(update={"devices": 1}), open_workspace(tmp_path))
    for name, value in read_weights(tmp_path, whole).items():
        found = read_weights(tmp_path, resumed)[name]
        assert torch.allclose(value, found, rtol=0, atol=1e-5), name


def test_a_process_that_is_killed_ends_all_and_is_named(
    pack: Pack, tmp_path: Path, others: set[psutil.Process]
) -> None:
    running: list[psutil.Process] = []

    def report(message: str, done: int = 0, total: int = 0, **metrics: float) -> None:
        if message == STEPS and not running:
            running.extend(set(psutil.Process().children(recursive=True)) - others)
            list_ranks(os.getpid())[1].kill()

    (tmp_path / "gate").touch()  # who waits in Python would not learn of it
    config = CONFIG.model_copy(update={"epochs": 1000, "patience": 1000})
    with pytest.raises(TrainingError, match="Process 1 ended with signal SIGKILL"):
        train(pack, config, open_workspace(tmp_path, report))
    assert_nothing_left(running)


def test_a_killed_stage_leaves_no_process(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PARENT, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        assert STEPS in iter(lambda: run.stdout.readline().strip(), "")
        below = psutil.Process(run.pid).children(recursive=True)
        assert len(list_ranks(run.pid)) == 2
        run.kill()
    assert run.returncode == -signal.SIGKILL
    assert_nothing_left(below)


def test_two_nodes_find_each_other(
    pack: Pack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        port = probe.getsockname()[1]
    for name, value in {
        "PET_NNODES": "2",
        "PET_RDZV_BACKEND": "c10d",
        "PET_RDZV_ENDPOINT": f"localhost:{port}",
        "PET_RDZV_ID": "tests",
        "PET_LOCAL_ADDR": "localhost",
    }.items():
        monkeypatch.setenv(name, value)
    others: list[subprocess.Popen[bytes]] = []

    def report(message: str, done: int = 0, total: int = 0, **metrics: float) -> None:
        _, found, command = message.partition("on each: ")
        if found:
            _, *arguments = shlex.split(command)
            others.append(subprocess.Popen([sys.executable, *arguments]))

    (tmp_path / "gate").touch()
    model = train(pack, CONFIG, open_workspace(tmp_path, report))
    assert (model.notes["devices"], model.notes["warnings"]) == (2, [])
    assert [other.wait(timeout=60) for other in others] == [0]
