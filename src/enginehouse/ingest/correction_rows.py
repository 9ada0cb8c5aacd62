"""The rows of a sheet of corrections, from a workbook or a text table. Knows no labels."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO, StringIO
from typing import Any

from enginehouse.correction_sheet import GIVEN, LABEL, MD5, PATH, READ
from enginehouse.errors import DataError
from enginehouse.files import Files
from enginehouse.formats._cells import check_text, is_blank, text_of
from enginehouse.formats._text import decode_text
from enginehouse.formats._workbook import read_workbook
from enginehouse.labels import Finding

SEARCHED_ROWS = 30  # how far down the header may be
DELIMITERS = ",;\t"


@dataclass(frozen=True, slots=True)
class Row:
    """What a sheet says of one picture, as its cells read.

    Attributes:
        file, place: of the row: the sheet's path, `labels!row 7`.
        path: of the picture.
        md5: of the picture that was looked at.
        given: the label that it had.
        label: the label that it shall have.
    """

    file: str
    place: str
    path: str
    md5: str
    given: str
    label: str


Line = tuple[str, Sequence[Any]]  # place and cells


def read_rows(files: Files, sheet: str) -> tuple[list[Row], list[Finding]]:
    """Read a sheet; what cannot be read is an error.

    Raises:
        DataError: it changed since the data version was taken.
    """
    content = files.read(sheet)
    try:
        tables = _open(sheet, content)
    except DataError as error:
        return [], [Finding("error", "unreadable corrections", sheet, error.message, error.remedy)]
    read = [_read_lines(sheet, *found) for lines in tables if (found := _find_header(lines))]
    if read:
        return [row for rows, _ in read for row in rows], [f for _, faults in read for f in faults]
    detail = f"{sheet} has no header with the columns {', '.join(READ)} of such a sheet."
    remedy = "Take those columns from the sheet that enginehouse label-errors makes. If it is a "
    remedy += "label table, give it a name that does not begin with corrections."
    return [], [Finding("error", "unreadable corrections", sheet, detail, remedy)]


def _find_header(lines: Sequence[Line]) -> tuple[Sequence[Line], dict[str, int]] | None:
    """The lines below the header, and column to index; None where there is no header."""
    for start, (_, cells) in enumerate(lines[:SEARCHED_ROWS]):
        names = [text_of(cell).lower() for cell in cells]
        if set(READ) <= set(names):
            return lines[start + 1 :], {name: names.index(name) for name in READ}
    return None


def _open(sheet: str, content: bytes) -> list[list[Line]]:
    """The tables that a file may mean: its sheets, or its text split at each delimiter."""
    if not sheet.lower().endswith(".csv"):
        return [
            [(f"{each.name}!row {number}", cells) for number, cells in each.rows]
            for each in read_workbook(BytesIO(content), sheet)
        ]
    text, _ = decode_text(content)
    return [list(_split_lines(text, delimiter)) for delimiter in DELIMITERS]


def _split_lines(text: str, delimiter: str) -> Iterator[Line]:
    reader = csv.reader(StringIO(text, newline=""), delimiter=delimiter)
    begins = 1
    for cells in reader:
        yield f"line {begins}", cells
        begins = reader.line_num + 1


def _read_lines(
    sheet: str, lines: Iterable[Line], places: dict[str, int]
) -> tuple[list[Row], list[Finding]]:
    rows: list[Row] = []
    faults: list[Finding] = []
    for place, cells in lines:
        if all(map(is_blank, cells)):
            continue
        found = {name: cells[at] if at < len(cells) else None for name, at in places.items()}
        wrong = {name: fault for name in READ if (fault := check_text(found[name]))}
        for name, fault in wrong.items():
            detail = f"{sheet}, {place}: the column {name} {fault.detail}."
            faults.append(Finding("error", fault.reason, sheet, detail, fault.remedy, place))
        if not wrong:
            text = {name: text_of(found[name]) for name in READ}
            rows.append(Row(sheet, place, text[PATH], text[MD5], text[GIVEN], text[LABEL]))
    return rows, faults
