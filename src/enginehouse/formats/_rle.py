"""Run-length masks of COCO, compressed or not, become a box and outlines.

The format is that of pycocotools: runs of zeros and ones in turn, down the columns.
"""

from __future__ import annotations

import re
from typing import Any

from enginehouse.formats._numbers import size_of, whole_number_of

LIBRARIES = ("numpy", "opencv-python-headless", "pycocotools")

Outline = tuple[tuple[float, float, float, float], tuple[tuple[float, ...], ...]]

_MOST_PIXELS = 1 << 28
_LETTERS = re.compile(r"[0-o]*[0-O]")  # six bits each; the last one must end its number


def outline_mask(rle: dict[str, Any]) -> Outline | str:
    """The box x, y, width, height around a mask, and the outer outline of each of its parts.

    Returns:
        box and polygons in pixels, or what is wrong with the mask.
    """
    from pycocotools import mask as coco_mask

    size, counts = rle.get("size"), rle.get("counts")
    sides = size_of(size[1], size[0]) if isinstance(size, list) and len(size) == 2 else None
    if sides is None or sides[0] * sides[1] > _MOST_PIXELS:
        return f"the mask's size {size!r} is not height and width"
    width, height = sides
    runs = _count_runs(counts)
    if isinstance(runs, str):
        return runs
    if sum(runs) != width * height:
        return f"the runs of the mask cover {sum(runs)} pixels, its size {width * height}"
    packed = coco_mask.frPyObjects({"size": [height, width], "counts": runs}, height, width)
    x, y, w, h = (float(number) for number in coco_mask.toBbox(packed))
    if w < 1 or h < 1:
        return "the mask is empty"
    return (x, y, w, h), _trace(coco_mask.decode(packed), int(x), int(y), int(w), int(h))


def _count_runs(counts: object) -> list[int] | str:
    if isinstance(counts, list):
        numbers = [whole_number_of(count) for count in counts]
        whole = [number for number in numbers if number is not None and number >= 0]
        return (
            whole if len(whole) == len(numbers) else "the mask has runs that are no whole numbers"
        )
    if isinstance(counts, str) and _LETTERS.fullmatch(counts):
        runs = _unpack(counts)
        return runs if min(runs) >= 0 else "the mask has runs below zero"
    return "the mask's counts cannot be read"


def _unpack(text: str) -> list[int]:
    """Runs from letters, as rleFrString of pycocotools' maskApi.c has it, which checks nothing."""
    runs: list[int] = []
    value = shift = 0
    for letter in text.encode("ascii"):
        code = letter - 48
        value |= (code & 0x1F) << shift
        shift += 5
        if not code & 0x20:
            if code & 0x10:
                value -= 1 << shift
            runs.append(value + (runs[-2] if len(runs) > 2 else 0))
            value = shift = 0
    return runs


def _trace(mask: Any, x: int, y: int, w: int, h: int) -> tuple[tuple[float, ...], ...]:
    """Outlines through the centres of the outermost pixels; holes are filled."""
    import cv2
    import numpy as np

    part = np.ascontiguousarray(mask[y : y + h, x : x + w])
    outlines, _ = cv2.findContours(part, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE, offset=(x, y))
    return tuple(
        tuple(float(number) + 0.5 for number in outline.ravel())
        for outline in outlines
        if len(outline) >= 3
    )
