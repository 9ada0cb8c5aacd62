"""YOLO: a text file per picture, a row per object, in shares of the picture's sides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from enginehouse.errors import DataError
from enginehouse.files import Files
from enginehouse.formats._class_names import find_class_names
from enginehouse.formats._json import is_blank
from enginehouse.formats._pairs import Pairs
from enginehouse.formats._per_picture import PictureLabels, assemble_pictures
from enginehouse.formats._split_lists import put_splits
from enginehouse.formats._splits import split_of
from enginehouse.formats._text import decode_text
from enginehouse.formats._yolo_data import (
    find_data_yamls,
    read_data_yamls,
    read_names,
    read_num_keypoints,
)
from enginehouse.formats._yolo_rows import RowReader
from enginehouse.formats._yolo_splits import read_splits
from enginehouse.labels import Finding, Labelled, LabelOptions, Reading, Severity

LIBRARIES = ("pyyaml",)

_LOOK = 4096  # bytes


def find(files: Files) -> list[str]:
    """Text files with a picture's name, if rows of numbers or a data.yaml show what they are."""
    suffix = PurePosixPath(files.only).suffix.lower()
    if suffix == ".txt":
        return [files.only] if _has_rows(files, files.only) else []
    if suffix not in ("", ".yaml", ".yml"):
        return []
    junk = set(files.junk)
    texts = [p for p in sorted(files.listing) if p.lower().endswith(".txt") and p not in junk]
    pairs = Pairs(files)
    named = [path for path in texts if pairs.namesakes(path)]
    if not any(_has_rows(files, path) for path in named) and not _is_declared(files, named):
        return []
    # Labels whose picture is missing lie among the others, and can be told by their rows.
    folders, known = {PurePosixPath(path).parent for path in named}, set(named)
    strays = [p for p in texts if p not in known and PurePosixPath(p).parent in folders]
    return sorted(named + [path for path in strays if _has_rows(files, path)])


def read(files: Files, label_files: Sequence[str], options: LabelOptions) -> Reading:
    """Read the rows of each picture, with the classes and splits that are declared beside.

    A picture without label file is background, which is YOLO's convention.
    """
    texts = [path for path in label_files if not path.lower().endswith((".yaml", ".yml"))]
    if len(texts) < len(label_files):  # a data.yaml stands for all that belongs to it
        texts = find(replace(files, only=""))
    reading = Reading(unlisted="left out" if files.only and files.only in texts else "good")
    pairs = Pairs(files)
    yamls = read_data_yamls(files, reading)
    names = read_names(files, yamls, reading) or dict(enumerate(options.classes))
    rows = RowReader(names, read_num_keypoints(yamls))
    assemble_pictures(files, _read_all(files, texts, rows), reading)
    _put_classes(rows, texts, reading)
    if reading.unlisted == "good":
        _put_background(files, reading)
    put_splits(read_splits(pairs, yamls, texts, reading), reading)
    return reading


def _has_rows(files: Files, path: str) -> bool:
    """Whether a text consists of rows as YOLO has them: a class and four numbers or more.

    In a folder named `labels`, one row of numbers is enough: labels with faults are labels, too.
    """
    head = files.head(path, _LOOK)
    lines = head.replace(b"\0", b"").decode("ascii", "ignore").splitlines()
    rows = [line.split() for line in (lines[:-1] if len(head) == _LOOK else lines)]
    numeric = [[_is_numeric(text) for text in row] for row in rows if row]
    if "labels" in map(str.lower, PurePosixPath(path).parts[:-1]):
        return any(len(row) > 1 and all(row) for row in numeric)
    regular = (len(row) > 4 and all(row[1:]) and (row[0] or len(row) == 5) for row in numeric)
    return bool(numeric) and all(regular)


def _is_numeric(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_declared(files: Files, named: Sequence[str]) -> bool:
    """Whether files without rows are labels, because class names stand beside them."""
    if find_data_yamls(files):
        return True
    return bool(find_class_names(files)) and all(is_blank(files, path) for path in named)


def _read_all(files: Files, paths: Sequence[str], rows: RowReader) -> Iterator[PictureLabels]:
    for path in paths:
        labels = PictureLabels(path)
        content = files.read(path)
        try:
            text, labels.encoding = decode_text(content)
        except DataError as error:
            labels.broken = error.message.rstrip(".")
            labels.leave_out("unreadable file", f"{labels.broken}; nothing in it is used.")
        else:
            rows.read(text, labels)
        yield labels


def _put_classes(rows: RowReader, texts: Sequence[str], reading: Reading) -> None:
    names = rows.names or {index: str(index) for index in rows.used}
    reading.class_ids = {names[index]: index for index in sorted(names)}
    reading.classes = tuple(reading.class_ids)
    if not rows.names and texts:
        detail = f"No file declares class names; {len(names)} classes are named by their index."
        remedy = "Put a data.yaml or classes.txt beside the labels."
        reading.findings.append(Finding("info", "no class names", "", detail, remedy))
    if rows.confident:
        first = rows.confident[0]
        detail = f"{first}: rows have a sixth column, taken as confidence and dropped; so have "
        detail += f"{len(rows.confident) - 1} other label files. Are these predictions?"
        remedy = "Check that these are labels made by people."
        reading.findings.append(Finding("warning", "confidence column", first, detail, remedy))
    if rows.num_keypoints and texts:
        detail = "Rows end with keypoints, as kpt_shape says; only their boxes are used."
        reading.findings.append(Finding("info", "keypoints", "", detail))


def _put_background(files: Files, reading: Reading) -> None:
    """Pictures that no label file mentions, each with the split that its folder says."""
    left_out = {row.file for row in reading.left_out}
    bare = [p for p in files.pictures if p not in reading.pictures and p not in left_out]
    for path in bare:
        reading.pictures[path] = Labelled(split=split_of(path))
    if bare:
        shown = ", ".join(bare[:3])
        detail = f"{len(bare)} of {len(files.pictures)} pictures have no label file and are taken "
        detail += f"as background: {shown}."
        remedy = "Put an empty label file beside each, to say so."
        severity: Severity = "warning" if 2 * len(bare) > len(files.pictures) else "info"
        reading.findings.append(Finding(severity, "no label file", "", detail, remedy))
