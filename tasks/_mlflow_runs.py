"""Runs in MLflow: of releases, of trainings as they go, and of data reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks._mlflow import TAG, Connection


@dataclass(frozen=True)
class Point:
    """One value of a metric; `time` in seconds since 1970."""

    name: str
    value: float
    time: float
    step: int


@dataclass(frozen=True)
class TrainingRun:
    """The run of a training, and when it began, in seconds since 1970."""

    run_id: str
    started: float


class Runs(Connection):
    """What MLflow keeps of runs; one experiment per recipe."""

    def start_run(self, recipe: str, release: str, tags: Mapping[str, str]) -> str:
        """The id of the finished run that describes a release, made if it is not there."""
        with self._reaching():
            experiment = self._find_experiment(recipe)
            found = self._client.search_runs(
                [experiment], f"tags.`{TAG}release` = '{release}'", max_results=1
            )
            if found:
                return str(found[0].info.run_id)
            run = self._client.create_run(
                experiment,
                run_name=f"{recipe} {release[:8]}",
                tags={f"{TAG}release": release, **{TAG + k: v for k, v in tags.items()}},
            )
            self._client.set_terminated(run.info.run_id)
            return str(run.info.run_id)

    def _find_experiment(self, recipe: str) -> str:
        name = f"enginehouse/{recipe}"
        found = self._client.get_experiment_by_name(name)
        if found:
            return str(found.experiment_id)
        # Without a server the client itself decides where artifacts go: beside the database.
        local = self.uri.startswith("sqlite:")
        place = (self.state / "mlartifacts" / recipe).as_uri() if local else None
        return str(self._client.create_experiment(name, artifact_location=place))

    def log_history(
        self, run_id: str, parameters: Mapping[str, Any], history: list[dict[str, float]]
    ) -> None:
        """Log parameters and per-epoch metrics of a run (writing the same again is harmless)."""
        points = [
            Point(name, float(value), 0, int(row["epoch"]))
            for row in history
            for name, value in row.items()
            if name != "epoch"
        ]
        with self._reaching():
            self._log_parameters(run_id, parameters)
        self.log_points(run_id, points)

    def open_training(
        self, recipe: str, key: str, tags: Mapping[str, str], parameters: Mapping[str, Any]
    ) -> TrainingRun:
        """The run of a training that begins: the unfinished one of the same key, or a new one.

        Args:
            key: of the stage; who has it, has computed or will compute the same weights.
            parameters: written once, as MLflow lets nobody change them.
        """
        with self._reaching():
            experiment = self._find_experiment(recipe)
            found = self._client.search_runs(
                [experiment],
                f"tags.`{TAG}key` = '{key}' and attributes.status != 'FINISHED'",
                max_results=1,
            )
            if found:
                run = found[0]
                self._client.update_run(run.info.run_id, "RUNNING")
            else:
                run = self._client.create_run(
                    experiment,
                    run_name=f"{recipe} training {key[:8]}",
                    tags={
                        TAG + name: value
                        for name, value in {"kind": "training", "key": key, **tags}.items()
                    },
                )
                self._log_parameters(run.info.run_id, parameters)
        return TrainingRun(str(run.info.run_id), run.info.start_time / 1000)

    def log_points(self, run_id: str, points: Sequence[Point]) -> None:
        """Log values of metrics (the same again is harmless)."""
        from mlflow.entities import Metric

        metrics = [Metric(p.name, p.value, round(1000 * p.time), p.step) for p in points]
        with self._reaching():
            for start in range(0, len(metrics), 1000):
                self._client.log_batch(run_id, metrics=metrics[start : start + 1000])

    def end_training(self, run_id: str, status: str, reason: str) -> None:
        """End the run of a training.

        Args:
            status: `FINISHED`, `FAILED` or `KILLED`.
            reason: kept as the tag `ended`.
        """
        with self._reaching():
            self._client.set_tag(run_id, f"{TAG}ended", reason[:5000])
            self._client.set_terminated(run_id, status)

    def find_training(self, key: str) -> str:
        """The id of the run of the training with this key, whatever its recipe; or nothing."""
        with self._reaching():
            experiments = self._client.search_experiments(filter_string="name LIKE 'enginehouse/%'")
            found = self._client.search_runs(
                [str(each.experiment_id) for each in experiments],
                f"tags.`{TAG}key` = '{key}' and attributes.status = 'FINISHED'",
                max_results=1,
            )
        return str(found[0].info.run_id) if found else ""

    def _log_parameters(self, run_id: str, parameters: Mapping[str, Any]) -> None:
        from mlflow.entities import Param

        params = [Param(name, str(value)[:500]) for name, value in parameters.items()]
        for start in range(0, len(params), 100):
            self._client.log_batch(run_id, params=params[start : start + 100])

    def log_folder(self, run_id: str, folder: Path, place: str) -> None:
        """Upload a folder's files under `place` among a run's artifacts."""
        with self._reaching():
            self._client.log_artifacts(run_id, str(folder), place)

    def log_data_report(self, recipe: str, page: Path, tags: Mapping[str, str]) -> str:
        """The run that holds the data report whose page this is; made if it is not there.

        Args:
            page: its folder is named by the verdict and holds all of the report.
        """
        run_id = self.start_run(recipe, page.parent.name, {"kind": "data", **tags})
        with self._reaching():
            held = self._client.list_artifacts(run_id, "data_report")
        if not held:
            self.log_folder(run_id, page.parent, "data_report")
        return run_id


def read_machine(run_id: str) -> Callable[[], dict[str, float]]:
    """A reader of MLflow's system metrics: processor, memory, disk, network, and GPU if there.

    Each call gives the numbers of the time since the one before.
    """
    from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor

    monitor: Any = SystemMetricsMonitor
    monitors = monitor(run_id).monitors  # its own thread would log, and fail, beside ours

    def read() -> dict[str, float]:
        found: dict[str, float] = {}
        for each in monitors:
            each.collect_metrics()
            found |= {f"system/{name}": v for name, v in each.aggregate_metrics().items()}
            each.clear_metrics()
        return found

    read()  # the first load of a processor is since never
    return read
