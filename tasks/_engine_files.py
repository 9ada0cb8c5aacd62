"""An engine as files that stand alone: how they are written, and read again. Knows no MLflow."""

from __future__ import annotations

from pathlib import Path

from enginehouse.artifact import RecordUnreadable, Workspace
from enginehouse.build.record import Engine
from enginehouse.errors import RegistryError
from enginehouse.evaluate.point import OperatingPoint


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
