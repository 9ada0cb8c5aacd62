"""What a person reads when a run is over: the closing summary, and its tables for Prefect."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from typing import Any, cast

from pydantic import TypeAdapter

from enginehouse.evaluate.record import Scorecard
from enginehouse.measure.record import EAGER
from enginehouse.quantize.record import PLAIN
from enginehouse.train.diagnosis import Finding
from enginehouse.train.profile import TABLE
from flows.result import RunResult

MAX_LINES = 3  # about training; the report has all of them


def render_summary(result: RunResult) -> str:
    """The closing summary as aligned lines of text."""
    waiting = result.run.road.waiting
    targets = [target.name for target in result.run.recipe.targets]
    rows = [
        ("data", _data(result)),
        (result.run.resolved.status, result.run.resolved.hint),
        ("quality", _quality(result)),
        *(("precision", text) for text in _precision(result)),
        ("defects", _defects(result)),
        ("latency", _latency(result)),
        ("registered", _registered(result)),
        *(("not here", f"{name} {waiting[name]}") for name in targets if name in waiting),
        *(("training", text) for text in _training(result)),
        ("profile", _profile(result)),
        ("report", result.report.as_uri()),
    ]
    lines = [result.headline, *(f"  {name:<13}{text}" for name, text in rows if text)]
    # A reason may hold what a library said, on several lines.
    return "\n".join(" ".join(line.splitlines()) for line in lines)


def render_markdown(result: RunResult) -> str:
    """The same as markdown, for the run's page in Prefect."""
    head, *lines = render_summary(result).splitlines()
    cells = [re.split(r"\s{2,}", line.strip().replace("|", "\\|"), maxsplit=1) for line in lines]
    table = "\n".join(f"| {' | '.join(cell)} |" for cell in cells)
    return f"# {head}\n\n| | |\n|---|---|\n{table}\n"


def suggest_next(result: RunResult) -> str:
    """Three things to try next."""
    picture = _example_picture(result)
    name = result.run.recipe.name
    recipe = "" if name == "sample" else f" --recipe {name}"
    # After `make run` the environment is not active, so its folder has to be named.
    command = "enginehouse" if shutil.which("enginehouse") else ".venv/bin/enginehouse"
    return "\n".join(
        [
            "Try next:",
            f"  {command} predict {shlex.quote(picture)}{recipe}",
            f"  move one picture into another class folder and run again; then `{command} "
            f"explain{recipe}` says what had to rerun and why",
            "  make up    and look around",
        ]
    )


def table_of_gates(result: RunResult) -> list[dict[str, Any]]:
    """One row per gate and engine."""
    return [
        {"gate": g.gate, "engine": g.engine, "passed": g.passed, "reason": g.reason}
        for g in result.gates
    ]


def table_of_stages(result: RunResult) -> list[dict[str, Any]]:
    """One row per stage: whether it ran, and why."""
    return [
        {"stage": o.place, "cached": o.cached, "reason": o.reason}
        for o in result.run.context.outcomes
    ]


def _data(result: RunResult) -> str:
    road, resolved = result.run.road, result.run.resolved
    repeats = road.pack.notes.get("dropped_duplicates", [])
    assert isinstance(repeats, list)
    status = {"clean": "as in data.dvc", "modified": "modified", "unversioned": "not versioned"}
    return (
        f"version {resolved.digest[:12]} ({status[resolved.status]}): {road.manifest.num_rows} "
        f"pictures kept, {road.manifest.num_quarantined} quarantined, {len(repeats)} repeated"
    )


def _quality(result: RunResult) -> str:
    road, recipe = result.run.road, result.run.recipe
    names = {recipe.reference.name: "fp32"} | {
        name: f"{name} {chosen}" for name, chosen in road.chosen.items() if chosen != PLAIN
    }
    card = _last_card(result)
    if card is None:
        return ""
    scores = [
        f"{label} {road.scorecards[name].macro_f1:.4f}"
        for name, label in names.items()
        if name in road.scorecards
    ]
    text = f"macro F1 {', '.join(scores)} on {card.num_pictures} {card.split} pictures"
    return "; ".join([text, *_tell_outcome(card)])


def _tell_outcome(card: Scorecard) -> list[str]:
    """Escapes and overkill at the operating point, and what people look at again."""
    outcome = card.outcome
    if outcome is None:
        return []
    told = []
    if outcome.escapes:
        told.append(
            f"{outcome.escapes.num} of {outcome.escapes.of} defective {outcome.unit}s escape"
        )
    if outcome.overkill:
        told.append(f"{outcome.overkill.num} of {outcome.overkill.of} good ones are rejected")
    if outcome.rechecked.num:
        told.append(f"{outcome.rechecked.num} are for people to look at again")
    return [", ".join(told)]


def _last_card(result: RunResult) -> Scorecard | None:
    """The scorecard of the last target that has one."""
    cards = result.run.road.scorecards
    names = [result.run.recipe.reference.name, *(t.name for t in result.run.recipe.targets)]
    return next((cards[name] for name in reversed(names) if name in cards), None)


def _defects(result: RunResult) -> str:
    card = _last_card(result)
    if card is None or card.defects is None:
        return ""
    found = [
        f"{point.recall:.1%} at {point.limit:g} false alarms per megapixel"
        for point in card.defects.points
    ]
    return f"of {card.defects.num_boxes}, found are {', '.join(found)}" if found else ""


def _precision(result: RunResult) -> list[str]:
    """Of each target that was judged here: what ships and why, and why nothing smaller does."""
    told = []
    for name, decision in result.run.road.decisions.items():
        reasons = dict(cast(dict[str, str], decision.notes["reasons"]))
        reasons |= {
            tried.name: tried.failed or tried.waiting
            for tried in result.run.road.tried[name].values()
            if tried.failed or tried.waiting
        }
        told.append(f"{name}: {_call(decision.chosen)} {reasons.pop(decision.chosen)}")
        told += [f"  not {other}: {why}" for other, why in reasons.items() if other != PLAIN]
    return told


def _latency(result: RunResult) -> str:
    road, target = result.run.road, result.run.recipe.main_target
    if target.name not in road.latencies:
        return ""
    notes: Any = road.latencies[target.name].notes
    times = {row["name"]: row["milliseconds"] for row in notes["rows"]}
    chosen = road.chosen[target.name]
    mine = times[chosen]
    others = {f"{target.backend} fp32": times[PLAIN], EAGER: times[EAGER]}
    told = [f"{target.backend} {_call(chosen)} {mine:.2f} ms"]
    told += [
        f"{other / mine:.1f}x faster than {name}" for name, other in others.items() if other > mine
    ]
    text = ", ".join(told)
    device = str(notes["device"]).removeprefix("cpu, ").partition(" (")[0]
    day = str(notes["date"]).partition("T")[0]
    return f"{text} (batch {notes['batch']}, {device}, {day})"


def _call(candidate: str) -> str:
    """What people call a candidate."""
    return "fp32" if candidate == PLAIN else candidate


def _registered(result: RunResult) -> str:
    engines = [
        f"{v.name} v{v.number}" + ("" if v.tags.get("verified") == "yes" else " (unverified)")
        for v in result.engines.values()
    ]
    alias = f" is {result.promotion.word}" if result.promotion.word != "unsettled" else ""
    return f"{result.model.name} v{result.model.number}{alias}; " + ", ".join(
        engines or ["no engine"]
    )


def _training(result: RunResult) -> list[str]:
    """What a person should know of the training: symptoms with their remedies, and warnings."""
    notes = result.run.road.model.notes
    findings = TypeAdapter(list[Finding]).validate_python(notes.get("diagnosis", []))
    warnings = TypeAdapter(list[str]).validate_python(notes.get("warnings", []))
    told = [f"{each.symptom}: {each.evidence}; {each.remedy}" for each in findings]
    lines = [*told, *warnings]
    more = len(lines) - MAX_LINES
    return [*lines[:MAX_LINES], *([f"and {more} more in the report"] if more > 0 else [])]


def _profile(result: RunResult) -> str:
    """Where the profile is, if one was wanted; or why there is none."""
    folder = result.run.context.profile
    if folder is None or (folder / TABLE).is_file():
        return str(folder or "")
    return (
        "none: training is cached, so nothing ran that could be looked at. Set another "
        "train.seed in the recipe, or an empty folder as ENGINEHOUSE_STORE, and run again"
    )


def _example_picture(result: RunResult) -> str:
    import pandas as pd

    table = result.run.workspace.path(result.run.road.manifest, "manifest.parquet")
    names = pd.read_parquet(table, columns=["path"])["path"]
    picture = result.run.resolved.folder / names[len(names) // 2]
    try:
        return str(picture.relative_to(Path.cwd()))
    except ValueError:
        return str(picture)
