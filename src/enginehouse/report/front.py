"""The front of size, latency and quality: numbers in, a scatter's coordinates out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from enginehouse.report.chart import find_ticks

WIDTH, HEIGHT = 360, 260
LEFT, RIGHT, TOP, BOTTOM = 46, 18, 18, 38  # margins for the numbers of the axes
LARGEST = 15.0  # radius of the largest engine, in SVG units
SMALLEST = 3.0  # so that a tiny engine can be seen
LETTER, LINE = 6.2, 13.0  # width and height of a letter of a label, in SVG units
GAP = 4.0

Box = tuple[float, float, float, float]  # left, top, right, bottom


@dataclass(frozen=True)
class Engineered:
    """One candidate as it can be compared: smaller, faster, better.

    Attributes:
        score: 0..1, more is better.
        chosen: it ships.
    """

    name: str
    num_bytes: int
    milliseconds: float
    score: float
    chosen: bool


@dataclass(frozen=True)
class Dot:
    """One candidate in SVG units; its area says how large the engine is.

    Attributes:
        best: no other is as good in everything and better in something.
    """

    name: str
    x: float
    y: float
    radius: float
    label_x: float
    label_y: float
    best: bool
    chosen: bool


@dataclass(frozen=True)
class Front:
    """A scatter in a box of WIDTH x HEIGHT.

    Attributes:
        title: what the y axis means.
        summary: the scatter in words, for those who cannot see it.
        x_ticks, y_ticks: position and text.
    """

    title: str
    summary: str
    dots: list[Dot]
    x_ticks: list[tuple[float, str]]
    y_ticks: list[tuple[float, str]]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    top: int = TOP
    bottom: int = HEIGHT - BOTTOM


def make_front(title: str, sides: Sequence[Engineered]) -> Front:
    """Lay the scatter out: milliseconds from zero to the right, the score upwards.

    Args:
        title: what the score is.
        sides: at least one.
    """
    x_values = find_ticks(0.0, max(side.milliseconds for side in sides))
    scores = [side.score for side in sides]
    y_values = find_ticks(min(scores), max(scores))
    low, high = y_values[0], y_values[-1]

    def x_of(milliseconds: float) -> float:
        return round(LEFT + milliseconds / x_values[-1] * (WIDTH - LEFT - RIGHT), 1)

    def y_of(score: float) -> float:
        return round(HEIGHT - BOTTOM - (score - low) / (high - low) * (HEIGHT - TOP - BOTTOM), 1)

    most = max(side.num_bytes for side in sides)
    circles = [
        (x_of(side.milliseconds), y_of(side.score), _find_radius(side.num_bytes / most))
        for side in sides
    ]
    places = place_labels(circles, [_label(side) for side in sides])
    dots = [
        Dot(_label(side), *circle, *place, best=is_best(side, sides), chosen=side.chosen)
        for side, circle, place in zip(sides, circles, places, strict=True)
    ]
    return Front(
        title=title,
        summary=f"{title} over milliseconds: {'; '.join(_describe(side) for side in sides)}.",
        dots=dots,
        x_ticks=[(x_of(value), f"{value:g}") for value in x_values],
        y_ticks=[(y_of(value), f"{value:g}") for value in y_values],
    )


def is_best(side: Engineered, sides: Sequence[Engineered]) -> bool:
    """Whether none of the others is as small, fast and good, and better in one of these."""

    def rank(each: Engineered) -> tuple[float, float, float]:
        return (each.num_bytes, each.milliseconds, -each.score)

    own = rank(side)
    return not any(
        all(a <= b for a, b in zip(rank(other), own, strict=True)) and rank(other) != own
        for other in sides
    )


def _find_radius(share: float) -> float:
    return round(max(SMALLEST, LARGEST * math.sqrt(share)), 1)  # the area is what is seen as size


def _label(side: Engineered) -> str:
    return f"{side.name} ✓" if side.chosen else side.name


def _describe(side: Engineered) -> str:
    ships = ", ships" if side.chosen else ""
    megabytes = f"{side.num_bytes / 1e6:.3g} MB"
    return f"{side.name} {side.score:.3f} at {side.milliseconds:.2f} ms, {megabytes}{ships}"


def place_labels(
    circles: Sequence[tuple[float, float, float]], labels: Sequence[str]
) -> list[tuple[float, float]]:
    """Where the middle of each label's baseline goes, so that as few as can be lie on another.

    Args:
        circles: x, y, radius of each dot. labels: their texts, in the same order.
    """
    taken: list[Box] = [(x - r, y - r, x + r, y + r) for x, y, r in circles]
    places = []
    for (x, y, radius), label in zip(circles, labels, strict=True):
        half = len(label) * LETTER / 2
        beside = half + radius + GAP
        offers = [
            (x, y - radius - GAP),
            (x, y + radius + LINE),
            (x + beside, y + GAP),
            (x - beside, y + GAP),
            (x, y - radius - GAP - LINE),
            (x, y + radius + 2 * LINE),
        ]
        boxes = [_find_box(place, half) for place in offers]
        spoiled = [_count_overlaps(box, taken) for box in boxes]
        best = spoiled.index(min(spoiled))
        taken.append(boxes[best])
        left, _, right, _ = boxes[best]
        # What would be cut off at a side of the drawing is moved in.
        shift = max(0.0, GAP - left) - max(0.0, right - (WIDTH - GAP))
        places.append((round(offers[best][0] + shift, 1), round(offers[best][1], 1)))
    return places


def _find_box(place: tuple[float, float], half: float) -> Box:
    x, y = place
    return x - half, y - LINE, x + half, y + 2


def _count_overlaps(box: Box, taken: Sequence[Box]) -> int:
    """How many it lies on; leaving the drawing counts as two."""
    left, top, right, bottom = box
    hits = sum(
        left < other[2] and other[0] < right and top < other[3] and other[1] < bottom
        for other in taken
    )
    outside = left < 0 or right > WIDTH or top < 0 or bottom > HEIGHT - BOTTOM
    return hits + 2 * outside
