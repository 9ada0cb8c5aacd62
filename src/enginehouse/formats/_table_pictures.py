"""Rows of tables put together, picture by picture; where rows contradict each other, it is said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from enginehouse.formats._columns import Columns
from enginehouse.formats._notes import Notes
from enginehouse.formats._splits import split_of, split_of_label_file
from enginehouse.formats._table_rows import XYWH, Row, Rows
from enginehouse.labels import Box, Labelled, LeftOut, Reading, Severity

LIBRARIES: tuple[str, ...] = ()

_ROUNDING = 1.01  # pixels by which a width may differ from x2 - x: some count the last one, too


@dataclass(slots=True)
class _Picture:
    """What is known of one picture so far; each thing with where it stands."""

    file: str
    place: str
    labels: dict[str, str] = field(default_factory=dict)
    boxes: dict[tuple[str, XYWH, bool], str] = field(default_factory=dict)
    empty: str = ""
    split: tuple[str, str] = ("", "")
    group: tuple[str, str] = ("", "")
    time: tuple[str, str] = ("", "")
    size: tuple[int, int] | None = None


class Pictures:
    """All pictures that the tables of a data set tell of.

    Args:
        files: the tables' files.
        several: whether a picture may have several labels.
    """

    def __init__(self, files: Sequence[str], several: bool) -> None:
        self._several = several
        splits = {file: split_of_label_file(file) for file in files}
        self._file_splits = splits if len(set(splits.values())) > 1 else {}
        self._pictures: dict[str, _Picture] = {}
        self._broken: dict[str, tuple[str, str]] = {}
        self._all_boxes = True
        self._all_known = True

    def add(self, columns: Columns, rows: Rows, notes: Notes) -> None:
        """Add the rows of one table."""
        relative = _are_relative(rows.rows)
        if relative:
            detail = "All boxes lie within 0..1: they are taken as shares of the picture's sides."
            notes.find("info", "relative boxes", detail)
        claims_size = columns.sides and not _sides_are_of_boxes(rows.rows)
        for row in rows.rows:
            known = self._pictures.get(row.picture)
            if known is None:
                known = self._pictures[row.picture] = _Picture(notes.file, row.place)
            if columns.box:
                self._add_box(known, row, relative, notes)
            else:
                self._add_label(known, row, notes)
            self._add_facts(known, row, notes)
            if claims_size and row.sides and min(row.sides) >= 1:
                known.size = (round(row.sides[0]), round(row.sides[1]))
        for picture, place in rows.broken.items():
            self._broken.setdefault(picture, (notes.file, place))
        self._all_boxes = self._all_boxes and bool(columns.box)
        self._all_known = self._all_known and not rows.unknown

    def finish(self, reading: Reading) -> None:
        """Put all pictures into the reading."""
        for path, (file, place) in sorted(self._broken.items()):
            known = self._pictures.get(path)
            if known is None or not (known.labels or known.boxes):
                self._pictures.pop(path, None)
                detail = f"{path}: {place} of {file} tells of it and cannot be used."
                reading.left_out.append(LeftOut(path, "no usable label", detail))
        complete = self._all_boxes and self._all_known and bool(self._pictures)
        for path in sorted(self._pictures):  # popped, for there may be very many
            reading.pictures[path] = self._labelled(path, self._pictures.pop(path))
        reading.unlisted = "good" if complete else "left out"

    def _labelled(self, path: str, known: _Picture) -> Labelled:
        boxes = (
            Box(label, xywh, place=place, relative=relative)
            for (label, xywh, relative), place in known.boxes.items()
        )
        return Labelled(
            labels=tuple(known.labels),
            boxes=tuple(boxes),
            split=known.split[0] or split_of(path) or self._file_splits.get(known.file, ""),
            group=known.group[0],
            time=known.time[0],
            file=known.file,
            place=known.place,
            size=known.size,
        )

    def _add_box(self, known: _Picture, row: Row, relative: bool, notes: Notes) -> None:
        if row.xywh is None:
            if row.label:
                self._add_label(known, row, notes)
            known.empty = known.empty or row.place
        else:
            key = (row.label, row.xywh, relative)
            first = known.boxes.setdefault(key, row.place)
            if first != row.place:
                _note_repeat(row, first, notes)
        if known.empty and known.boxes:
            other = next(iter(known.boxes.values()))
            detail = (
                f"{known.empty} has no box for {row.picture}, {other} has one; that one counts."
            )
            notes.gather("warning", "box and no box", row.picture, detail, "", known.empty)

    def _add_label(self, known: _Picture, row: Row, notes: Notes) -> None:
        first = known.labels.get(row.label)
        if first is None and known.labels and not self._several:
            label, place = next(iter(known.labels.items()))
            detail = (
                f"{row.picture} has two labels: {label!r} in {_say(known, place, notes)} and "
                f"{row.label!r} in {row.place}."
            )
            remedy = "Leave one row per picture, with its right label."
            notes.gather("error", "label conflict", row.picture, detail, remedy, row.place)
        elif first is not None:
            _note_repeat(row, _say(known, first, notes), notes)
        known.labels.setdefault(row.label, row.place)

    def _add_facts(self, known: _Picture, row: Row, notes: Notes) -> None:
        split = row.split or self._file_splits.get(notes.file, "")
        for name, value in (("split", split), ("group", row.group), ("time", row.time)):
            before, place = getattr(known, name)
            if value and not before:
                setattr(known, name, (value, row.place))
            elif value and value != before:
                detail = (
                    f"{row.picture} has two of {name}: {before!r} in {_say(known, place, notes)} "
                    f"and {value!r} in {row.place}."
                )
                remedy = f"Give each picture one {name}."
                severity: Severity = "warning" if name == "time" else "error"
                notes.gather(
                    severity, f"conflicting {name}", row.picture, detail, remedy, row.place
                )


def _say(known: _Picture, place: str, notes: Notes) -> str:
    return place if known.file == notes.file else f"{known.file}, {place}"


def _note_repeat(row: Row, first: str, notes: Notes) -> None:
    detail = f"{row.place} is a duplicate of {first}; it counts once."
    notes.gather("warning", "duplicate row", "", detail, "Remove repeated rows.", row.place)


def _are_relative(rows: Sequence[Row]) -> bool:
    """Whether all boxes lie within 0..1 and are no whole numbers."""
    numbers = [number for row in rows if row.xywh for number in row.xywh]
    inside = all(0 <= number <= 1 for number in numbers)
    return inside and any(not number.is_integer() for number in numbers)


def _sides_are_of_boxes(rows: Sequence[Row]) -> bool:
    """Whether width and height beside two corners repeat the box; else they are the picture's."""
    return all(
        abs(row.sides[0] - row.xywh[2]) <= _ROUNDING
        and abs(row.sides[1] - row.xywh[3]) <= _ROUNDING
        for row in rows
        if row.sides and row.xywh
    ) and any(row.sides and row.xywh for row in rows)
