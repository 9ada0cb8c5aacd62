"""Predict: pictures in, classes, probabilities and verdicts out, by the engine that serves."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from enginehouse.build.record import Engine
from enginehouse.choices import load_choice
from enginehouse.engine import Contract, Probabilities, Session, open_engine, run_in_batches
from enginehouse.errors import DataError, EngineError, RegistryError
from enginehouse.evaluate.operating import apply_point, find_verdict
from enginehouse.evaluate.point import OperatingPoint
from enginehouse.picture import Picture, decode_picture
from enginehouse.preparation import fold_scores
from enginehouse.prepared_picture import locate_windows, prepare_picture
from enginehouse.project import Project
from enginehouse.recipe import Recipe
from tasks.registry import Registry, read_engine, read_point

TOP = 3


def predict(project: Project, recipe: Recipe, pictures: list[Path]) -> list[dict[str, object]]:
    """Classify pictures with the champion engine of a recipe.

    Returns:
        per picture: picture, and what `classify` says of it; or error.

    Raises:
        RegistryError: nothing serves under that name, or its files are altered.
        EngineError: no champion engine can run on this machine.
    """
    with tempfile.TemporaryDirectory() as scratch:
        engine, session, point = _open_champion(project, recipe, Path(scratch))
        rows: list[dict[str, object]] = []
        for path in pictures:
            try:
                picture = decode_picture(path)
            except (DataError, OSError) as error:
                rows.append({"picture": str(path), "error": str(error)})
                continue
            rows.append({"picture": str(path), **classify(picture, engine, session, point)})
        session.close()
    return rows


def classify(
    picture: Picture, engine: Engine, session: Session, point: OperatingPoint | None
) -> dict[str, object]:
    """What an engine says of a picture.

    Args:
        picture: decoded.
        engine: whose contract says how the picture is prepared.
        session: that engine, opened.
        point: its operating point, or None.

    Returns:
        class (the likeliest), probability, probabilities (of all classes). Where a picture may
        bear several labels also classes: all that it is said to bear. With an operating point
        also verdict (good, recheck or reject) and alarm (0..1, what the verdict goes by). Where
        pictures are cut into windows also windows: those that are not good, the surest first,
        each with x, y, width, height (pixels of the upright picture), class, probability.
    """
    contract = engine.sidecar.contract
    inputs = prepare_picture(picture.array, contract.preparation)
    scores = run_in_batches(session, inputs, engine.target.batch)
    folded = fold_scores(scores, contract.classes, contract.preparation.good)
    best = int(folded.argmax())
    named = zip(contract.classes, map(float, folded), strict=True)
    row: dict[str, object] = {
        "class": contract.classes[best],
        "probability": float(folded[best]),
        "probabilities": dict(sorted(named, key=lambda item: -item[1])),
    }
    problem = load_choice("problems", contract.problem)
    if problem.SEVERAL_LABELS:
        said = problem.decide(folded[None])[0]
        row["classes"] = [name for name, has in zip(contract.classes, said, strict=True) if has]
    if point:
        alarm = float(apply_point(point, folded[None], contract.classes)[0])
        row |= {"verdict": find_verdict(point, alarm), "alarm": alarm}
    if contract.preparation.tiles:
        row["windows"] = _list_alarms(picture, scores, contract)
    return row


def _list_alarms(
    picture: Picture, scores: Probabilities, contract: Contract
) -> list[dict[str, object]]:
    """The windows whose answer is not the good class, the surest first."""
    windows = locate_windows(picture.width, picture.height, contract.preparation)
    found: list[tuple[float, dict[str, object]]] = []
    for window, row in zip(windows, scores, strict=True):
        name, probability = contract.classes[int(row.argmax())], float(row.max())
        if name != contract.preparation.good:
            answer = {"class": name, "probability": probability}
            found.append((probability, {**window._asdict(), **answer}))
    return [alarm for _, alarm in sorted(found, key=lambda item: -item[0])]


def _open_champion(
    project: Project, recipe: Recipe, scratch: Path
) -> tuple[Engine, Session, OperatingPoint | None]:
    """The first engine that serves and runs here, opened, with its operating point."""
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
        folder = registry.fetch(version, folder) / "engine"
        engine, files = read_engine(folder)
        try:
            session = open_engine(files, engine.target, engine.sidecar)
            return engine, session, read_point(version, folder)
        except EngineError as error:
            reasons.append(f"{name} v{version.number}: {error.message}")
    raise RegistryError(
        f"No engine of {recipe.name} serves on this machine: {'; '.join(reasons)}.",
        f"Make one: enginehouse run --recipe {recipe.name}",
    )


def render(rows: list[dict[str, object]], as_json: bool) -> str:
    """Predictions as text, one line per picture and alarming window, or as JSON."""
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
        said = row.get("classes", [row["class"]])
        assert isinstance(said, list)
        answer = ", ".join(said) or "nothing"
        verdict = f"{row['verdict']}, alarm {row['alarm']:.3f}: " if "verdict" in row else ""
        lines.append(f"{row['picture']}: {verdict}{answer}  ({top})")
        windows = row.get("windows", [])
        assert isinstance(windows, list)
        lines += [
            f"  at {w['x']:.0f}, {w['y']:.0f}: {w['class']} {w['probability']:.3f}"
            for w in windows[:TOP]
        ]
        if len(windows) > TOP:
            lines.append(f"  and in {len(windows) - TOP} more windows (--json lists them)")
    return "\n".join(lines)
