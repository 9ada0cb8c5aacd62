"""Corrections: labels that a person looked at again replace those that the data gives.

They come as sheets in the data folder, `corrections*.xlsx` or `.csv`. A sheet says of each of its
pictures which label it had and which it shall have. Sheets build on each other, in whichever order
they lie there: a row counts from the moment that its picture has the label which the row calls
given. What does not fit is an error that names the row; nothing is passed over.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from enginehouse.correction_sheet import REMOVE, TAKEN_OUT, is_corrections
from enginehouse.files import Files
from enginehouse.formats._cells import text_of
from enginehouse.ingest.correction_checks import ANEW, Checker, make_fault
from enginehouse.ingest.correction_rows import Row, read_rows
from enginehouse.ingest.selection import Selection
from enginehouse.ingest.tables import DESCRIBED, iter_rows, write_table
from enginehouse.labels import Finding, Labelled, LeftOut, Reading

NAMED = 20  # errors of one kind that are told in full; the others by their rows


@dataclass
class Corrected:
    """What corrections come to.

    Attributes:
        pictures: what is said now of each picture whose label was replaced.
        left_out: pictures that were taken out.
        findings: how many labels were replaced and which; and what does not fit.
    """

    pictures: dict[str, Labelled] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def apply(self, reading: Reading, described: Path) -> None:
        """Put them into what was read, and into the table of described pictures.

        Args:
            described: rewritten without the pictures that were taken out.
        """
        reading.pictures.update(self.pictures)
        reading.left_out += self.left_out
        gone = {item.file for item in self.left_out}
        if gone:
            kept = described.with_name("kept.parquet")
            rows = iter_rows(described, list(DESCRIBED))
            write_table(kept, DESCRIBED, (row for row in rows if row[0] not in gone))
            kept.replace(described)


def find_corrections(files: Files) -> tuple[str, ...]:
    """The sheets of corrections, by their names; sorted.

    One that is named as the label file to read is a label file.
    """
    every = sorted(path for path in files.listing if is_corrections(path))
    return tuple(path for path in every if path != files.only and path not in files.junk)


def leave_out(files: Files, paths: Collection[str]) -> Files:
    """The files without some."""
    listing = {path: md5 for path, md5 in files.listing.items() if path not in paths}
    return replace(files, listing=listing)


def correct_labels(files: Files, sheets: Sequence[str], selection: Selection) -> Corrected:
    """What the sheets make of the selected pictures.

    Args:
        files: with the pictures that the sheets name.
        sheets: paths of the sheets.
        selection: the pictures with their labels as the data gives them.
    """
    rows: list[Row] = []
    faults: list[Finding] = []
    for sheet in sheets:
        found, wrong = read_rows(files, sheet)
        rows += found
        faults += wrong
    checker = Checker(files, selection)
    by_picture: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if fault := checker.find_fault(row):
            faults.append(fault)
        else:
            spelt = replace(row, given=checker.spell(row.given), label=checker.spell(row.label))
            by_picture[checker.paths[row.path]].append(spelt)
    corrected = Corrected()
    used: list[Row] = []
    for path, mine in by_picture.items():
        trail, fault = _follow(text_of(selection.spell(path)), mine)
        if fault or not trail:
            faults += [fault] if fault else []
            continue
        last = trail[-1]
        used.append(last)
        if last.label == REMOVE:
            detail = f"{path} ({last.given}) is taken out by {last.file}, {last.place}."
            corrected.left_out.append(LeftOut(path, TAKEN_OUT, detail))
        elif last.label != text_of(selection.spell(path)):
            labels = checker.split(last.label)
            corrected.pictures[path] = replace(
                selection[path], labels=labels, file=last.file, place=last.place
            )
    corrected.findings = [*_say_used(sheets, used), *_shorten(faults)]
    return corrected


def _follow(label: str, rows: Sequence[Row]) -> tuple[list[Row], Finding | None]:
    """The rows that change one picture's label, in the order in which they build on each other.

    Args:
        label: as the data gives it.
        rows: of one picture.

    Returns:
        the rows, or the first thing that does not fit.
    """
    if pair := _find_contradiction(rows):
        return [], _say_two_answers(*pair)
    seen = [label]
    trail: list[Row] = []
    told_twice = False
    left = [row for row in rows if row.label != row.given]
    while todo := [row for row in left if row.given == seen[-1]]:
        first = todo[0]
        if other := next((row for row in todo if row.label != first.label), None):
            return [], _say_two_answers(first, other)
        told_twice = told_twice or len({row.file for row in todo}) > 1
        if told_twice and first.label in seen:
            return [], _say_circle(first)
        trail.append(first)
        seen.append(first.label)
        left = [row for row in left if row not in todo]
    for row in rows:
        if row.given not in seen:
            said = " and then ".join(dict.fromkeys(seen))
            detail = f"{row.path} is given as {row.given} there; the data says {said}."
            return [], make_fault("correction out of date", row, detail, ANEW)
    return trail, None


def _find_contradiction(rows: Sequence[Row]) -> tuple[Row, Row] | None:
    """Two rows of one sheet that ask the same and answer differently."""
    first: dict[tuple[str, str], Row] = {}
    for row in rows:
        known = first.setdefault((row.file, row.given), row)
        if known.label != row.label:
            return known, row
    return None


def _say_two_answers(one: Row, other: Row) -> Finding:
    detail = f"{one.path} has two answers: {one.label} in {one.file}, {one.place}, and "
    detail += f"{other.label} here."
    return make_fault("two answers", other, detail, "Remove one of the rows.")


def _say_circle(row: Row) -> Finding:
    """Which of the sheets that say the same came after this row, nobody knows."""
    detail = f"{row.path} is corrected to {row.label} again, and away from it in several sheets; "
    detail += "which came last cannot be told."
    return make_fault("correction in a circle", row, detail, "Remove the rows that no longer hold.")


def _say_used(sheets: Sequence[str], used: Sequence[Row]) -> list[Finding]:
    """How many labels each sheet replaced, and which."""
    findings = []
    for sheet in sheets:
        mine = [row for row in used if row.file == sheet]
        named = [f"{row.path} {row.given} -> {row.label} ({row.place})" for row in mine[:NAMED]]
        more = f", and {len(mine) - NAMED} more" if len(mine) > NAMED else ""
        what = f": {', '.join(named)}{more}" if mine else ""
        detail = f"{sheet} corrects {len(mine)} labels{what}."
        findings.append(Finding("info", "labels corrected", sheet, detail))
    return findings


def _shorten(faults: Iterable[Finding]) -> list[Finding]:
    """The first of each kind in full, the others of the same sheet by their places."""
    kinds: dict[tuple[str, str], list[Finding]] = defaultdict(list)
    for fault in faults:
        kinds[fault.reason, fault.file].append(fault)
    told = []
    for (reason, file), mine in kinds.items():
        told += mine[:NAMED]
        if rest := [fault.place for fault in mine[NAMED:]]:
            detail = f"{file}: {reason} in {len(rest)} more places: {', '.join(rest)}."
            told.append(Finding("error", reason, file, detail, mine[0].remedy))
    return told
