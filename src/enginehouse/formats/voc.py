"""Pascal VOC: one XML per picture, splits in ImageSets.

Coordinates stay as they are written: VOC counts pixels from 1, most tools that write it from 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from enginehouse.errors import DataError
from enginehouse.files import Files
from enginehouse.formats._numbers import parse_number, size_of
from enginehouse.formats._pairs import Pairs
from enginehouse.formats._per_picture import PictureLabels, assemble_pictures
from enginehouse.formats._split_lists import put_splits, read_list
from enginehouse.formats._text import decode_text
from enginehouse.labels import SPLIT_NAMES, Box, LabelOptions, Reading

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

LIBRARIES = ("defusedxml",)

_PROLOG = re.compile(rb"<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^\[>]*(\[.*?\]\s*)?>", re.DOTALL)
_DECLARED = re.compile(rb"<\?xml[^>]*encoding\s*=\s*[\"']([\w.-]+)")
_CORNERS = ("xmin", "ymin", "xmax", "ymax")


def find(files: Files) -> list[str]:
    """XML whose root is `annotation`; broken XML only beside such, with a picture's name."""
    named = [p for p in files.others if PurePosixPath(p).suffix.lower() == ".xml" or files.only]
    roots = {path: _peek_root(files, path) for path in named}
    if "annotation" not in roots.values():
        return []
    pairs = Pairs(files)
    return [
        path
        for path, root in roots.items()
        if root == "annotation" or (not root and pairs.namesakes(path))
    ]


def read(files: Files, label_files: Sequence[str], options: LabelOptions) -> Reading:
    """Read the XML of each picture, and the splits of ImageSets."""
    reading = Reading()
    assemble_pictures(files, _read_all(files, label_files), reading)
    pairs = Pairs(files)
    lists = _find_image_sets(files)
    put_splits([read_list(pairs, path, split, reading) for path, split in lists], reading)
    return reading


def _peek_root(files: Files, path: str) -> str:
    """Name of the root element, or "" if none is in sight."""
    head = _PROLOG.sub(b"", files.head(path, 4096).replace(b"\0", b""))
    root = re.match(rb"[^<]{0,8}\s*<([A-Za-z_][\w:.-]*)[\s/>]", head)
    return root[1].decode("ascii") if root else ""


def _find_image_sets(files: Files) -> list[tuple[str, str]]:
    """Lists and their splits; those of one class (`cat_train.txt`) are none."""
    found: list[tuple[str, str]] = []
    for path in sorted(files.listing):
        pure = PurePosixPath(path)
        split = SPLIT_NAMES.get(pure.stem.lower(), "")
        folders = [part.lower() for part in pure.parts[:-1]]
        if split and "imagesets" in folders and pure.suffix.lower() == ".txt":
            found.append((path, split))
    return found


def _read_all(files: Files, label_files: Sequence[str]) -> Iterator[PictureLabels]:
    for path in label_files:
        labels = PictureLabels(path)
        root = _parse(files.read(path), labels)
        if root is not None:
            _read_annotation(root, labels)
        yield labels


def _parse(content: bytes, labels: PictureLabels) -> Element | None:
    """The root element; None (and why is noted) if this is no XML that can be trusted."""
    from xml.etree.ElementTree import ParseError

    from defusedxml.common import DefusedXmlException
    from defusedxml.ElementTree import fromstring

    try:
        text, labels.encoding = _decode_xml(content)
        root: Element = fromstring(text.lstrip())
        if root.tag == "annotation":
            return root
        reason, why = "not VOC", f"its root should be <annotation>, found <{root.tag}>"
    except ParseError as error:
        reason, why = "broken XML", f"it does not parse as XML: {error}"
        if not content.strip():
            reason, why = "empty file", "the file is empty"
    except DefusedXmlException as error:
        reason = "unsafe XML"
        why = f"it defines entities or reads other files, which is refused ({error})"
    except DataError as error:
        reason, why = "unreadable file", error.message.rstrip(".")
    labels.broken = why
    labels.leave_out(reason, f"{why}; nothing in it is used.")
    return None


def _decode_xml(content: bytes) -> tuple[str, str]:
    """The text of XML: a byte order mark first, then what it declares, then a look at it."""
    declared = _DECLARED.match(content)
    name = declared[1].decode("ascii").lower() if declared else "utf-8"
    wider = {"gb2312": "gb18030", "gbk": "gb18030"}  # they hold what their names leave out
    try:
        if declared and not name.startswith(("utf", "ucs", "us-ascii")):
            return content.decode(wider.get(name, name)), "utf-8"  # as declared: nothing to say
    except (LookupError, UnicodeError):
        pass  # wrongly declared: its bytes must tell
    return decode_text(content)


def _read_annotation(root: Element, labels: PictureLabels) -> None:
    labels.name = (root.findtext("filename") or "").strip()
    size = root.find("size")
    if size is not None:
        width, height = size.findtext("width"), size.findtext("height")
        labels.size = size_of(width, height)
        if labels.size is None:
            detail = f"its size is {width} by {height} pixels; the picture's real size is used."
            labels.find("warning", "bad size", detail, "Correct <size>, or remove it.")
    for number, element in enumerate(root.findall("object"), 1):
        labels.num_regions += 1
        _read_object(element, f"object {number}", labels)
    num_parts = len(root.findall("object/part"))
    if num_parts:
        labels.find("info", "parts of objects", f"{num_parts} <part> of objects are not used.")


def _read_object(element: Element, place: str, labels: PictureLabels) -> None:
    name = " ".join((element.findtext("name") or "").split())
    if not name:
        labels.leave_out("no label", "the object has no <name>.", place)
        return
    polygon = _read_polygon(element, place, labels)
    bounds = element.find("bndbox")
    if bounds is None and polygon is None:
        labels.leave_out("no box", f"the object {name!r} has no <bndbox>.", place)
        return
    texts = {key: bounds.findtext(key) for key in _CORNERS} if bounds is not None else {}
    numbers = [parse_number(text or "") for text in texts.values()]
    if bounds is None and polygon is not None:
        xs, ys = polygon[0::2], polygon[1::2]
        numbers = [min(xs), min(ys), max(xs), max(ys)]
    corners = [number for number in numbers if number is not None]
    if len(corners) < 4:
        found = ", ".join(f"{key} {text}" for key, text in texts.items())
        labels.leave_out("not a number", f"{name!r} needs four numbers, found {found}.", place)
        return
    left, top, right, bottom = corners
    if left > right or top > bottom:
        found = f"xmin {left:g}, ymin {top:g}, xmax {right:g}, ymax {bottom:g}"
        detail = f"the box of {name!r} has its minimum above its maximum: {found}."
        labels.leave_out("swapped corners", detail, place)
        return
    polygons = (polygon,) if polygon else ()
    labels.boxes.append(Box(name, (left, top, right - left, bottom - top), polygons, place))


def _read_polygon(element: Element, place: str, labels: PictureLabels) -> tuple[float, ...] | None:
    """The polygon x1, y1, x2, y2, ... that some tools add to an object."""
    polygon = element.find("polygon")
    if polygon is None or not len(polygon):
        return None
    written = {child.tag: parse_number(child.text or "") for child in polygon}
    keys = [f"{axis}{corner}" for corner in range(1, len(written) // 2 + 1) for axis in "xy"]
    points = [number for key in keys if (number := written.get(key)) is not None]
    if len(points) < max(6, len(written)):
        detail = f"its polygon is no list x1, y1, x2, y2, ... of numbers ({len(written)} entries)"
        labels.find("warning", "bad polygon", f"{detail}; it is not used.", place=place)
        return None
    return tuple(points)
