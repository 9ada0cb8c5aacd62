"""Labels of a table, held against the file of class names that lies beside it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from enginehouse.files import Files
from enginehouse.formats._cells import whole_number_text
from enginehouse.formats._class_names import (
    choose_class_names,
    find_class_names,
    read_class_names,
)
from enginehouse.formats._notes import Notes
from enginehouse.formats._table_rows import Row
from enginehouse.labels import Reading

LIBRARIES: tuple[str, ...] = ()

_NUM_NAMED = 5  # ids and places that a finding names
_WHOLE = re.compile(r"[+-]?\d+(\.0+)?")


def settle_labels(
    files: Files, rows: Sequence[Row], reading: Reading, notes: Notes
) -> tuple[str, ...]:
    """Turn ids into class names, in place, where a file of class names says which is which.

    Returns:
        declared classes in the order of their ids; () if there is no such file, or if labels
        and names do not fit, which is noted as an error.
    """
    labels = {row.label for row in rows if row.label}
    if labels and all(map(_WHOLE.fullmatch, labels)):  # 1.0 was 1 before a program read it
        for row in rows:
            row.label = whole_number_text(row.label)
        labels = {whole_number_text(label) for label in labels}
    path = _choose(files, notes)
    if not path or not labels:
        return ()
    names, findings = read_class_names(files, path)
    reading.findings += [finding for finding in findings if finding not in reading.findings]
    if any(finding.severity == "error" for finding in findings):
        notes.num_errors += 1
        return ()
    if labels <= set(names):
        return names
    if all(map(_WHOLE.fullmatch, labels)):
        return names if _name_ids(path, names, rows, notes) else ()
    _refuse_names(path, names, rows, notes)
    return ()


def _choose(files: Files, notes: Notes) -> str:
    """The file of class names that belongs to the table, or ""."""
    paths = choose_class_names(find_class_names(files), notes.file)
    contents = {path: read_class_names(files, path)[0] for path in paths}
    if len(set(contents.values())) > 1:
        detail = f"Several files of class names lie beside it, and differ: {', '.join(paths)}."
        notes.find("error", "several class name files", detail, "Leave the right one only.")
        return ""
    return paths[0] if paths else ""


def _name_ids(path: str, names: tuple[str, ...], rows: Sequence[Row], notes: Notes) -> bool:
    """Turn ids into names; False, and an error noted, if some are out of range."""
    ids = sorted({int(row.label) for row in rows if row.label})
    last = len(names) - 1
    wrong = [number for number in ids if not 0 <= number <= last]
    if not wrong:
        for row in rows:
            row.label = names[int(row.label)] if row.label else ""
        return True
    places = [row.place for row in rows if row.label and int(row.label) in wrong]
    more = f" and {len(places) - _NUM_NAMED} more" if len(places) > _NUM_NAMED else ""
    detail = (
        f"{path} has {len(names)} names, so label ids have the range 0..{last}; found "
        f"{', '.join(map(str, wrong[:_NUM_NAMED]))} in {', '.join(places[:_NUM_NAMED])}{more}."
    )
    if ids[0] >= 1 and ids[-1] == len(names):
        detail += f" The ids seem to start at 1: they run from {ids[0]} to {ids[-1]}."
    remedy = f"Count ids from 0, as the lines of {path}, or write the names themselves."
    notes.find("error", "label id out of range", detail, remedy, places[0])
    return False


def _refuse_names(path: str, names: tuple[str, ...], rows: Sequence[Row], notes: Notes) -> None:
    for row in rows:
        if row.label and row.label not in names:
            detail = f"{row.place}: the label {row.label!r} is not among the {len(names)} names "
            detail += f"in {path}."
            remedy = "Add it there, or mend the label."
            notes.gather("error", "undeclared label", row.label, detail, remedy, row.place)
