"""Trainings that are killed in the middle, in processes of their own (run by the tests)."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path

from enginehouse.artifact import Report, silent
from enginehouse.prepare.record import Pack
from enginehouse.stage import Job, Outcome, Stage, run_job
from enginehouse.store import Store
from enginehouse.train.config import TrainConfig
from enginehouse.train.record import TrainedModel
from enginehouse.train.train import train

PRELOAD = [__name__, "torch", "torch._dynamo", "scipy.optimize", "pandas", "safetensors.torch"]
SLOT = "tiny/train"


def run_train(
    root: Path, pack: Pack, config: TrainConfig, report: Report = silent
) -> tuple[Outcome, TrainedModel]:
    """Train as a run of the pipeline does, with the store in `root`."""
    job = Job(Stage.of(train), SLOT, config, {"pack": pack})
    outcome = run_job(Store(root / "store"), job, report)
    assert isinstance(outcome, Outcome)
    assert isinstance(outcome.record, TrainedModel)
    return outcome, outcome.record


def run_until(root: Path, pack: Pack, config: TrainConfig, message: str, done: int) -> None:
    """The same, but this process kills itself when that is reported.

    Where other processes read, all of them are sent SIGTERM with every step, as by Prefect.
    """
    if config.workers:
        os.setpgid(0, 0)
        signal.signal(signal.SIGTERM, lambda number, frame: None)

    def report(said: str, number: int = 0, total: int = 0, **metrics: float) -> None:
        if (said, number) == (message, done):
            os.kill(os.getpid(), signal.SIGKILL)
        if config.workers:
            os.killpg(0, signal.SIGTERM)

    run_train(root, pack, config, report)


def kill_at(root: Path, pack: Pack, config: TrainConfig, message: str, done: int) -> None:
    """Train in another process until it is killed there."""
    # Forked from a process that has imported what takes seconds; readers have a server of theirs.
    context = multiprocessing.get_context("spawn" if config.workers else "forkserver")
    context.set_forkserver_preload(PRELOAD)
    process = context.Process(target=run_until, args=(root, pack, config, message, done))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
