"""Files that list the names of classes, one per line, in the order of their ids."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from enginehouse.errors import DataError
from enginehouse.files import Files, has_picture_suffix
from enginehouse.formats._text import decode_text, note_encoding, peek_text
from enginehouse.labels import Finding

LIBRARIES: tuple[str, ...] = ()

_NAMES = frozenset(
    {"class.txt", "classes.txt", "classnames.txt", "label.txt", "labels.txt", "labelmap.txt"}
    | {"names.txt", "categories.txt", "synset.txt", "synsets.txt"}
)
_LONGEST_NAME = 200  # characters; longer lines are no names


def find_class_names(files: Files) -> list[str]:
    """Files of class names, recognised by name and content; sorted."""
    hidden = {*files.junk, *files.pictures}
    named = [path for path in sorted(files.listing) if _is_named_so(path) and path not in hidden]
    return [path for path in named if _holds_names(peek_text(files, path))]


def choose_class_names(paths: Sequence[str], label_file: str) -> list[str]:
    """Of files from `find_class_names`, those which belong to a label file.

    That is: those in its folder, else in the nearest folder above, else the only one anywhere.
    """
    for folder in PurePosixPath(label_file).parents:
        beside = [path for path in paths if PurePosixPath(path).parent == folder]
        if beside:
            return beside
    return list(paths) if len(paths) == 1 else []


def read_class_names(files: Files, path: str) -> tuple[tuple[str, ...], list[Finding]]:
    """Read class names, in the order of their ids.

    Returns:
        names, one per line, duplicates included; what is wrong with them.
    """
    try:
        text, encoding = decode_text(files.read(path))
    except DataError as error:
        remedy = error.remedy
        return (), [Finding("error", "unreadable file", path, error.message, remedy)]
    names = _strip_ids([" ".join(line.split()) for line in text.rstrip().splitlines()])
    return tuple(names), [*note_encoding(path, encoding), *_check_names(path, names)]


def _check_names(path: str, names: list[str]) -> list[Finding]:
    if not names:
        detail = f"{path} should list class names, one per line; it is empty."
        return [Finding("error", "no class names", path, detail, "List them or remove the file.")]
    findings: list[Finding] = []
    lines: dict[str, list[int]] = {}
    for line, name in enumerate(names, 1):
        lines.setdefault(name, []).append(line)
    for name, places in lines.items():
        place = _list_lines(places)
        if not name:
            detail = f"{path}: {place} of {len(names)} has no name, so ids after it are in doubt."
            remedy = "Give that line a name or remove it."
            findings.append(Finding("error", "blank class name", path, detail, remedy, place))
        elif len(places) > 1:
            detail = f"{path}: the class name {name!r} is a duplicate: it stands in {place}."
            remedy = "Give each class a name of its own; merged classes need one line only."
            findings.append(Finding("error", "duplicate class name", path, detail, remedy, place))
    return findings


def _list_lines(lines: Sequence[int]) -> str:
    if len(lines) == 1:
        return f"line {lines[0]}"
    return f"lines {', '.join(map(str, lines[:-1]))} and {lines[-1]}"


def _is_named_so(path: str) -> bool:
    name = PurePosixPath(path).name.lower()
    return re.sub(r"[ _-]", "", name) in _NAMES or name.endswith(".names")


def _holds_names(text: str | None) -> bool:
    """Whether it is a short list of words, and not a table or a list of pictures."""
    if text is None or len(text) >= 60000:
        return False
    lines = text.splitlines()
    first = [re.split(r"[,;\t|]", line)[0].strip() for line in lines]
    cells = [name for line in first for name in (line, *line.split()[:1])]
    tables = all(re.search(r"[,;\t|]", line) for line in lines if line.strip())
    return (
        all(len(line) <= _LONGEST_NAME for line in lines)
        and not any(has_picture_suffix(cell) for cell in cells)
        and not (tables and len(lines) > 1)
    )


def _strip_ids(lines: list[str]) -> list[str]:
    """`0 cat`, `1: dog` become names, if each line begins with its own number from 0."""
    pairs = [re.fullmatch(r"(\d+)\s*[ :,=]\s*(.+)", line) for line in lines]
    if all(pair and int(pair[1]) == row for row, pair in enumerate(pairs)):
        return [pair[2] for pair in pairs if pair]
    return lines
