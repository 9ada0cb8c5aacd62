"""The model registry: the only file that speaks MLflow.

Layout: one registered model per recipe, one per engine as `<recipe>.<target>`. A version's tag
`enginehouse.release` holds the identity of what it carries, so everything here is idempotent by
look-up: ensuring twice changes nothing. MLflow aliases have no compare-and-set; who moves them
(the flow `promote`) re-reads around every write.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from enginehouse.artifact import Record, RecordUnreadable, Workspace
from enginehouse.build.record import Engine
from enginehouse.choices import load_choice
from enginehouse.engine import Contract
from enginehouse.errors import RegistryError
from enginehouse.evaluate.point import OperatingPoint

if TYPE_CHECKING:
    from mlflow.entities.model_registry import RegisteredModel
    from mlflow.tracking import MlflowClient

TAG = "enginehouse."
SERVED = Path(__file__).with_name("served.py")


@dataclass(frozen=True)
class Version:
    """One version of a registered model, its tags without our prefix."""

    name: str
    number: int
    run_id: str
    source: str
    tags: Mapping[str, str]


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


class Registry:
    """A tracking server or database, reached through MLflow's client.

    Raises:
        RegistryError: (every method) MLflow cannot be reached or refuses.
    """

    def __init__(self, state: Path) -> None:
        self.uri = os.environ["MLFLOW_TRACKING_URI"]
        self.state = state
        # The first look at a new database makes its tables; two processes must not do so at once.
        with FileLock(state / "mlflow-start.lock"), self._reaching():
            self._client: MlflowClient = _quiet_client()
            self._client.search_registered_models(max_results=1)

    @contextlib.contextmanager
    def _reaching(self) -> Iterator[None]:
        from mlflow.exceptions import MlflowException

        try:
            yield
        except (MlflowException, OSError) as error:
            said = str(error).replace(self.uri, hide_password(self.uri)).splitlines()[0][:300]
            raise RegistryError(
                f"MLflow at {hide_password(self.uri)} did not do what was asked: {said}",
                "Nothing is lost: every finished stage is in the store. Bring MLflow back (or set "
                "MLFLOW_TRACKING_URI) and run `enginehouse run` with the same recipe again; it "
                "registers without rebuilding.",
            ) from error

    def versions(self, name: str) -> list[Version]:
        """All versions of a registered model, newest first; none if it does not exist."""
        with self._reaching():
            found = self._client.search_model_versions(f"name='{name}'")
        return sorted(map(_version, found), key=lambda version: -version.number)

    def find_release(self, name: str, release: str) -> Version | None:
        """The version that carries a release, or None."""
        return next((v for v in self.versions(name) if v.tags.get("release") == release), None)

    def aliases(self, name: str) -> dict[str, int]:
        """Alias to version number; empty if the model does not exist."""
        model = self._find_model(name)
        return {alias: int(number) for alias, number in model.aliases.items()} if model else {}

    def last_release(self, name: str) -> str:
        """The release that the latest finished run came to, or an empty string."""
        model = self._find_model(name)
        return str(model.tags.get(f"{TAG}last_release", "")) if model else ""

    def note_last_release(self, name: str, release: str) -> None:
        """Write down which release the latest finished run came to."""
        if self.last_release(name) != release:
            with self._reaching():
                self._client.set_registered_model_tag(name, f"{TAG}last_release", release)

    def _find_model(self, name: str) -> RegisteredModel | None:
        from mlflow.exceptions import MlflowException

        with self._reaching():
            try:
                return self._client.get_registered_model(name)
            except MlflowException as error:
                if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                    raise
                return None

    def find_alias(self, name: str, alias: str) -> Version | None:
        """The version an alias points at, or None.

        Raises:
            RegistryError: it points at a version that does not exist.
        """
        number = self.aliases(name).get(alias)
        if number is None:
            return None
        versions = self.versions(name)
        for version in versions:
            if version.number == number:
                return version
        raise RegistryError(
            f"Alias {alias} of {name} points at version {number}, which does not exist; there "
            f"are {', '.join(str(v.number) for v in versions) or 'none'}.",
            f"Move the alias {alias} to a version that exists.",
        )

    def set_alias(self, name: str, alias: str, number: int) -> None:
        """Point an alias at a version."""
        with self._reaching():
            self._client.set_registered_model_alias(name, alias, str(number))

    def set_tags(self, version: Version, **tags: str) -> Version:
        """Write tags of a version (our prefix is added); those that already say it are left."""
        with self._reaching():
            for key, value in tags.items():
                if version.tags.get(key) != value:
                    self._client.set_model_version_tag(
                        version.name, str(version.number), TAG + key, value
                    )
        return replace(version, tags={**version.tags, **tags})

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

    def ensure_model(
        self,
        name: str,
        release: str,
        run_id: str,
        contract: Contract,
        artifacts: Callable[[Path], dict[str, Path]],
        tags: Mapping[str, str],
    ) -> Version:
        """The version that carries a release, registered if there is none.

        Args:
            artifacts: writes the files into the given folder and names them; called when needed.
        """
        if found := self.find_release(name, release):
            return found
        with tempfile.TemporaryDirectory() as scratch, self._reaching():
            files = {key: str(path) for key, path in artifacts(Path(scratch)).items()}
            model_id = _log_pyfunc(run_id, name, contract, files)
            made = self._client.create_model_version(
                self._ensure_name(name),
                f"models:/{model_id}",
                run_id,
                tags={f"{TAG}release": release, **{TAG + k: v for k, v in tags.items()}},
                model_id=model_id,
            )
        return _version(made)

    def _ensure_name(self, name: str) -> str:
        from mlflow.exceptions import MlflowException

        try:
            self._client.create_registered_model(name)
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
        return name

    def fetch(self, version: Version, folder: Path) -> Path:
        """Download a version's artifacts; returns the folder that holds them by their names.

        Raises:
            RegistryError: the artifacts are gone.
        """
        import mlflow

        with self._reaching():
            path = mlflow.artifacts.download_artifacts(
                artifact_uri=f"models:/{version.name}/{version.number}", dst_path=str(folder)
            )
        return Path(path) / "artifacts"


def write_engine(
    workspace: Workspace, engine: Engine, folder: Path, point: OperatingPoint | None = None
) -> Path:
    """An engine as files that stand alone.

    They are what the backend wrote; `engine.json`; and, where it has an operating point,
    `operating_point.json`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    workspace.copy_out(engine, folder)
    (folder / "engine.json").write_text(engine.to_json(), encoding="utf-8")
    if point:
        text = point.model_dump_json(indent=1)
        (folder / "operating_point.json").write_text(text, encoding="utf-8")
    return folder


def read_engine(folder: Path) -> tuple[Engine, dict[str, Path]]:
    """The engine in a folder that `write_engine` wrote, every digest checked.

    Raises:
        RegistryError: a file is missing or altered, or another version's code wrote the record.
    """
    from enginehouse.store import hash_file

    try:
        engine = Engine.from_json((folder / "engine.json").read_text(encoding="utf-8"))
    except RecordUnreadable as reason:
        raise RegistryError(
            f"The registered engine cannot be used: {reason}.",
            "Run the recipe again: `enginehouse run`; or load the engine as an MLflow model, "
            "which brings its own code.",
        ) from reason
    files = {name: folder / name for name in engine.files}
    for name, path in files.items():
        if not path.is_file() or hash_file(path) != engine.files[name].sha256:
            raise RegistryError(
                f"{name} of the registered engine {engine.target.name} is missing or altered.",
                "Register the release again: `enginehouse run` with its recipe.",
            )
    return engine, files


def read_point(version: Version, folder: Path) -> OperatingPoint | None:
    """The operating point of a registered engine, or None.

    The tag says it, as it is there also for an engine that was scored after it was registered;
    files beside a registered model can't be added.

    Args:
        version: of the engine.
        folder: what `write_engine` wrote, for one whose tags were lost.

    Raises:
        RegistryError: other code wrote it.
    """
    file = folder / "operating_point.json"
    text = version.tags.get("operating_point", "")
    if not text and file.is_file():
        text = file.read_text(encoding="utf-8")
    try:
        return OperatingPoint.model_validate_json(text) if text else None
    except ValueError as error:
        raise RegistryError(
            f"The operating point of {version.name} v{version.number} does not fit this code.",
            "Run the recipe again: `enginehouse run`.",
        ) from error


def record_tag(record: Record) -> str:
    """A record as the text of a tag, without what only `explain` needs."""
    return record.model_copy(update={"made_by": None, "notes": {}}).to_json()


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


def hide_password(uri: str) -> str:
    """An address without the password in it."""
    head, at, tail = uri.rpartition("@")
    scheme, mark, user = head.partition("://")
    return f"{scheme}{mark}{user.partition(':')[0]}:***@{tail}" if at and ":" in user else uri


def _quiet_client() -> MlflowClient:
    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)
    from mlflow.tracking import MlflowClient

    return MlflowClient()


def _version(found: Any) -> Version:
    tags = {k.removeprefix(TAG): v for k, v in found.tags.items() if k.startswith(TAG)}
    return Version(found.name, int(found.version), found.run_id or "", found.source, tags)


def _log_pyfunc(run_id: str, name: str, contract: Contract, files: dict[str, str]) -> str:
    import mlflow
    import numpy as np
    from mlflow.models import ModelSignature
    from mlflow.types import Schema, TensorSpec

    import enginehouse

    signature = ModelSignature(
        Schema([TensorSpec(np.dtype("uint8"), (-1, -1, -1, -1))]),
        Schema([TensorSpec(np.dtype("float32"), (-1, len(contract.classes)))]),
    )
    with warnings.catch_warnings(), mlflow.start_run(run_id=run_id):
        warnings.simplefilter("ignore")  # it asks for an example, which would run the engine here
        info = mlflow.pyfunc.log_model(
            name=name.replace(".", "-"),
            python_model=str(SERVED),
            artifacts=files,
            signature=signature,
            code_paths=[str(Path(str(enginehouse.__file__)).parent)],
            pip_requirements=_requirements(contract),
            metadata={"contract": json.loads(contract.model_dump_json())},
        )
    return str(info.model_id)


def _requirements(contract: Contract) -> list[str]:
    from importlib.metadata import version

    names = {"filelock", "mlflow", "numpy", "onnxruntime", "opencv-python-headless", "openvino"}
    names |= {"pillow", "pyarrow", "pydantic"}
    for step in contract.preparation.clean:
        names.update(load_choice("cleaners", step.step).LIBRARIES)
    return [f"{name}=={version(name)}" for name in sorted(names)]
