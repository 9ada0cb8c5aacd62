"""A small line chart: numbers in, coordinates out; the page's template draws them as SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 360, 220
LEFT, RIGHT, TOP, BOTTOM = 40, 14, 12, 34  # margins for the numbers of the axes
MAX_TICK = 5  # characters
MAX_DOTS = 40  # a longer line has a dot at its end only

Series = Sequence[tuple[int, float]]


@dataclass(frozen=True)
class Line:
    """One series: its name, the points of its polyline and the dots on it, in SVG units."""

    name: str
    points: str
    dots: list[tuple[float, float]]


@dataclass(frozen=True)
class Chart:
    """A chart in a box of WIDTH x HEIGHT.

    Attributes:
        summary: the chart in words, for those who cannot see it.
        over: what the x axis counts, in the plural.
        x_ticks, y_ticks: position and text.
        mark: x position of what to point out. marked: what that is.
    """

    title: str
    summary: str
    over: str
    lines: list[Line]
    x_ticks: list[tuple[float, str]]
    y_ticks: list[tuple[float, str]]
    mark: float
    marked: str
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    top: int = TOP
    bottom: int = HEIGHT - BOTTOM


def make_chart(
    title: str,
    series: Mapping[str, Series],
    mark: int,
    from_zero: bool,
    over: str = "epochs",
    marked: str = "best epoch, kept",
) -> Chart:
    """Lay a chart out.

    Args:
        title: what the y axis means.
        series: name to (epoch, value), epochs rising; at least one point in all.
        mark: epoch to point out; marked: what it is.
        from_zero: the y axis begins at zero.
        over: what the x axis counts, where that is not epochs.
    """
    epochs = [epoch for line in series.values() for epoch, _ in line]
    values = [value for line in series.values() for _, value in line]
    first, last = min(epochs), max(epochs)
    y_values = find_ticks(0.0 if from_zero else min(values), max(values))
    low, high = y_values[0], y_values[-1]

    def x_of(epoch: float) -> float:
        share = (epoch - first) / (last - first) if last > first else 0.5
        return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)

    def y_of(value: float) -> float:
        return round(HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM), 1)

    lines = []
    for name, line in series.items():
        dots = [(x_of(epoch), y_of(value)) for epoch, value in line]
        points = " ".join(f"{x},{y}" for x, y in dots)
        lines.append(Line(name, points, dots if len(dots) <= MAX_DOTS else dots[-1:]))
    words = [
        f"{name} {line[0][1]:.3g} to {line[-1][1]:.3g}" for name, line in series.items() if line
    ]
    step = max(1, math.ceil((last - first) / 7))
    return Chart(
        title=title,
        summary=f"{title}, {over} {first} to {last}: {'; '.join(words)}.",
        over=over,
        lines=lines,
        x_ticks=[(x_of(epoch), str(epoch)) for epoch in range(first, last + 1, step)],
        y_ticks=[(y_of(value), _show_tick(value)) for value in y_values],
        mark=x_of(mark),
        marked=marked,
    )


def _show_tick(value: float) -> str:
    """Short enough to fit beside the axis: 0.5, 20, 2e-4, 1.2e-3."""
    text = f"{value:g}"
    return (
        text if len(text) <= MAX_TICK else f"{value:.1e}".replace(".0e", "e").replace("e-0", "e-")
    )


def find_ticks(low: float, high: float) -> list[float]:
    """Two to seven round numbers, 1, 2 or 5 times a power of ten apart, that enclose a range."""
    span = high - low or abs(high) or 1.0
    power = 10.0 ** math.floor(math.log10(span / 5))
    step = next(power * m for m in (1, 2, 5, 10) if span / (power * m) <= 5)
    start, end = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(place * step, 10) for place in range(start, max(end, start + 1) + 1)]
