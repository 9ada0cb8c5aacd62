"""labelme: one JSON per picture, with shapes. The picture that it may embed is never decoded."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from math import hypot
from typing import Any

from enginehouse.errors import DataError
from enginehouse.files import Files
from enginehouse.formats._json import is_blank, list_json, load_json, peek_json
from enginehouse.formats._numbers import number_of, size_of
from enginehouse.formats._pairs import Pairs
from enginehouse.formats._per_picture import PictureLabels, assemble_pictures
from enginehouse.labels import Box, LabelOptions, Reading

LIBRARIES: tuple[str, ...] = ()

_SHAPES = r'"shapes"\s*:\s*\['
_SIGNS = r'"(imagePath|imageData|imageHeight|shape_type)"\s*:'
_FEWEST_POINTS = {
    "rectangle": 2,
    "polygon": 3,
    "oriented_rectangle": 3,
    "circle": 2,
    "line": 2,
    "linestrip": 2,
    "mask": 2,
    "point": 1,
}


def find(files: Files) -> list[str]:
    """JSON with shapes of a picture; broken or empty JSON only beside such, with its name."""
    texts = {path: _classify(files, path) for path in list_json(files)}
    if "labelme" not in texts.values():
        return []
    pairs = Pairs(files)
    return [
        path
        for path, kind in texts.items()
        if kind == "labelme" or (kind == "broken" and pairs.namesakes(path))
    ]


def read(files: Files, label_files: Sequence[str], options: LabelOptions) -> Reading:
    """Read the JSON of each picture."""
    reading = Reading()
    assemble_pictures(files, _read_all(files, label_files), reading)
    return reading


def _classify(files: Files, path: str) -> str:
    """`labelme`, `broken` (no JSON object, or empty) or `other`."""
    text = peek_json(files, path)
    if re.search(_SHAPES, text) and re.search(_SIGNS, text):
        return "labelme"
    whole = text.rstrip().endswith("}") and not is_blank(files, path)
    return "other" if whole else "broken"


def _read_all(files: Files, label_files: Sequence[str]) -> Iterator[PictureLabels]:
    for path in label_files:
        labels = PictureLabels(path)
        content = files.read(path)
        try:
            loaded = load_json(content)
        except DataError as error:
            labels.broken = error.message.rstrip(".")
            labels.leave_out("broken JSON", f"{labels.broken}; nothing in it is used.")
        else:
            labels.encoding = loaded.encoding
            _read_top(loaded.value, labels)
            if loaded.repeated and not labels.broken:
                labels.broken = f"a key stands twice: {', '.join(loaded.repeated)}"
                labels.leave_out("duplicate key", f"{labels.broken}; nothing in it is used.")
        yield labels


def _read_top(top: Any, labels: PictureLabels) -> None:
    shapes = top.get("shapes") if isinstance(top, dict) else None
    if not isinstance(shapes, list):
        labels.broken = "it has no list of shapes"
        labels.leave_out("not labelme", f"{labels.broken}; nothing in it is used.")
        return
    name = top.get("imagePath")
    labels.name = name.strip() if isinstance(name, str) else ""
    width, height = top.get("imageWidth"), top.get("imageHeight")
    labels.size = size_of(width, height)
    if labels.size is None and not (width is None and height is None):
        detail = f"its size is {width!r} by {height!r} pixels; the picture's real size is used."
        labels.find("warning", "bad size", detail, "Open it in labelme and save it again.")
    flags = top.get("flags")
    if isinstance(flags, dict):
        labels.labels = tuple(str(flag) for flag, is_set in flags.items() if is_set is True)
    for number, shape in enumerate(shapes, 1):
        labels.num_regions += 1
        _read_shape(shape, f"shape {number}", labels)


def _read_shape(shape: Any, place: str, labels: PictureLabels) -> None:
    if not isinstance(shape, dict):
        labels.leave_out("bad shape", f"it is no object: {str(shape)[:80]}.", place)
        return
    label = shape.get("label")
    label = str(label) if isinstance(label, int) and not isinstance(label, bool) else label
    if not isinstance(label, str) or not label.strip():
        labels.leave_out("no label", "the shape has no label.", place)
        return
    kind = shape.get("shape_type") or "polygon"  # what old versions mean by saying nothing
    fewest = _FEWEST_POINTS.get(kind, 0) if isinstance(kind, str) else 0
    points = _read_points(shape.get("points"))
    if not fewest:
        labels.leave_out("unknown shape", f"{label!r} has the shape_type {kind!r}.", place)
    elif isinstance(points, str):
        labels.leave_out("bad points", f"{label!r}: {points}.", place)
    elif len(points) < fewest:
        detail = f"{label!r} is a {kind} with {len(points)} points; it takes {fewest}."
        labels.leave_out("bad points", detail, place)
    else:
        _put_box(label.strip(), str(kind), points, place, labels)


def _read_points(points: object) -> list[tuple[float, float]] | str:
    """x, y of each point, or what is wrong with them."""
    if not isinstance(points, list):
        return "it has no list of points"
    read: list[tuple[float, float]] = []
    for point in points:
        pair = point if isinstance(point, list) and len(point) == 2 else [None, None]
        x, y = number_of(pair[0]), number_of(pair[1])
        if x is None or y is None or any(isinstance(number, str) for number in pair):
            return f"a point should be two numbers, found {str(point)[:80]}"
        read.append((x, y))
    return read


def _put_box(
    label: str, kind: str, points: list[tuple[float, float]], place: str, labels: PictureLabels
) -> None:
    xs, ys = [x for x, _ in points], [y for _, y in points]
    if kind == "circle":
        radius = hypot(xs[1] - xs[0], ys[1] - ys[0])
        xs, ys = [xs[0] - radius, xs[0] + radius], [ys[0] - radius, ys[0] + radius]
    left, top, width, height = min(xs), min(ys), max(xs) - min(xs), max(ys) - min(ys)
    if width <= 0 or height <= 0:
        detail = f"the {kind} of {label!r} has no area: {width:g} by {height:g} pixels."
        labels.leave_out("empty box", detail, place)
        return
    outline = tuple(number for point in points for number in point)
    polygons = (outline,) if kind in ("polygon", "oriented_rectangle") else ()
    labels.boxes.append(Box(label, (left, top, width, height), polygons, place))
