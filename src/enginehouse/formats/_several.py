"""Several labels of one picture in a table: in one cell, or as a column for each class.

Read so only where the problem lets a picture bear several labels.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from enginehouse.formats._cells import Fault, Value, is_blank, text_of, whole_number_text
from enginehouse.formats._headers import Header
from enginehouse.labels import LabelOptions

LIBRARIES: tuple[str, ...] = ()

_FLAGS = {"1": True, "true": True, "0": False, "false": False}


def split_labels(text: str) -> tuple[str, ...]:
    """The labels in one cell, between `;` or `|`."""
    parts = (" ".join(part.split()) for part in re.split(r"[;|]", text))
    return tuple(dict.fromkeys(part for part in parts if part))


def free_classes(header: Header, options: LabelOptions) -> Header:
    """The header without the meanings of columns that are headed by a declared class.

    A class may well be called `top` or `defect`, which mean something else elsewhere.
    """
    kept = {header.columns["image"][0]}
    kept |= {c for role in options.columns for c in header.columns.get(role, ())}
    columns = {
        role: tuple(c for c in places if c in kept or header.names[c] not in options.classes)
        for role, places in header.columns.items()
    }
    return replace(header, columns={role: places for role, places in columns.items() if places})


def find_class_columns(
    header: Header, at: Mapping[str, int], below: Sequence[Sequence[Value]], options: LabelOptions
) -> tuple[dict[str, int], str]:
    """The columns that stand for a class each, by label, and what is doubtful about them.

    They are those of declared classes, or where none are declared those that hold 0 and 1 only.
    They count where no column holds labels as words.

    Args:
        at: role to index of its column.
        below: the first rows below the header.
    """
    free = {n: c for c, n in enumerate(header.names) if n and c not in at.values()}
    if options.classes:
        found = {name: column for name, column in free.items() if name in options.classes}
    else:
        found = {name: column for name, column in free.items() if _holds_flags(below, column)}
    if "label" not in at:
        return found, ""
    if "label" in options.columns or not _holds_flags(below, at["label"]):
        return {}, ""
    if options.classes or not found:
        return found, ""
    named = ", ".join(map(repr, found))
    detail = f"The column {header.names[at['label']]!r} holds 0 and 1, and so does {named}: it may "
    return {}, f"{detail}hold the label, or stand for one of several classes."


def _holds_flags(rows: Sequence[Sequence[Value]], column: int) -> bool:
    """Whether there are 0 and 1 in a column, and nothing else."""
    values = [cells[column] for cells in rows if len(cells) > column]
    flags = [_flag_of(value) for value in values if not is_blank(value)]
    return bool(flags) and None not in flags


def read_flags(
    classes: Mapping[str, int], cells: Sequence[Value], good: str | None
) -> tuple[str, ...] | tuple[int, Fault]:
    """The labels that one row has a 1 for, or the column of a cell that is neither 0 nor 1.

    Args:
        classes: label to column.
        good: what a picture bears without any of them.
    """
    borne = []
    for label, column in classes.items():
        value = cells[column] if column < len(cells) else None
        flag = _flag_of(value)
        if flag is None:
            found = "is blank" if is_blank(value) else f"holds {text_of(value)!r}"
            detail = f"{found}; wanted is 1, the picture bears that label, or 0, it does not"
            return column, Fault("no 0 or 1", detail, "", False)
        borne += [label] if flag else []
    if not borne and good is not None and good in classes:
        detail = "holds 0, as do those of all other classes, so the row gives no label"
        return classes[good], Fault("no label", detail, "", False)
    return tuple(borne or [str(good)])


def _flag_of(value: Value) -> bool | None:
    return _FLAGS.get(whole_number_text(text_of(value)).lower())
