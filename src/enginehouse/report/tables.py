"""What the page shows of records: numbers and words, ready to print. Knows no bytes, no HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, TypeAdapter

from enginehouse.build.record import Engine
from enginehouse.measure.record import EAGER
from enginehouse.prepare.split import SPLITS
from enginehouse.quantize.record import PLAIN
from enginehouse.report.page import PageData

MAX_MATRIX = 16  # more classes than this: the commonest mistakes as a list instead
MAX_MISTAKES = 20
MAX_REPEATS = 100
SHOWN = 0.0005  # a smaller difference is no change at three decimals
REPEATS = TypeAdapter(list[tuple[str, str]])


@dataclass(frozen=True)
class Figure:
    """One number that people look for first."""

    label: str
    value: str
    detail: str


def list_figures(page: PageData) -> list[Figure]:
    """The key numbers that this run has, most telling first."""
    return [*_list_quality(page), *_list_speed(page), _count_pictures(page)]


def _list_quality(page: PageData) -> list[Figure]:
    card, twin = page.shipped, page.reference
    if card is None:
        return []
    detail = f"on {card.num_pictures} {card.split} pictures"
    if twin is not None:
        change = format_change(card.macro_f1 - twin.macro_f1)
        detail = f"fp32: {twin.macro_f1:.3f} ({change}), {detail}"
    figures = [Figure(f"Macro F1, {name_engine(page)}", f"{card.macro_f1:.3f}", detail)]
    if outcome := card.outcome:
        for name, rate, detail in (
            ("Escapes", outcome.escapes, f"defective {outcome.unit}s passed as good"),
            ("Overkill", outcome.overkill, f"good {outcome.unit}s rejected"),
        ):
            if rate:
                figures.append(Figure(name, f"{rate.num} of {rate.of}", detail))
    if card.defects is not None:
        detail = f"of {card.defects.num_boxes} labelled ones, by the engine's own answers"
        figures.append(Figure("Defects found", f"{card.defects.recall:.1%}", detail))
    return figures


def _list_speed(page: PageData) -> list[Figure]:
    """Against the network as it was trained: as an engine, and in PyTorch."""
    if page.target.name not in page.road.latencies:
        return []
    own, *others = make_latency(page)["rows"]
    return [
        Figure(
            f"Speed against {row['name']}",
            row["ratio"],
            f"{own['milliseconds']} ms instead of {row['milliseconds']} ms",
        )
        for row in others
        if row["name"] in (name_candidate(PLAIN), EAGER)
    ]


def _count_pictures(page: PageData) -> Figure:
    num_used = sum(page.road.pack.counts.values())
    num_quarantined, num_repeats = page.road.manifest.num_quarantined, make_repeats(page)["num"]
    detail = f"quarantined: {num_quarantined}, repeated: {num_repeats}"
    return Figure(f"{page.samples.title()} used", str(num_used), detail)


def name_engine(page: PageData) -> str:
    """`INT8 engine`."""
    return f"{page.precision.upper()} engine"


def name_candidate(name: str) -> str:
    """What a candidate is called: its name, but `fp32` for the network as it was trained."""
    return "fp32" if name == PLAIN else name


def count_bytes(engine: Engine) -> int:
    """Size of all files of an engine."""
    return sum(blob.size for blob in engine.files.values())


def format_change(change: float) -> str:
    """A difference with its sign, for people."""
    return f"{change:+.3f}".replace("-", "−") if abs(change) >= SHOWN else "±0"


def list_recalls(page: PageData) -> list[dict[str, Any]]:
    """Per class that has pictures: recall of the engine and of its fp32 twin."""
    card, twin = page.shipped, page.reference
    if card is None:
        return []
    rows = []
    for name, scores in card.class_scores.items():
        if scores.recall is not None:
            own = scores.recall
            change = own - twin.recalls[name] if twin else 0.0
            rows.append(
                {
                    "name": name,
                    "num": scores.support,
                    "own": f"{own:.3f}",
                    "width": round(100 * own, 1),
                    "twin": f"{twin.recalls[name]:.3f}" if twin else "–",
                    "change": format_change(change) if twin else "–",
                    "tone": "bad" if change <= -SHOWN else "good" if change >= SHOWN else "muted",
                }
            )
    return rows


def make_confusion(classes: Sequence[str], counts: Sequence[Sequence[int]]) -> dict[str, Any]:
    """The matrix, shaded by share of its row; or the commonest mistakes between many classes.

    Args:
        classes: names by index.
        counts: rows are true classes, columns answers; () where there is no such matrix.
    """
    if len(counts) > MAX_MATRIX:
        pairs = [
            (classes[true], classes[said], num)
            for true, row in enumerate(counts)
            for said, num in enumerate(row)
            if num and true != said
        ]
        pairs.sort(key=lambda pair: -pair[2])
        return {"there": True, "classes": classes, "rows": [], "pairs": pairs[:MAX_MISTAKES]}
    rows = []
    for true, row in enumerate(counts):
        cells = [_shade_cell(num, sum(row), true == said) for said, num in enumerate(row)]
        rows.append({"name": classes[true], "cells": cells})
    return {"there": len(counts) > 0, "classes": classes, "rows": rows, "pairs": []}


def make_defects(page: PageData) -> dict[str, Any]:
    """What share of the labelled defects is found at how many false alarms; {} untiled."""
    if page.shipped is None or page.shipped.defects is None:
        return {}
    own, twin = page.shipped.defects, page.reference.defects if page.reference else None
    others = {point.limit: point.recall for point in twin.points} if twin else {}
    rows = [(f"at most {p.limit:g}", others.get(p.limit), p.recall) for p in own.points]
    if own.false_alarms is not None:
        answers = f"{own.false_alarms:.2g}, by the engine's own answers"
        rows.append((answers, twin.recall if twin else None, own.recall))
    shown = [(name, *map(_show_share, recalls)) for name, *recalls in rows]
    return {"scores": own, "rows": shown}


def _show_share(share: float | None) -> str:
    return "–" if share is None else f"{share:.1%}"


def _shade_cell(num: int, total: int, hit: bool) -> dict[str, Any]:
    if num == 0:
        return {"num": 0, "share": 0, "kind": "none"}
    # The root lets a single mistake among many be seen; above 0.8 the number could not be read.
    share = round(0.8 * (num / total) ** 0.5, 2)
    return {"num": num, "share": share, "kind": "hit" if hit else "miss"}


class LatencyRow(BaseModel):
    """A row of the notes of a latency."""

    name: str
    milliseconds: float
    pictures_per_second: float


def make_latency(page: PageData) -> dict[str, Any]:
    """The timed sides, the shipped engine first; how many times its time each of them takes."""
    latency = page.road.latencies.get(page.target.name)
    if latency is None:
        return {}
    notes = latency.notes
    rows = TypeAdapter(list[LatencyRow]).validate_python(notes["rows"])
    name = page.road.chosen[page.target.name]
    own = next(row.milliseconds for row in rows if row.name == name)
    slowest = max(row.milliseconds for row in rows)
    return {
        **notes,
        "date": str(notes["date"]).replace("T", " ")[:16],
        "rows": [
            {
                "name": name_candidate(row.name),
                "own": row.name == name,
                "milliseconds": f"{row.milliseconds:.2f}",
                "rate": f"{row.pictures_per_second:,.0f}",
                "ratio": f"{row.milliseconds / own:.1f}×",
                "width": round(100 * row.milliseconds / slowest, 1),
            }
            for row in sorted(rows, key=lambda row: row.name != name)
        ],
    }


def make_repeats(page: PageData) -> dict[str, Any]:
    """Pictures that prepare left out because another has the same pixels."""
    rows = REPEATS.validate_python(page.road.pack.notes["dropped_duplicates"])
    return {"num": len(rows), "rows": rows[:MAX_REPEATS]}


def describe_splits(page: PageData) -> str:
    """How many pictures, or windows, of how many classes went into which split."""
    counts = page.road.pack.counts
    splits = ", ".join(f"{counts[name]} {name}" for name in SPLITS)
    num, num_classes = sum(counts.values()), len(page.road.pack.classes)
    return f"{num} {page.samples} of {num_classes} classes: {splits}."


def list_engines(page: PageData) -> list[dict[str, str]]:
    """Every target and the fp32 twin: what it was made for, what it scored, or why it waits."""
    road, rows = page.road, []
    for target in (*page.recipe.targets, page.recipe.reference):
        engine, card = road.engines.get(target.name), road.scorecards.get(target.name)
        role = "required" if target.required else "optional"
        precision = engine.target.precision if engine else f"{target.precision} or larger"
        made_for = f"{target.backend} on {target.device}, {precision}"
        if engine:
            made_for += f", {engine.sidecar.library} {engine.sidecar.library_version}"
        rows.append(
            {
                "name": target.name,
                "role": role if target != page.recipe.reference else "the fp32 twin",
                "made_for": made_for,
                "waiting": road.waiting.get(target.name, ""),
                "score": f"{card.macro_f1:.3f}" if card else "–",
                "size": f"{count_bytes(engine) / 1e6:.3g}" if engine else "–",
            }
        )
    return rows
