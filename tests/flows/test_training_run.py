"""A training as MLflow shows it while it runs, against a real server over HTTP."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from enginehouse.artifact import Report, silent
from enginehouse.errors import EnginehouseError, Interrupted, RegistryError
from enginehouse.stage import Job, Outcome, Stage, run_job
from enginehouse.store import Store
from enginehouse.train.train import train
from flows.services import bind
from tasks._training import TrainingLog, watch_training
from tasks.registry import Registry, TrainingRun
from tests.unit.tiny_pack import seal_pack, tiny_config

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

PATIENCE = 60.0  # seconds for what another thread or process does


@pytest.fixture
def client(mlflow_server: str, monkeypatch: pytest.MonkeyPatch) -> MlflowClient:
    point_at(mlflow_server, monkeypatch)
    from mlflow.tracking import MlflowClient

    return MlflowClient(mlflow_server)


def point_at(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything in this process that asks for MLflow finds it there, or soon nothing."""
    import mlflow

    monkeypatch.setenv("MLFLOW_TRACKING_URI", url)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    mlflow.set_tracking_uri(url)


class Trainings:
    """Trainings of one recipe in one store; what they warned of."""

    def __init__(self, folder: Path, recipe: str) -> None:
        self.folder = folder
        self.recipe = recipe
        self.store = Store(folder / "store")
        self.warnings: list[str] = []

    def run(
        self,
        report: Report = silent,
        stopping: Callable[[], bool] = lambda: False,
        labels: tuple[int, ...] = (0, 1, 2) * 24,
        **fields: Any,
    ) -> Outcome:
        """Train through the stage's own door: cached, locked, watched."""
        pack = seal_pack(self.folder, labels)
        config = tiny_config(**{"log_every": 1, **fields})
        job = Job(Stage.of(train), f"{self.recipe}/train", config, {"pack": pack})
        watch = watch_training(self.folder, self.recipe, "0f" * 16, self.warnings.append)
        outcome = run_job(self.store, job, report, stopping=stopping, watch=watch)
        assert isinstance(outcome, Outcome)
        return outcome


def list_runs(client: MlflowClient, recipe: str) -> list[Any]:
    experiment = client.get_experiment_by_name(f"enginehouse/{recipe}")
    assert experiment is not None
    return list(client.search_runs([experiment.experiment_id]))


def read_steps(client: MlflowClient, run_id: str, name: str) -> list[int]:
    return sorted({metric.step for metric in client.get_metric_history(run_id, name)})


def test_a_training_is_seen_while_it_runs_and_is_whole_in_the_end(
    client: MlflowClient, tmp_path: Path
) -> None:
    seen: list[tuple[str, bool]] = []

    def look(message: str, done: int = 0, total: int = 0, **metrics: float) -> None:
        """Before the last epoch, wait until the first ones are there."""
        if message != "epoch 2/3":
            return
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            with contextlib.suppress(AssertionError, ValueError):  # not there yet
                (run,) = list_runs(client, "seen")
                if "epoch/macro_f1" in run.data.metrics:
                    seen.append((run.info.status, "step/loss" in run.data.metrics))
                    return
            time.sleep(0.1)

    trainings = Trainings(tmp_path, "seen")
    outcome = trainings.run(look)
    assert seen == [("RUNNING", True)]
    (run,) = list_runs(client, "seen")
    assert run.info.status == "FINISHED"
    assert run.data.params["train.epochs"] == "3"
    assert run.data.params["train.model.name"] == "tiny_cnn"
    tags = {
        name: run.data.tags[f"enginehouse.{name}"] for name in ("kind", "key", "recipe", "data")
    }
    assert tags == {"kind": "training", "key": outcome.key, "recipe": "seen", "data": "0f" * 16}
    for name in ("loss", "learning_rate", "grad_norm", "images_per_s", "data_wait", "skipped"):
        assert read_steps(client, run.info.run_id, f"step/{name}") == list(range(1, 16))
    for name in ("loss", "val_loss", "macro_f1", "accuracy", "learning_rate"):
        assert read_steps(client, run.info.run_id, f"epoch/{name}") == [1, 2, 3]
    assert "system/cpu_utilization_percentage" in run.data.metrics
    notes: Any = outcome.record.notes["history"]
    assert run.data.metrics["epoch/macro_f1"] == notes[-1]["macro_f1"]
    assert Registry(tmp_path).find_training(outcome.key) == run.info.run_id
    assert trainings.warnings == []
    # A cached training opens no run.
    assert trainings.run().cached
    assert len(list_runs(client, "seen")) == 1


def test_a_training_that_goes_on_goes_on_in_the_same_run(
    client: MlflowClient, tmp_path: Path
) -> None:
    trainings = Trainings(tmp_path, "resumed")
    steps: list[int] = []

    def count(message: str, done: int = 0, total: int = 0, **metrics: float) -> None:
        if message == "steps":
            steps.append(done)

    with pytest.raises(Interrupted):
        trainings.run(count, stopping=lambda: len(steps) >= 7)
    (run,) = list_runs(client, "resumed")
    assert run.info.status == "KILLED"
    assert run.data.tags["enginehouse.ended"].startswith("Interrupted: Training was stopped")
    assert read_steps(client, run.info.run_id, "step/loss") == list(range(1, 8))
    # A number that no result depends on may change meanwhile; parameters stay as they were.
    outcome = trainings.run(checkpoint_minutes=5)
    (again,) = list_runs(client, "resumed")
    assert again.info.run_id == run.info.run_id
    assert again.info.status == "FINISHED"
    assert again.data.tags["enginehouse.ended"] == "finished"
    assert read_steps(client, run.info.run_id, "step/loss") == list(range(1, 16))
    assert outcome.record.notes["resumed"] == [7]
    assert trainings.warnings == []


def test_a_training_that_fails_is_failed(client: MlflowClient, tmp_path: Path) -> None:
    with pytest.raises(EnginehouseError, match="no picture of"):
        Trainings(tmp_path, "failed").run(labels=(0, 1) * 24)
    (run,) = list_runs(client, "failed")
    assert run.info.status == "FAILED"
    assert "no picture of blue" in run.data.tags["enginehouse.ended"]


def test_training_goes_on_without_mlflow_and_warns_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with bind(0) as listener:  # whose port is closed again
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    point_at(url, monkeypatch)
    trainings = Trainings(tmp_path, "alone")
    outcome = trainings.run()
    assert not outcome.cached
    (warning,) = trainings.warnings
    assert "MLflow does not get this training's metrics" in warning
    assert url in warning


def test_what_could_not_be_sent_is_sent_later(client: MlflowClient, tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    tries: list[int] = []

    def open_run() -> tuple[Registry, TrainingRun]:
        tries.append(len(tries))
        if len(tries) == 1:
            raise RegistryError("it is away")
        return registry, registry.open_training("late", "k" * 64, {}, {})

    warnings: list[str] = []
    log = TrainingLog(open_run, warnings.append)
    for step in (1, 2, 3):
        log.add("steps", step, {"loss": 1 / step})
    log.end("FINISHED", "finished")
    assert len(tries) == 2
    (run,) = list_runs(client, "late")
    assert run.info.status == "FINISHED"
    assert read_steps(client, run.info.run_id, "step/loss") == [1, 2, 3]
    assert len(warnings) == 1
