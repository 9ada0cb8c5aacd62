"""The model registry, and the door to MLflow: only it and what it is made of speak to that.

Layout: one registered model per recipe, one per engine as `<recipe>.<target>`. A version's tag
`enginehouse.release` holds the identity of what it carries, so everything here is idempotent by
look-up: ensuring twice changes nothing. MLflow aliases have no compare-and-set; who moves them
(the flow `promote`) re-reads around every write.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enginehouse.artifact import Record
from enginehouse.engine import Contract
from enginehouse.errors import RegistryError
from enginehouse.evaluate.point import OperatingPoint
from tasks._engine_files import read_engine, write_engine
from tasks._mlflow import TAG
from tasks._mlflow_model import log_model
from tasks._mlflow_runs import Point, Runs, TrainingRun, read_machine

if TYPE_CHECKING:
    from mlflow.entities.model_registry import RegisteredModel

__all__ = [
    "Point",
    "Registry",
    "TrainingRun",
    "Version",
    "read_engine",
    "read_machine",
    "read_point",
    "record_tag",
    "write_engine",
]


@dataclass(frozen=True)
class Version:
    """One version of a registered model, its tags without our prefix."""

    name: str
    number: int
    run_id: str
    source: str
    tags: Mapping[str, str]


class Registry(Runs):
    """The registered models of a tracking server or database, and the runs that made them.

    Raises:
        RegistryError: (every method) MLflow cannot be reached or refuses.
    """

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
            model_id = log_model(run_id, name, contract, files)
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


def _version(found: Any) -> Version:
    tags = {k.removeprefix(TAG): v for k, v in found.tags.items() if k.startswith(TAG)}
    return Version(found.name, int(found.version), found.run_id or "", found.source, tags)
