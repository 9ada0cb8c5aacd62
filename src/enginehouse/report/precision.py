"""What the page says of precision: what ships on each target, what was given up, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter

from enginehouse.choose.record import Decision
from enginehouse.choose.table import list_rows
from enginehouse.compare.record import Step
from enginehouse.engine import Target
from enginehouse.quantize.record import PLAIN
from enginehouse.report.flips import make_flips
from enginehouse.report.front import Engineered, Front, make_front
from enginehouse.report.history import make_charts
from enginehouse.report.page import PageData
from enginehouse.report.sensitivity import make_sensitivity
from enginehouse.report.tables import count_bytes, name_candidate
from enginehouse.road import Tried

NOTHING = "–"
STEPS = TypeAdapter(list[Step])
TEXTS = TypeAdapter(list[str])
TIMES = TypeAdapter(dict[str, float])
LOSSES = {"errors": "Errors", "escapes": "Escapes", "overkill": "Overkill"}


def make_precision(page: PageData) -> dict[str, Any]:
    """Every target's decision, and of the first required one all that stands behind it.

    Raises:
        StoreError: bytes of the pack or of a scorecard are gone.
    """
    first = page.target
    others = [target for target in page.recipe.targets if target != first]
    decision, tried = page.road.decisions.get(first.name), page.road.tried.get(first.name, {})
    models = page.road.quantized.items()
    return {
        "targets": [_describe_target(page, target) for target in (first, *others)],
        "front": draw_front(decision, tried) if decision else None,
        "flips": make_flips(page, decision, tried) if decision else [],
        "sensitivity": [
            found for name, model in models if (found := make_sensitivity(name, model))
        ],
        "histories": [
            {
                "name": name,
                "charts": make_charts(model)[:2],  # losses and scores
                "warnings": TEXTS.validate_python(model.notes.get("warnings", [])),
            }
            for name, model in models
            if "history" in model.notes
        ],
        "chain": list_chain(page),
    }


def _describe_target(page: PageData, target: Target) -> dict[str, Any]:
    road = page.road
    decision, tried = road.decisions.get(target.name), road.tried.get(target.name, {})
    if decision is None:
        return {
            "name": target.name,
            "sentence": _say_undecided(page, target, tried),
            "given_up": [],
            "rows": [_describe_undecided(each) for each in tried.values()],
        }
    return {
        "name": target.name,
        "sentence": say_decision(decision, tried, target.name),
        "given_up": list_given_up(decision, tried),
        "rows": [_describe_row(row) for row in list_rows(decision, tried.values())],
    }


def _say_undecided(page: PageData, target: Target, tried: Mapping[str, Tried]) -> str:
    """What a target without its device here comes to: an engine that nobody has judged, or none."""
    road = page.road
    why = road.waiting.get(target.name, "it was not reached in this run")
    if target.name in road.engines:
        built = name_precision(tried[road.chosen[target.name]])
        return f"{built} is taken for {target.name}, and was not judged here: {why}"
    return f"Nothing was decided on {target.name}: {why}"


def name_precision(tried: Tried) -> str:
    """`INT8 (int8_ptq)`; `fp32` for the network as it was trained."""
    if tried.name == PLAIN:
        return name_candidate(PLAIN)
    return f"{tried.precision.upper()} ({tried.name})"


def say_decision(decision: Decision, tried: Mapping[str, Tried], target: str) -> str:
    """What ships on a target, how fast it is, and what it may lose, in one sentence."""
    chosen = tried[decision.chosen]
    ships = f"{name_precision(chosen)} ships on {target}"
    if chosen.name == PLAIN:
        why = "no smaller candidate may" if len(tried) > 1 else "nothing else was tried"
        return f"{ships}: {why}."
    times = TIMES.validate_python(decision.notes["milliseconds"])
    judged = next(each for each in decision.judged if each.name == chosen.name)
    errors = judged.errors
    return (
        f"{ships}: {times[PLAIN] / times[chosen.name]:.1f} times as fast as fp32. Of {errors.of} "
        f"answers on validation it loses {errors.lost} and gains {errors.gained}: at most "
        f"{errors.bound:.1%} more are wrong, with 95 % confidence."
    )


def list_given_up(decision: Decision, tried: Mapping[str, Tried]) -> list[str]:
    """Every candidate that does not ship, with the reason; fp32 is not one of them."""
    return [
        f"{name_precision(tried[row['candidate']])}: {row['reason']}"
        for row in list_rows(decision, tried.values())
        if not row["ships"] and row["candidate"] != PLAIN
    ]


def _describe_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """One row of the decision table, as text."""
    word, tone = "✕ does not ship", "bad"
    if row["ships"]:
        word, tone = "✓ ships", "good"
    elif row["candidate"] == PLAIN:
        word, tone = "does not ship", "muted"
    worst = row["worst_class"]
    return {
        "name": name_candidate(row["candidate"]),
        "precision": row["precision"],
        "verdict": word,
        "tone": tone,
        "cells": [
            ("MB", _show(row["bytes"], "{:.3g}", 1e-6)),
            ("ms", _show(row["milliseconds"], "{:.2f}")),
            ("Speed-up", _show_speedup(row)),
            *((title, show_loss(row, name)) for name, title in LOSSES.items()),
            ("Lost defects", _show(row["lost_defects"], "{}")),
            (
                "Worst class",
                f"{worst}: {row['worst_loss']}, allowed {row['worst_allowed']}"
                if worst
                else NOTHING,
            ),
            ("Why", row["reason"] or NOTHING),
        ],
    }


def _describe_undecided(tried: Tried) -> dict[str, Any]:
    """A row of a target on which nothing could be decided here."""
    size = count_bytes(tried.engine) if tried.engine else None
    return {
        "name": name_candidate(tried.name),
        "precision": tried.precision,
        "verdict": "✕ does not ship" if tried.failed else "waits",
        "tone": "bad" if tried.failed else "warn",
        "cells": [
            ("MB", _show(size, "{:.3g}", 1e-6)),
            ("Why", tried.failed or tried.waiting or NOTHING),
        ],
    }


def _show(value: float | None, form: str, factor: float = 1) -> str:
    return NOTHING if value is None else form.format(value * factor)


def _show_speedup(row: Mapping[str, Any]) -> str:
    if row["speedup"] is None:
        return NOTHING
    return f"{row['speedup']:.2f}× {name_candidate(row['against'])}"


def show_loss(row: Mapping[str, Any], name: str) -> str:
    """`2 lost, 1 gained of 20; at most +18.1%`: with the bound of the difference."""
    lost, gained, of = (row[f"{name}_{field}"] for field in ("lost", "gained", "of"))
    if of is None:
        return NOTHING
    if row["candidate"] == PLAIN:
        return f"of {of}"
    bound = f"{row[f'{name}_bound']:+.1%}".replace("-", "−")
    return f"{lost} lost, {gained} gained of {of}; at most {bound}"


def draw_front(decision: Decision, tried: Mapping[str, Tried]) -> Front | None:
    """Size, latency and quality of what was scored; None of a single candidate."""
    times = TIMES.validate_python(decision.notes["milliseconds"])
    sides = [
        Engineered(
            name=name_candidate(name),
            num_bytes=count_bytes(each.engine),
            milliseconds=times[name],
            score=each.validation.macro_f1,
            chosen=name == decision.chosen,
        )
        for name, each in tried.items()
        if each.engine and each.validation and name in times
    ]
    return make_front("Macro F1 on validation", sides) if len(sides) > 1 else None


def list_chain(page: PageData) -> list[dict[str, str]]:
    """Every step from torch fp32 to the engines, candidate by candidate."""
    rows = []
    for name, onnx in page.road.onnx.items():
        steps = [(step, "") for step in STEPS.validate_python(onnx.notes["parity"])]
        for target, tried in page.road.tried.items():
            if name in tried and (parity := tried[name].parity):
                steps.append((parity.step, target))
        rows += [_describe_step(name, step, target) for step, target in steps]
    return rows


def _describe_step(candidate: str, step: Step, target: str) -> dict[str, str]:
    return {
        "candidate": f"{name_candidate(candidate)}{f', {target}' if target else ''}",
        "step": step.name,
        "largest": f"{step.max_difference:.1e}",
        "mean": f"{step.mean_difference:.1e}",
        "flips": f"{step.flips} of {step.num_pictures}",
    }
