"""Boxes meet the true size of their picture: placed, clipped, dropped or refused.

Knows nothing of label formats: whatever one read, its boxes end here as pixels of the upright
picture, inside it, and everything that was changed or not used is said.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from enginehouse.ingest.frames import Frame, Points, turn_points
from enginehouse.labels import Box, Finding, Labelled, LeftOut

NOISE = 0.5  # pixels by which rounded numbers reach over an edge without being worth a word


class SettledBox(NamedTuple):
    """One box as the manifest has it: pixels of the upright picture, inside it."""

    label: str
    x: float
    y: float
    width: float
    height: float
    polygons: tuple[Points, ...]
    place: str


class Settled(NamedTuple):
    """The boxes of one picture, and what there is to say of them."""

    boxes: list[SettledBox]
    left_out: list[LeftOut]
    findings: list[Finding]


def settle_boxes(path: str, labelled: Labelled, frame: Frame) -> Settled:
    """Place the boxes of one picture.

    Args:
        path: of the picture.
        frame: the true size of the picture.
    """
    settled = Settled([], [], [])
    size = _judge_size(path, labelled, frame, settled)
    if size is None:
        return settled
    seen: dict[tuple[object, ...], str] = {}
    for box in labelled.boxes:
        placed = _settle(path, labelled, box, frame, size, settled)
        if placed is None:
            continue
        what = placed[:-1]  # all but its place
        if what in seen:
            settled.findings.append(_say_duplicate(path, labelled, placed, seen[what]))
        else:
            seen[what] = placed.place
            settled.boxes.append(placed)
    return settled


def _judge_size(
    path: str, labelled: Labelled, frame: Frame, settled: Settled
) -> tuple[int, int] | None:
    """The frame in which the boxes are given, as a size; None if they cannot be trusted."""
    upright = (frame.width, frame.height)
    claimed = labelled.size
    if claimed is None or claimed == upright:
        return upright
    file = labelled.file or path
    if claimed == frame.stored:
        detail = f"{file} gives the boxes of {path} as it is stored, {claimed[0]} x {claimed[1]} "
        detail += f"pixels; they are turned as EXIF orientation {frame.orientation} says."
        settled.findings.append(Finding("info", "boxes turned", file, detail, "", labelled.place))
        return claimed
    exact = any(not box.relative for box in labelled.boxes) and min(claimed) > 0
    swapped = " (width and height are exchanged)" if claimed == upright[::-1] else ""
    settled.findings.append(
        Finding(
            "error" if exact else "warning",
            "wrong picture size",
            file,
            f"{file} says that {path} has {claimed[0]} x {claimed[1]} pixels; it has "
            f"{frame.width} x {frame.height}{swapped}.",
            "Label the picture that is here, or put the picture that was labelled."
            if exact
            else "The true size is used.",
            labelled.place,
        )
    )
    return None if exact else upright


def _settle(
    path: str, labelled: Labelled, box: Box, frame: Frame, size: tuple[int, int], settled: Settled
) -> SettledBox | None:
    """One box, or None if it is not used, which is then said."""
    file, place = labelled.file or path, box.place or labelled.place or "box"
    numbers = [*box.xywh, *(n for polygon in box.polygons for n in polygon)]
    if not all(map(math.isfinite, numbers)):
        detail = f"{file}, {place}: the box of {path} is {_show(box.xywh)}; nan or inf is no place."
        remedy = "Give numbers, or remove the box."
        settled.findings.append(Finding("error", "no number", file, detail, remedy, place))
        return None
    if not any(box.xywh) and not box.polygons:  # what some tools write for `nothing here`
        detail = f"{file}, {place}: {path} has a box of zeros; it stands for no box."
        settled.findings.append(Finding("info", "placeholder box", file, detail, "", place))
        return None
    x, y, width, height = _to_pixels(box.xywh, box, size)
    if width <= 0 or height <= 0:
        detail = f"{file}, {place}: a box of {path} has no area: width {width:g}, "
        detail += f"height {height:g}."
        settled.left_out.append(LeftOut(file, "empty box", detail, place))
        return None
    corners = turn_points((x, y, x + width, y + height), frame, size)
    polygons = [turn_points(_to_pixels(p, box, size), frame, size) for p in box.polygons]
    return _clip(path, labelled, box, frame, (corners, polygons), settled)


def _clip(
    path: str,
    labelled: Labelled,
    box: Box,
    frame: Frame,
    shape: tuple[Points, Sequence[Points]],
    settled: Settled,
) -> SettledBox | None:
    (x1, y1, x2, y2), polygons = shape
    left, right, top, bottom = min(x1, x2), max(x1, x2), min(y1, y2), max(y1, y2)
    file, place = labelled.file or path, box.place or labelled.place or "box"
    inside = _clip_points((left, top, right, bottom), frame)
    x, y, width, height = inside[0], inside[1], inside[2] - inside[0], inside[3] - inside[1]
    was = _show((left, top, right - left, bottom - top))
    if width <= 0 or height <= 0:
        detail = f"{file}, {place}: the box {was} lies outside of {path} "
        detail += f"({frame.width} x {frame.height} pixels)."
        settled.left_out.append(LeftOut(file, "box outside the picture", detail, place))
        return None
    placed = [_round(n) for n in (x, y, width, height)]
    moved = max(abs(a - b) for a, b in zip((left, top, right, bottom), inside, strict=True))
    if moved > NOISE:
        detail = f"{file}, {place}: the box {was} reaches x={right:g}, y={bottom:g} "
        detail += f"and sticks out of {path} ({frame.width} x {frame.height} pixels); it is "
        detail += f"clipped to {_show(placed)}."
        settled.findings.append(Finding("warning", "box clipped", file, detail, "", place))
    kept = [_clip_points(polygon, frame) for polygon in polygons]
    whole = tuple(polygon for polygon in kept if _has_area(polygon))
    if len(whole) < len(kept):
        detail = f"{file}, {place}: {len(kept) - len(whole)} of {len(kept)} polygons of {path} "
        detail += "enclose no area inside the picture; the box stays."
        settled.findings.append(Finding("warning", "polygon dropped", file, detail, "", place))
    return SettledBox(box.label, placed[0], placed[1], placed[2], placed[3], whole, place)


def _to_pixels(numbers: Sequence[float], box: Box, size: tuple[int, int]) -> Points:
    if not box.relative:
        return tuple(numbers)
    return tuple(number * size[index % 2] for index, number in enumerate(numbers))


def _clip_points(points: Points, frame: Frame) -> Points:
    """Every point moved to the nearest one in the picture.

    That is not the exact intersection, whose corners would need a polygon library; it differs
    only beyond the corners of the picture, and never leaves it.
    """
    sides = (frame.width, frame.height)
    return tuple(_round(min(max(n, 0), sides[i % 2])) for i, n in enumerate(points))


def _has_area(points: Points) -> bool:
    xs, ys = points[::2], points[1::2]
    usable = len(points) % 2 == 0 and len(points) >= 6
    return usable and max(xs) > min(xs) and max(ys) > min(ys)


def _say_duplicate(path: str, labelled: Labelled, box: SettledBox, first: str) -> Finding:
    file = labelled.file or path
    detail = f"{file}, {box.place}: a box of {path} is a duplicate of that at {first}; it counts "
    return Finding("warning", "duplicate box", file, f"{detail}once.", "", box.place)


def _round(number: float) -> float:
    """To a ten-thousandth of a pixel: what is below is noise of the arithmetic."""
    return round(float(number), 4) + 0.0  # no -0.0


def _show(numbers: Iterable[float]) -> str:
    return "[" + ", ".join(f"{number:g}" for number in numbers) + "]"
