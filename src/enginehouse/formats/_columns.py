"""Which columns of a table are read, and whether they say enough.

Knows the header and a look at the first rows, and nothing of what becomes of the rows.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from enginehouse.formats._cells import Value
from enginehouse.formats._headers import COORDINATES, ROLES, Header, fold_header, names_box, unit_of
from enginehouse.formats._notes import Notes
from enginehouse.formats._picture_names import PictureNames
from enginehouse.formats._several import find_class_columns, free_classes
from enginehouse.labels import LabelOptions, SeveralLabels

LIBRARIES: tuple[str, ...] = ()

_SIZES = ("width", "height")
_SHAPES = (("x", "y", "x2", "y2"), ("x", "y", *_SIZES), ("center_x", "center_y", *_SIZES))
MAP_HEADERS = "Map headers in the recipe: `columns: {image: <header>, label: <header>, ...}`."
NAME_CLASSES = (
    "Name the classes in the recipe: `classes: [<header>, ...]`; or the label's column: "
    "`columns: {label: <header>}`."
)


@dataclass(frozen=True)
class Columns:
    """The columns that are read.

    Attributes:
        names: all headers.
        at: role to index of its column.
        box: the four roles that give a box; () in a table of a label per picture.
        sides: whether a width and a height stand beside the box.
        classes: label to the column that says by 0 or 1 whether a picture bears it.
    """

    names: tuple[str, ...]
    at: dict[str, int]
    box: tuple[str, ...]
    sides: bool
    classes: Mapping[str, int] = field(default_factory=dict)

    def cell(self, cells: Sequence[Value], role: str) -> Value:
        """The cell of a role in one row, None if there is none."""
        column = self.at.get(role, -1)
        return cells[column] if 0 <= column < len(cells) else None


def choose_columns(
    header: Header,
    below: Sequence[Sequence[Value]],
    names: PictureNames,
    notes: Notes,
    place: str,
    options: LabelOptions,
) -> Columns | None:
    """Choose the columns to read; None, and an error noted, if they say too little.

    Args:
        below: the first rows below the header.
        place: of the header in its file.
    """
    several = isinstance(options, SeveralLabels)
    header = free_classes(header, options) if several else header
    at = {role: columns[0] for role, columns in header.columns.items()}
    images = header.columns["image"]
    at["image"] = max(images, key=lambda column: names.name_share(below, column))
    box = next((shape for shape in _SHAPES if all(role in at for role in shape)), ())
    errors = [*_check_box(header, at, box), *_check_repeats(header, at, box)]
    classes: dict[str, int] = {}
    if several and not box and not errors:
        classes, doubt = find_class_columns(header, at, below, options)
        errors += [("label or classes", doubt, NAME_CLASSES)] if doubt else []
    if not errors and "label" not in at and not box and not classes:
        detail = "There is neither a label nor a box column"
        errors.append(("no label column", f"{detail}; {quote_headers(header.names)}.", MAP_HEADERS))
    for reason, detail, remedy in errors:
        notes.find("error", reason, detail, remedy, place)
    if errors:
        return None
    sides = set(_SIZES) <= at.keys() and not set(_SIZES) <= set(box)
    used = {"image", "split", "group", "time", *box, *(_SIZES if sides else ())}
    used |= set() if classes else {"label"}
    at = {role: column for role, column in at.items() if role in used}
    _say_unread(header, {*at.values(), *classes.values()}, notes, place)
    return Columns(header.names, at, box, sides, classes)


def check_mapping(
    header: Header | None, found: Sequence[str], options: LabelOptions, notes: Notes
) -> None:
    """Note as errors what the recipe says of columns and the table does not have.

    Args:
        found: what looks like headers where there is no header.
    """
    for role, wanted in options.columns.items():
        if role not in ROLES:
            detail = f"columns: {role!r} means nothing to us; there are {', '.join(ROLES)}."
            notes.find("error", "unknown column role", detail, "Mend the recipe.")
        elif header is None or role not in header.columns:
            names = header.names if header else found
            detail = f"The recipe has the {role} in a column {wanted!r}; {quote_headers(names)}."
            notes.find("error", "header not found", detail, "Mend `columns` in the recipe.")


def quote_headers(names: Sequence[str]) -> str:
    """`the headers found are 'file', 'x'`."""
    return f"the headers found are {', '.join(repr(name) for name in names if name)}"


def _say_unread(header: Header, read: Collection[int], notes: Notes, place: str) -> None:
    unread = [n for c, n in enumerate(header.names) if n and c not in read]
    if unread:
        detail = f"Columns that are not read: {', '.join(map(repr, unread))}."
        notes.find("info", "columns not read", detail, MAP_HEADERS, place)


def _check_box(
    header: Header, at: dict[str, int], box: tuple[str, ...]
) -> list[tuple[str, str, str]]:
    errors = []
    if not box and header.has_boxes():
        given = [role for role in COORDINATES if role in at]
        shape = min(_SHAPES, key=lambda shape: sum(role not in at for role in shape))
        missing = ", ".join(role for role in shape if role not in at)
        detail = (
            f"A box needs {', '.join(shape)}; {missing} is missing ({', '.join(given)} found); "
        )
        detail += f"{quote_headers(header.names)}."
        errors.append(("incomplete box columns", detail, MAP_HEADERS))
    for role in box:
        unit = unit_of(header.names[at[role]])
        if unit:
            detail = f"The column {header.names[at[role]]!r} is in {unit}; pixels are wanted."
            errors.append(("unit is not pixels", detail, "Convert the boxes to pixels."))
    if any(re.fullmatch("[xy][34]", fold_header(name)) for name in header.names):
        detail = f"Boxes have more than two corners; {quote_headers(header.names)}."
        remedy = "Give x, y, width, height of the box around them, or write COCO polygons."
        errors.append(("more than two corners", detail, remedy))
    return errors


def _check_repeats(
    header: Header, at: dict[str, int], box: tuple[str, ...]
) -> list[tuple[str, str, str]]:
    """Two columns of the very same name, where one of them would be read."""
    errors = []
    for role in ("image", "label", "split", "group", "time", *box):
        name = header.names[at[role]] if role in at else ""
        same = [n for n in header.names if name and _tell_apart(n) == _tell_apart(name)]
        if len(same) > 1:
            detail = f"{len(same)} columns are headed {name!r}; one can be the {role}."
            errors.append(("repeated header", detail, "Rename or remove the others."))
    return errors


def _tell_apart(name: str) -> tuple[str, bool, str]:
    return fold_header(name), names_box(name), unit_of(name)
