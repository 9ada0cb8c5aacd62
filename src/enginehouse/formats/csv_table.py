"""Text tables: CSV, TSV and the like, with any usual delimiter and encoding.

A header says which columns hold the picture and its label, or boxes in it.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from io import StringIO
from pathlib import PurePosixPath

from enginehouse.errors import DataError
from enginehouse.files import Files
from enginehouse.formats._cell_table import CellTable
from enginehouse.formats._headers import SEARCHED_ROWS, find_header
from enginehouse.formats._notes import Notes
from enginehouse.formats._picture_names import PictureNames
from enginehouse.formats._table import has_class_folders, is_label_table, read_tables
from enginehouse.formats._text import decode_text, note_encoding, peek_text
from enginehouse.labels import LabelOptions, Reading

LIBRARIES: tuple[str, ...] = ()

_DELIMITERS = ",;\t|"
_SUFFIXES = (".csv", ".tsv")
_MARKDOWN = re.compile(r"^\s*\|?\s*:?-{3,}:?\s*(\|\s*:?-{3,}:?\s*)+\|?\s*$", re.MULTILINE)


def find(files: Files) -> list[str]:
    """The text tables whose header names pictures; see `LabelFormat`."""
    return [path for path in files.others if _is_table(files, path)]


def read(files: Files, label_files: Sequence[str], options: LabelOptions) -> Reading:
    """Read text tables; see `LabelFormat`."""
    reading = Reading()
    tables = []
    for path in label_files:
        notes = Notes(path, reading)
        try:
            text, encoding = decode_text(files.read(path))
        except DataError as error:
            notes.find("error", "unreadable text", f"{path}: {error.message}", error.remedy)
            continue
        reading.findings += note_encoding(path, encoding)
        table = _open_table(path, text.rstrip("\x1a"), options)
        if _check_quotes(table, notes):
            tables.append(table)
    read_tables(files, tables, options, reading)
    return reading


def _is_table(files: Files, path: str) -> bool:
    meant = PurePosixPath(path).suffix.lower() in _SUFFIXES
    head = files.head(path, 4096)
    if (meant and path == files.only) or not head.strip():  # nothing to tell a table by
        return meant and (path == files.only or len(files.others) == 1)
    if not any(delimiter.encode() in head for delimiter in _DELIMITERS):
        return False  # soon, for there may be a label file for each picture
    text = peek_text(files, path)
    if text is None:  # perhaps a person wrote it, in an encoding that nobody can tell
        return meant and b"\0" not in head and not has_class_folders(files)
    other = text.lstrip()[:1] in ("{", "[", "<") or _MARKDOWN.search(text)
    return not other and _holds_table(files, path, text)


def _holds_table(files: Files, path: str, text: str) -> bool:
    delimiter, start = _find_delimiter(text, {})
    lines = text[start:].splitlines()[:100]
    rows = _split_lines(lines, delimiter)
    names = PictureNames(files, path)
    # A list of pictures, one per line, may have names with commas.
    listed = any(isinstance(names.find(line), str) for line in lines[:20] if delimiter in line)
    return not listed and max(map(len, rows), default=0) > 1 and is_label_table(files, path, rows)


def _find_delimiter(text: str, mapping: Mapping[str, str]) -> tuple[str, int]:
    """The delimiter that makes the best header, and where the table begins.

    Excel's first line `sep=;` says it outright.
    """
    first, newline, _ = text.partition("\n")
    told = first.strip().strip('"')
    if told.lower().startswith("sep=") and len(told) == len("sep=") + 1:
        return told[-1], len(first) + len(newline)
    lines = text[:65536].splitlines()[: 2 * SEARCHED_ROWS]

    def judge(delimiter: str) -> tuple[int, int, int]:
        rows = _split_lines(lines, delimiter)[:SEARCHED_ROWS]
        header = find_header(rows, mapping)
        widths = Counter(len(row) for row in rows if len(row) > 1)
        usual = max(widths, key=widths.__getitem__, default=0)
        return len(header.columns) if header else 0, widths[usual], usual

    return max(_DELIMITERS, key=judge), 0


def _split_lines(lines: Iterable[str], delimiter: str) -> list[list[str]]:
    """Fields of each row, for a first look: broken quotes are taken as they stand."""
    try:
        return list(csv.reader(lines, delimiter=delimiter, skipinitialspace=True))
    except csv.Error:
        return [line.split(delimiter) for line in lines]


def _open_table(path: str, text: str, options: LabelOptions) -> CellTable:
    delimiter, start = _find_delimiter(text, options.columns)
    rows = partial(_iter_rows, text, start, delimiter)
    return CellTable(path, rows, _name_line, lambda number, column: _name_line(number), ragged=True)


def _iter_rows(text: str, start: int, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """(number of its first line, fields) of each row. Raises csv.Error at a broken quote."""
    stream = StringIO(text, newline="")
    stream.seek(start)
    before = text.count("\n", 0, start)
    reader = csv.reader(stream, delimiter=delimiter, skipinitialspace=True, strict=True)
    number = before + 1
    for fields in reader:
        yield number, fields
        number = before + reader.line_num + 1


def _check_quotes(table: CellTable, notes: Notes) -> bool:
    """Whether the table can be read to its end."""
    last = 0
    try:
        for number, _ in table.rows():
            last = number
    except csv.Error as error:
        place = _name_line(last + 1)
        detail = f"{notes.file} cannot be read from {place} on: {error}."
        remedy = "Close quotes that are open there; write a quote within quotes twice."
        notes.find("error", "broken row", detail, remedy, place)
        return False
    return True


def _name_line(number: int) -> str:
    return f"line {number}"
