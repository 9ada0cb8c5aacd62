"""Predict: pictures in, classes and probabilities out, by the engine that serves."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np

from enginehouse.build.record import Engine
from enginehouse.engine import Session, open_engine, run_in_batches
from enginehouse.errors import DataError, EngineError, RegistryError
from enginehouse.picture import read_picture
from enginehouse.project import Project
from enginehouse.recipe import Recipe
from tasks.registry import Registry, read_engine

TOP = 3


def predict(project: Project, recipe: Recipe, pictures: list[Path]) -> list[dict[str, object]]:
    """Classify pictures with the champion engine of a recipe.

    Returns:
        per picture: picture, class, probability, probabilities (all classes), or error.

    Raises:
        RegistryError: nothing serves under that name, or its files are altered.
        EngineError: no champion engine can run on this machine.
    """
    with tempfile.TemporaryDirectory() as scratch:
        engine, session = _open_champion(project, recipe, Path(scratch))
        contract = engine.sidecar.contract
        rows: list[dict[str, object]] = []
        for path in pictures:
            try:
                picture = read_picture(path, contract.size)
            except (DataError, OSError) as error:
                rows.append({"picture": str(path), "error": str(error)})
                continue
            scores = run_in_batches(session, picture[np.newaxis], engine.target.batch)[0]
            best = int(scores.argmax())
            named = zip(contract.classes, map(float, scores), strict=True)
            rows.append(
                {
                    "picture": str(path),
                    "class": contract.classes[best],
                    "probability": float(scores[best]),
                    "probabilities": dict(sorted(named, key=lambda item: -item[1])),
                }
            )
        session.close()
    return rows


def _open_champion(project: Project, recipe: Recipe, scratch: Path) -> tuple[Engine, Session]:
    registry = Registry(project.state)
    reasons = []
    for target in recipe.targets:
        name = f"{recipe.name}.{target.name}"
        version = registry.find_alias(name, "champion")
        if version is None:
            reasons.append(f"{name} has no champion")
            continue
        folder = scratch / target.name  # each its own: files of two engines share names
        folder.mkdir()
        engine, files = read_engine(registry.fetch(version, folder) / "engine")
        try:
            return engine, open_engine(files, engine.target, engine.sidecar)
        except EngineError as error:
            reasons.append(f"{name} v{version.number}: {error.message}")
    raise RegistryError(
        f"No engine of {recipe.name} serves on this machine: {'; '.join(reasons)}.",
        f"Make one: enginehouse run --recipe {recipe.name}",
    )


def render(rows: list[dict[str, object]], as_json: bool) -> str:
    """Predictions as text, one line per picture, or as JSON."""
    if as_json:
        return json.dumps(rows, indent=1, ensure_ascii=False)
    lines = []
    for row in rows:
        if "error" in row:
            lines.append(f"{row['picture']}: {row['error']}")
            continue
        scores = row["probabilities"]
        assert isinstance(scores, dict)
        top = ", ".join(f"{name} {score:.3f}" for name, score in list(scores.items())[:TOP])
        lines.append(f"{row['picture']}: {row['class']}  ({top})")
    return "\n".join(lines)
