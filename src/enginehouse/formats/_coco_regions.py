"""One annotation of COCO becomes a box and polygons. Knows nothing of pictures and categories."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from enginehouse.formats._numbers import is_not_finite, number_of
from enginehouse.formats._rle import outline_mask

LIBRARIES: tuple[str, ...] = ()

XYWH = tuple[float, float, float, float]


@dataclass(frozen=True)
class Problem:
    """Why an annotation gives no region."""

    reason: str
    detail: str


@dataclass
class Region:
    """Where an annotation is.

    Attributes:
        xywh: pixels; None where the annotation only says that there is nothing.
        notes: reason and detail of what was mended.
        is_mask: whether its outlines are those of a mask.
    """

    xywh: XYWH | None = None
    polygons: tuple[tuple[float, ...], ...] = ()
    notes: list[tuple[str, str]] = field(default_factory=list)
    is_mask: bool = False


def read_region(annotation: dict[str, Any]) -> Region | Problem:
    """The region of an annotation: its `bbox`, or what its `segmentation` spans."""
    region = Region()
    box = _read_box(annotation.get("bbox"), region)
    if isinstance(box, Problem):
        return box
    spanned = _read_segmentation(annotation.get("segmentation"), region)
    if isinstance(spanned, Problem):
        if spanned.reason == "not a number" or box is None:
            return spanned
        region.notes.append((spanned.reason, f"{spanned.detail}; its box is kept"))
        spanned = None
    if box is None or not any(box):
        if box is None and spanned is None:
            return Problem("no box", "it has neither a bbox nor a segmentation")
        region.xywh = spanned
        if spanned is not None:
            region.notes.append(("box from segmentation", "it has no bbox"))
    else:
        region.xywh = box
    return region


def _read_box(value: object, region: Region) -> XYWH | Problem | None:
    if value is None or value == []:
        return None
    if not isinstance(value, list) or len(value) != 4:
        return Problem("bad box", f"bbox should be [x, y, width, height], found {_show(value)}")
    numbers = _read_numbers("bbox", value, region)
    if isinstance(numbers, Problem):
        return numbers
    x, y, width, height = numbers
    return x, y, width, height


def _read_segmentation(value: object, region: Region) -> XYWH | Problem | None:
    """The box around a segmentation; its outlines go into `region`."""
    if not value:
        return None
    if isinstance(value, dict):
        outline = outline_mask(value)
        if isinstance(outline, str):
            return Problem("bad mask", outline)
        box, region.polygons = outline
        region.is_mask = True
        return box
    if not isinstance(value, list):
        return Problem("bad segmentation", f"it is neither polygons nor a mask: {_show(value)}")
    if not isinstance(value[0], list | dict):
        value = [value]
    polygons: list[tuple[float, ...]] = []
    for part in value:
        polygon = _read_polygon(part, region)
        if isinstance(polygon, Problem):
            return polygon
        polygons.append(polygon)
    region.polygons = tuple(polygons)
    return span(polygons)


def _read_polygon(part: object, region: Region) -> tuple[float, ...] | Problem:
    if isinstance(part, list) and part and all(isinstance(point, list) for point in part):
        part = [number for point in part for number in point]
    if not isinstance(part, list) or len(part) < 6 or len(part) % 2:
        wanted = "a polygon should be x, y of three points or more"
        return Problem("bad polygon", f"{wanted}, found {_show(part)}")
    numbers = _read_numbers("segmentation", part, region)
    return numbers if isinstance(numbers, Problem) else tuple(numbers)


def _read_numbers(key: str, values: list[Any], region: Region) -> list[float] | Problem:
    """Finite numbers; text that is a number is taken as one, and noted."""
    numbers = [number_of(value) for value in values]
    plain = [number for number in numbers if number is not None]
    if is_not_finite(values):
        return Problem("not a number", f"{key} holds NaN or infinity: {_show(values)}")
    if len(plain) < len(values):
        return Problem("bad number", f"{key} should be numbers, found {_show(values)}")
    if any(isinstance(value, str) for value in values):
        region.notes.append(("numbers as text", f"{key} has numbers in quotes: {_show(values)}"))
    return plain


def span(polygons: list[tuple[float, ...]]) -> XYWH:
    """The box around polygons."""
    xs = [x for polygon in polygons for x in polygon[0::2]]
    ys = [y for polygon in polygons for y in polygon[1::2]]
    return min(xs), min(ys), max(xs) - min(xs), max(ys) - min(ys)


def _show(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
