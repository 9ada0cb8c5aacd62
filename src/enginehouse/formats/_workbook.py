"""A workbook as plain sheets of values; what is no value is an oddity that keeps its cell.

Knows Excel, and nothing of labels.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import IO, Any

from enginehouse.errors import DataError, first_line
from enginehouse.formats._cells import Oddity, Value
from enginehouse.formats._workbook_file import slim_workbook
from enginehouse.quiet import quiet

LIBRARIES = ("openpyxl",)

_LITERAL = re.compile(r'"[^"]*"|\\.')  # in a number format: text that stands for itself


@dataclass(frozen=True)
class Sheet:
    """One sheet.

    Attributes:
        visible: whether people see it in Excel.
        rows: (number, cells from column A on) of those with anything in them.
        merged: ranges of merged cells, which are filled with their value.
        hidden_rows: numbers of rows with data that people do not see.
        hidden_columns: indexes likewise.
    """

    name: str
    visible: bool
    rows: Sequence[tuple[int, Sequence[Value]]]
    merged: tuple[str, ...]
    hidden_rows: tuple[int, ...]
    hidden_columns: tuple[int, ...]


def read_workbook(stream: IO[bytes], file: str, whole: bool = True) -> list[Sheet]:
    """Read all sheets of cells; sheets of charts are none.

    Args:
        whole: False for the beginning of each sheet only.

    Raises:
        DataError: it is damaged, or no workbook that the library can read.
    """
    slim = slim_workbook(stream, file, whole)
    values = _load(slim, file, data_only=True)
    has_formulas = re.search(rb"<(\w+:)?f[ />]", slim.getbuffer()) is not None
    formulas = _load(slim, file, data_only=False) if has_formulas else values
    return [
        _read_sheet(sheet, other)
        for sheet, other in zip(values.worksheets, formulas.worksheets, strict=True)
    ]


def _load(slim: BytesIO, file: str, data_only: bool) -> Any:
    from openpyxl import load_workbook

    slim.seek(0)
    try:
        with quiet():  # it warns of everything in a workbook that it does not keep
            return load_workbook(slim, data_only=data_only, keep_links=False)
    except Exception as error:  # whatever is wrong in a foreign file, it raises anything
        raise DataError(
            f"{file} cannot be read as a workbook: {type(error).__name__}: {first_line(error)}.",
            "Open it in Excel and save it as .xlsx, or export it as CSV.",
        ) from error


def _read_sheet(sheet: Any, formulas: Any) -> Sheet:
    # Its own door to all rows would make up every cell that is missing.
    cells = {
        place: _value_of(cell, formulas._cells.get(place)) for place, cell in sheet._cells.items()
    }
    merged = tuple(str(area.coord) for area in sheet.merged_cells.ranges)
    for area in sheet.merged_cells.ranges:
        for row in range(area.min_row, area.max_row + 1):
            for column in range(area.min_col, area.max_col + 1):
                cells[row, column] = cells.get((area.min_row, area.min_col))
    rows: dict[int, dict[int, Value]] = {}
    for (row, column), value in cells.items():
        if value is not None:
            rows.setdefault(row, {})[column] = value
    hidden = [row for row, look in sheet.row_dimensions.items() if look.hidden and row in rows]
    return Sheet(
        name=sheet.title,
        visible=sheet.sheet_state == "visible",
        rows=[(row, _line_up(rows[row])) for row in sorted(rows)],
        merged=tuple(sorted(merged)),
        hidden_rows=tuple(sorted(hidden)),
        hidden_columns=_find_hidden_columns(sheet),
    )


def _line_up(values: dict[int, Value]) -> list[Value]:
    return [values.get(column) for column in range(1, max(values) + 1)]


def _value_of(cell: Any, formula: Any) -> Value:
    value = cell.value
    if cell.data_type == "e":
        return Oddity("error value", str(value))
    if value is None and cell.data_type != "str" and formula is not None:
        text = getattr(formula.value, "text", formula.value)  # of a formula for many cells
        return Oddity("formula", str(text)) if formula.data_type == "f" else None
    if cell.data_type == "n" and value and "%" in _LITERAL.sub("", cell.number_format):
        return Oddity("percentage", f"{100 * value:.10g}%")
    plain: Value = value
    return plain


def _find_hidden_columns(sheet: Any) -> tuple[int, ...]:
    hidden = [area for area in sheet.column_dimensions.values() if area.hidden]
    most = max((column for _, column in sheet._cells), default=0)
    return tuple(
        column - 1 for area in hidden for column in range(area.min, min(area.max, most) + 1)
    )
