"""Rows of a table as what they say of pictures; a row that cannot be used is named."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from enginehouse.files import NotFound
from enginehouse.formats._cell_table import CellTable
from enginehouse.formats._cells import (
    Fault,
    Oddity,
    Value,
    check_text,
    find_decimal_comma,
    is_blank,
    number_of,
    text_of,
    time_of,
)
from enginehouse.formats._columns import Columns
from enginehouse.formats._notes import Notes
from enginehouse.formats._picture_names import PictureNames
from enginehouse.formats._several import read_flags, split_labels
from enginehouse.labels import SPLIT_NAMES, LabelOptions, SeveralLabels

LIBRARIES: tuple[str, ...] = ()

XYWH = tuple[float, float, float, float]


@dataclass(slots=True)
class Row:
    """What one row says of a picture.

    Attributes:
        picture: its path.
        place: the row in its file.
        further: labels beside the first, where a row may have several.
        xywh: None where the row tells of no box.
        sides: width and height that stand beside the box, or beside a label.
    """

    picture: str
    place: str
    label: str = ""
    further: tuple[str, ...] = ()
    xywh: XYWH | None = None
    sides: tuple[float, float] | None = None
    split: str = ""
    group: str = ""
    time: str = ""


@dataclass
class Rows:
    """The rows of a table.

    Attributes:
        rows: those that can be used.
        num_rows: all that are not blank.
        broken: picture to why one of its rows cannot be used.
        unknown: places of rows that cannot be used and leave open which picture they mean.
    """

    rows: list[Row] = field(default_factory=list)
    num_rows: int = 0
    broken: dict[str, str] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)


def read_rows(
    table: CellTable,
    header_row: int,
    columns: Columns,
    names: PictureNames,
    notes: Notes,
    options: LabelOptions,
) -> Rows:
    """Read all rows below the header; one with several labels counts as a row for each.

    Args:
        header_row: its index among the rows; -1 if there is none.
    """
    numbers = (*columns.box, *(("width", "height") if columns.sides else ()))
    comma = find_decimal_comma(
        columns.cell(cells, role) for _, cells in table.iter_data(header_row) for role in numbers
    )
    # A blank label column in a table of boxes tells of no labels; elsewhere its cells are missing.
    labelled = "label" in columns.at and not (
        columns.box
        and all(is_blank(columns.cell(c, "label")) for _, c in table.iter_data(header_row))
    )
    good = options.good if isinstance(options, SeveralLabels) else None
    reader = _RowReader(table, columns, names, notes, numbers, labelled, comma, good)
    for number, cells in table.iter_data(header_row):
        reader.read(number, cells)
    return reader.rows


@dataclass
class _RowReader:
    """Reads one row after another into `rows`, or notes why not.

    Attributes:
        good: what a picture bears without any defect, where it may bear several labels.
    """

    table: CellTable
    columns: Columns
    names: PictureNames
    notes: Notes
    number_roles: tuple[str, ...]
    labelled: bool
    decimal_comma: bool | None
    good: str | None
    rows: Rows = field(default_factory=Rows)

    def read(self, number: int, cells: Sequence[Value]) -> None:
        self.rows.num_rows += 1
        row = Row("", self.table.name_row(number))
        steps = (self._fit, self._read_split, self._find_picture, self._read_box, self._read_texts)
        if all(step(number, cells, row) for step in steps):
            others = [replace(row, label=label, further=()) for label in row.further]
            self.rows.rows += [row, *others]
        elif row.picture:
            self.rows.broken.setdefault(row.picture, row.place)

    def _fit(self, number: int, cells: Sequence[Value], row: Row) -> bool:
        """Whether a row has as many cells as the header."""
        wanted = len(self.columns.names)
        extra = any(not is_blank(cell) for cell in cells[wanted:])
        if not self.table.ragged or not (extra or len(cells) < wanted):
            return True
        detail = f"{row.place} has {len(cells)} fields, the header has {wanted}."
        self.notes.leave_out("wrong number of fields", detail, row.place)
        found = self.names.find(self.columns.cell(cells, "image"))
        if isinstance(found, str) and not extra:
            row.picture = found
        else:  # a separator too many may well stand in the name
            self.rows.unknown.append(row.place)
        return False

    def _read_split(self, number: int, cells: Sequence[Value], row: Row) -> bool:
        text = text_of(self.columns.cell(cells, "split"))
        row.split = SPLIT_NAMES.get(text.lower(), "")
        if not text or row.split:
            return True
        remedy = "Write train, val or test, or leave the cell blank."
        fault = Fault("unknown split", f"holds {text!r}, which is no split", remedy, True)
        return self._refuse(number, "split", fault)

    def _find_picture(self, number: int, cells: Sequence[Value], row: Row) -> bool:
        value = self.columns.cell(cells, "image")
        fault = check_text(value)
        if fault is None and is_blank(value):
            fault = Fault("no picture named", "is blank, so the row names no picture", "", False)
        if fault is None:
            found = self.names.find(value, row.split)
            if isinstance(found, str):
                row.picture = found
                return True
            fault = _fault_of_name(found)
        if fault.reason != "missing file":
            self.rows.unknown.append(row.place)
        return self._refuse(number, "image", fault)

    def _read_box(self, number: int, cells: Sequence[Value], row: Row) -> bool:
        numbers: dict[str, float] = {}
        for role in self.number_roles:
            value = number_of(self.columns.cell(cells, role), self.decimal_comma)
            if isinstance(value, Fault):
                return self._refuse(number, role, value)
            if value is not None:
                numbers[role] = value
        if self.columns.sides and "width" in numbers and "height" in numbers:
            row.sides = (numbers["width"], numbers["height"])
        missing = [role for role in self.columns.box if role not in numbers]
        if missing and len(missing) < len(self.columns.box):
            fault = Fault("missing number", "is blank, though its row tells of a box", "", False)
            return self._refuse(number, missing[0], fault)
        if self.columns.box and not missing:
            row.xywh = _xywh_from_numbers(numbers, self.columns.box)
        return True

    def _read_texts(self, number: int, cells: Sequence[Value], row: Row) -> bool:
        if self.labelled:
            value = self.columns.cell(cells, "label")
            fault = check_text(value)
            if fault is None and is_blank(value) and (row.xywh or not self.columns.box):
                fault = Fault("no label", "is blank, so the row gives no label", "", False)
            text = " ".join(text_of(value).split())
            labels = (text,) if self.good is None else split_labels(text)
            if fault is None and text and not labels:
                fault = Fault("no label", f"holds {text!r}, which names no label", "", False)
            if fault:
                return self._refuse(number, "label", fault)
            row.label, *further = map(sys.intern, labels or ("",))
            row.further = tuple(further)
        if self.columns.classes and not self._read_flags(number, cells, row):
            return False
        for role in ("group", "time"):
            value = self.columns.cell(cells, role)
            fault = check_text(value) if isinstance(value, Oddity) else None
            if fault:
                return self._refuse(number, role, fault)
        row.group = text_of(self.columns.cell(cells, "group"))
        row.time = self._read_time(number, cells)
        return True

    def _read_flags(self, number: int, cells: Sequence[Value], row: Row) -> bool:
        """Which classes a row says 1 of, each in a column of its own."""
        match read_flags(self.columns.classes, cells, self.good):
            case (int(column), Fault() as fault):
                return self._refuse_cell(number, column, fault)
            case labels:
                row.label, row.further = labels[0], labels[1:]
        return True

    def _read_time(self, number: int, cells: Sequence[Value]) -> str:
        value = self.columns.cell(cells, "time")
        time = time_of(value)
        if time is None:
            place = self.table.name_cell(number, self.columns.at["time"])
            detail = f"{place} holds the time {text_of(value)!r}, which cannot be sorted; not used."
            remedy = "Write times as 2026-01-31 or 2026-01-31T23:59:59."
            self.notes.gather("warning", "time not sortable", "", detail, remedy, place)
        return time or ""

    def _refuse(self, number: int, role: str, fault: Fault) -> bool:
        """Note what is wrong with a cell; False, for its row is not used."""
        return self._refuse_cell(number, self.columns.at[role], fault)

    def _refuse_cell(self, number: int, column: int, fault: Fault) -> bool:
        header = self.columns.names[column]
        place = self.table.name_cell(number, column)
        detail = f"{place} (column {header!r}) {fault.detail}."
        if fault.whole:
            self.notes.gather("error", fault.reason, header, detail, fault.remedy, place)
        else:
            self.notes.leave_out(fault.reason, detail, place)
        return False


def _fault_of_name(found: NotFound) -> Fault:
    if found.reason == "path outside the data":
        remedy = "Write paths from the data folder; put the picture inside it."
        return Fault(found.reason, f"is not followed: {found.detail}", remedy, True)
    return Fault(found.reason, f"leads to no picture: {found.detail}", "", False)


def _xywh_from_numbers(numbers: dict[str, float], shape: tuple[str, ...]) -> XYWH | None:
    """The box; None for 0, 0, 0, 0, which stands for no object."""
    if not any(numbers[role] for role in shape):
        return None
    if "x2" in shape:
        x, y, x2, y2 = (numbers[role] for role in shape)
        return x, y, x2 - x, y2 - y
    width, height = numbers["width"], numbers["height"]
    if "center_x" in shape:
        return numbers["center_x"] - width / 2, numbers["center_y"] - height / 2, width, height
    return numbers["x"], numbers["y"], width, height
