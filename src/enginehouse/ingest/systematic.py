"""Label files whose boxes are all given in another way than they are read."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from enginehouse.ingest.frames import Frame
from enginehouse.labels import Box, Finding, Labelled

SLACK = 1.0  # pixel
FEWEST = 2  # boxes: one that sticks out is no system


@dataclass
class _Count:
    boxes: int = 0
    sticking: int = 0
    as_corners: int = 0  # boxes that lie inside if they are read as x1, y1, x2, y2
    as_shares: int = 0  # boxes that would lie within one pixel
    example: str = ""


def find_systematic(pictures: Iterable[tuple[Labelled, Frame]]) -> list[Finding]:
    """An error for each label file whose boxes are x1, y1, x2, y2, or shares of the sides.

    One by one, such boxes would be clipped or pass as tiny ones. That most of them stick out as
    x, y, width, height while every single one fits as corners is no chance.
    """
    counts: dict[str, _Count] = {}
    for labelled, frame in pictures:
        for box in labelled.boxes:
            if not box.relative and all(map(math.isfinite, box.xywh)) and any(box.xywh):
                _count(counts.setdefault(labelled.file, _Count()), box, frame)
    findings = []
    for file, count in counts.items():
        fit = FEWEST <= count.boxes == count.as_corners
        if fit and 2 * count.sticking > count.boxes:
            detail = f"{file}: {count.sticking} of {count.boxes} boxes stick out of their picture "
            detail += "as x, y, width, height, and all fit as corners x1, y1, x2, y2 (xyxy); "
            remedy = "Write width and height (x2 - x1, y2 - y1) in place of x2 and y2."
            detail += f"{count.example} is one."
            findings.append(Finding("error", "boxes are xyxy", file, detail, remedy))
        elif count.as_shares == count.boxes:
            detail = f"{file}: all {count.boxes} boxes lie within one pixel; they are shares of "
            detail += f"the picture's sides (normalised), not pixels; {count.example} is one."
            remedy = "Multiply x and width by the picture's width, y and height by its height."
            findings.append(Finding("error", "boxes are normalised", file, detail, remedy))
    return findings


def _count(count: _Count, box: Box, frame: Frame) -> None:
    x, y, width, height = box.xywh
    count.boxes += 1
    count.sticking += x + width > frame.width + SLACK or y + height > frame.height + SLACK
    count.as_corners += (
        0 <= x < width <= frame.width + SLACK and 0 <= y < height <= frame.height + SLACK
    )
    whole = all(number == round(number) for number in box.xywh)
    count.as_shares += max(map(abs, box.xywh)) <= 1 and not whole
    count.example = count.example or box.place
