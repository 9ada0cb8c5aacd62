"""What quantizing does to each layer alone, and which layers were left in float for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, TypeAdapter

from enginehouse.quantize.record import QuantizedModel
from enginehouse.report.chart import Chart, find_ticks, make_chart

UNCHANGED = 144.5  # decibels; as much is measured where not one bit of the logits changes
MAX_BARS = 20  # layers in the plot; the table has all
MAX_NAME = 44  # letters of a layer that fit beside its number
WIDTH, LEFT, RIGHT = 360, 8, 16
ROW, BAR, TOP, BOTTOM = 30, 9, 4, 24  # heights; a row is a line of text above a bar


class Layer(BaseModel):
    """One row of `sensitivity`: the network with only this layer quantized, against float.

    Attributes:
        sqnr_db: signal to noise of the logits.
        flips: validation pictures whose answer differs.
        lost: those that only float gets right, less the reverse.
    """

    name: str
    kind: str
    sqnr_db: float
    flips: int
    lost: int


class Step(BaseModel):
    """One try of the search: how many layers were in float, and how many answers differed."""

    kept: int
    flips: int


class Search(BaseModel):
    """The search for the fewest layers to keep in float.

    Attributes:
        max_flips: the budget. flips: what it ended with.
        kept: names of the layers that are kept.
        steps: all that was tried, also several choices of as many layers.
    """

    max_flips: int
    num_pictures: int
    flips: int
    kept: list[str]
    steps: list[Step]


@dataclass(frozen=True)
class Bar:
    """One layer in SVG units; `kept` in float."""

    name: str
    value: str
    y: float
    x: float
    width: float
    kept: bool


@dataclass(frozen=True)
class Bars:
    """A horizontal plot in a box of `width` x `height`, worst layer first.

    Attributes:
        summary: the plot in words, for those who cannot see it.
        ticks: position and text.
    """

    summary: str
    bars: list[Bar]
    ticks: list[tuple[float, str]]
    height: float
    width: int = WIDTH
    left: int = LEFT
    right: int = WIDTH - RIGHT
    bar: int = BAR
    top: int = TOP
    bottom: int = BOTTOM


def make_sensitivity(name: str, model: QuantizedModel) -> dict[str, Any]:
    """Plot, table and search of one candidate; {} where its quantizer looked at no layers."""
    layers = TypeAdapter(list[Layer]).validate_python(model.notes.get("sensitivity", []))
    if not layers:
        return {}
    kept = set(model.kept_float)
    layers.sort(key=lambda layer: layer.sqnr_db)
    return {
        "name": name,
        "num": len(layers),
        "bars": make_bars(layers, kept),
        "rows": [
            {
                "name": layer.name,
                "kind": layer.kind,
                "kept": layer.name in kept,
                "sqnr": _show(layer.sqnr_db),
                "flips": layer.flips,
                "lost": layer.lost,
            }
            for layer in layers
        ],
        "kept": [layer.name for layer in layers if layer.name in kept],
        "search": _describe_search(model),
    }


def _show(decibels: float) -> str:
    return "no change" if decibels >= UNCHANGED else f"{decibels:.1f} dB".replace("-", "−")


def make_bars(layers: Sequence[Layer], kept: set[str]) -> Bars:
    """Lay the plot out.

    Args:
        layers: worst first, at least one.
        kept: names of those that stay in float.
    """
    shown = layers[:MAX_BARS]
    values = [layer.sqnr_db for layer in shown if layer.sqnr_db < UNCHANGED]
    ticks = find_ticks(min([0.0, *values]), max([0.0, *values]))
    low, high = ticks[0], ticks[-1]

    def x_of(value: float) -> float:
        return round(LEFT + (value - low) / (high - low) * (WIDTH - LEFT - RIGHT), 1)

    bars = []
    for place, layer in enumerate(shown):
        ends = sorted((x_of(0.0), x_of(min(layer.sqnr_db, high))))
        bars.append(
            Bar(
                name=shorten(layer.name),
                value=_show(layer.sqnr_db),
                y=TOP + place * ROW,
                x=ends[0],
                width=round(max(ends[1] - ends[0], 1.0), 1),
                kept=layer.name in kept,
            )
        )
    told = "; ".join(
        f"{layer.name} {_show(layer.sqnr_db)}{', kept in float' if layer.name in kept else ''}"
        for layer in shown
    )
    return Bars(
        summary=f"Signal to noise of the logits with only this layer quantized: {told}.",
        bars=bars,
        ticks=[(x_of(value), f"{value:g}".replace("-", "−")) for value in ticks],
        height=TOP + len(shown) * ROW + BOTTOM,
    )


def shorten(name: str) -> str:
    """The end of a long name, which tells layers apart."""
    return name if len(name) <= MAX_NAME else "…" + name[1 - MAX_NAME :]


def _describe_search(model: QuantizedModel) -> dict[str, Any]:
    """The search in numbers and as a small curve; {} where there was none."""
    if "search" not in model.notes:
        return {}
    search = Search.model_validate(model.notes["search"])
    return {
        "num": search.num_pictures,
        "budget": search.max_flips,
        "flips": search.flips,
        "chart": _draw_search(search) if len(search.steps) > 1 else None,
    }


def _draw_search(search: Search) -> Chart:
    fewest: dict[int, int] = {}
    for step in search.steps:
        fewest[step.kept] = min(step.flips, fewest.get(step.kept, step.flips))
    series = {
        "other answers": [(kept, float(fewest[kept])) for kept in sorted(fewest)],
        "budget": [(kept, float(search.max_flips)) for kept in (min(fewest), max(fewest))],
    }
    return make_chart(
        *("Answers that differ from fp32", series, len(search.kept)),
        from_zero=True,
        over="layers in float",
        marked="kept",
    )
