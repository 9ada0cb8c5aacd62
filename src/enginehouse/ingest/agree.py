"""Whether two label formats say the same of the same pictures."""

from __future__ import annotations

from enginehouse.files import Files
from enginehouse.labels import Box, Labelled, Reading
from enginehouse.picture import read_size

TOLERANCE = 1  # pixel, after rounding: tools round differently

Corners = tuple[int, int, int, int]


def find_disagreement(files: Files, rich: Reading, plain: Reading) -> tuple[str, str] | None:
    """The first picture of which two readings say different things, and what; or None.

    A reading with boxes agrees with one that has polygons around the same boxes, and a reading
    with labels only with one whose boxes bear the same labels. Pictures that one of them left
    out are not compared.

    Args:
        rich: the one with more detail.
    """
    left_out = {item.file for item in (*rich.left_out, *plain.left_out) if not item.place}
    coarse = not any(labelled.boxes for labelled in plain.pictures.values())
    nothing = Labelled()
    for path in sorted((rich.pictures.keys() | plain.pictures.keys()) - left_out):
        ours, theirs = rich.pictures.get(path, nothing), plain.pictures.get(path, nothing)
        if coarse:
            detail = _compare_labels(ours, theirs)
        else:
            detail = _compare_boxes(files, path, ours, theirs) or _compare_labels(
                Labelled(ours.labels), Labelled(theirs.labels)
            )
        if detail:
            return path, detail
    return None


def _compare_labels(ours: Labelled, theirs: Labelled) -> str:
    """What differs; "" where one of them says nothing."""
    mine = {*ours.labels, *(box.label for box in ours.boxes)} - {""}
    other = set(theirs.labels)
    if not mine or not other or {_fold(label) for label in mine} == {*map(_fold, other)}:
        return ""
    return f"labels {', '.join(sorted(mine))} and {', '.join(sorted(other))}"


def _compare_boxes(files: Files, path: str, ours: Labelled, theirs: Labelled) -> str:
    if len(ours.boxes) != len(theirs.boxes):
        return f"{len(ours.boxes)} and {len(theirs.boxes)} boxes"
    boxes = (*ours.boxes, *theirs.boxes)
    size: tuple[int, int] | None = (1, 1)
    if any(box.relative for box in boxes):
        size = ours.size or theirs.size or read_size(files.folder / path)
    if size is None:
        return ""  # no picture: it will be told for its own sake
    left = [(box.label, _round(box, size)) for box in theirs.boxes]
    for box in ours.boxes:
        corners = _round(box, size)
        match = next((each for each in left if _fits(each, box.label, corners)), None)
        if match is None:
            return f"a box of {box.label or 'no label'} at {list(corners)} is in the first only"
        left.remove(match)
    return ""


def _round(box: Box, size: tuple[int, int]) -> Corners:
    """Left, top, width, height in whole pixels."""
    sides = (*size, *size) if box.relative else (1, 1, 1, 1)
    finite = [v if abs(v) < 1e9 else -1e9 for v in box.xywh]  # a NaN is never less
    x, y, width, height = (round(v * side) for v, side in zip(finite, sides, strict=True))
    return x, y, width, height


def _fits(other: tuple[str, Corners], label: str, corners: Corners) -> bool:
    near = all(abs(a - b) <= TOLERANCE for a, b in zip(other[1], corners, strict=True))
    return near and (not label or not other[0] or _fold(label) == _fold(other[0]))


def _fold(label: str) -> str:
    """Tools differ in letter case, and one who exports does not mean anything by it."""
    return " ".join(label.casefold().split())
