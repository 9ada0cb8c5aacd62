"""Lists of pictures: text files with one path per line, `train.txt`, `val.txt` and the like.

The whole line is the path, so names may hold spaces, brackets, commas and percent signs. The
labels are those of the folders, as class folders give them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from enginehouse.errors import DataError
from enginehouse.files import Files, NotFound, has_picture_suffix
from enginehouse.formats._split_lists import Given, put_splits
from enginehouse.formats._splits import split_of_label_file
from enginehouse.formats._text import decode_text, note_encoding, peek_text
from enginehouse.formats.class_folders import label_by_folders
from enginehouse.labels import Finding, LabelOptions, LeftOut, Reading

LIBRARIES: tuple[str, ...] = ()

_LOOKED_AT = 200  # lines
_MOST = 0.9  # of them must have a picture's suffix
_CHECKSUM = re.compile(r"[0-9a-fA-F]{32,128}[ \t]")  # a line of md5sum and the like


def find(files: Files) -> list[str]:
    """Text files whose lines are paths of pictures."""
    return [path for path in files.others if _is_list(files, path)]


def read(files: Files, label_files: Sequence[str], options: LabelOptions) -> Reading:
    """Take the listed pictures, with the split of the list's name; see `LabelFormat`."""
    listed: dict[str, tuple[str, str]] = {}
    given: list[Given] = []
    problems = Reading()
    for path in label_files:
        pictures = dict(_read_list(files, path, problems))
        given.append(Given(path, split_of_label_file(path), tuple(pictures)))
        for picture, place in pictures.items():
            listed.setdefault(picture, (path, place))
    reading = label_by_folders(files, sorted(listed), options)
    reading.left_out += problems.left_out
    reading.findings += problems.findings
    for picture, labelled in reading.pictures.items():
        file, place = listed[picture]
        reading.pictures[picture] = replace(labelled, file=file, place=place)
    put_splits([each for each in given if each.split], reading)
    return reading


def _is_list(files: Files, path: str) -> bool:
    text = peek_text(files, path)
    lines = [line.strip() for line in (text or "").splitlines()[:_LOOKED_AT] if line.strip()]
    with_suffix = [x for x in lines if has_picture_suffix(x) and not _CHECKSUM.match(x)]
    if not lines or len(with_suffix) < _MOST * len(lines):
        return False
    found = sum(isinstance(files.find(line, path), str) for line in with_suffix)
    return 2 * found >= len(lines)


def _read_list(files: Files, path: str, reading: Reading) -> Iterator[tuple[str, str]]:
    """The pictures and their lines; what cannot be used goes into `reading`."""
    try:
        text, encoding = decode_text(files.read(path))
    except DataError as error:
        detail = f"{path}: {error.message}"
        reading.findings.append(Finding("error", "unreadable file", path, detail, error.remedy))
        return
    reading.findings += note_encoding(path, encoding)
    lines: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        place = f"line {number}"
        found = files.find(line, path)
        if isinstance(found, NotFound):
            _refuse_line(path, place, found, reading)
        elif found in lines:
            detail = f"{path}, {place}: {found} is a duplicate: it stands in {lines[found]}, too."
            remedy = "Remove one of the lines."
            reading.findings.append(
                Finding("warning", "duplicate line", path, detail, remedy, place)
            )
        else:
            lines[found] = place
            yield found, place


def _refuse_line(path: str, place: str, found: NotFound, reading: Reading) -> None:
    detail = f"{path}, {place}: {found.detail}."
    if found.reason == "path outside the data":
        remedy = "Write paths from the data folder."
        reading.findings.append(Finding("error", found.reason, path, detail, remedy, place))
    else:
        reading.left_out.append(LeftOut(path, found.reason, detail, place))
