"""What each row of a sheet of corrections must be like, whatever other rows say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from enginehouse.correction_sheet import REMOVE
from enginehouse.files import Files
from enginehouse.formats._cells import text_of
from enginehouse.ingest.classes import JOINT
from enginehouse.ingest.correction_rows import Row
from enginehouse.ingest.selection import Selection
from enginehouse.labels import Finding, Labelled

ANEW = "Make the sheet anew with enginehouse label-errors, and correct that one."


@dataclass(frozen=True)
class Checker:
    """What a row must be like, whatever other rows say."""

    files: Files
    selection: Selection

    @cached_property
    def paths(self) -> Mapping[str, str]:
        """Paths of the selected pictures, as they read in a cell."""
        return {text_of(path): path for path in self.selection.paths}

    @cached_property
    def labels(self) -> Mapping[str, str]:
        """All single labels, as they read in a cell."""
        borne = {label for path in self.selection.paths for label in self.selection[path].labels}
        return {text_of(label): label for label in (*self.selection.rule.vocabulary, *borne)}

    @cached_property
    def several(self) -> bool:
        """Whether pictures may bear several labels, or some do."""
        chosen = self.selection
        return chosen.several or any(len(chosen[path].labels) > 1 for path in chosen.paths)

    @cached_property
    def by_md5(self) -> Mapping[str, str]:
        """The selected pictures by the MD5 of their files."""
        return {self.files.listing[path]: path for path in self.selection.paths}

    def split(self, label: str) -> tuple[str, ...]:
        """The labels that an answer names; () if there is one that is not known."""
        if label in self.labels:
            return (self.labels[label],)
        parts = [text_of(part) for part in label.split(JOINT)]
        allowed = self.several and len(parts) > 1 and all(part in self.labels for part in parts)
        return tuple(dict.fromkeys(self.labels[part] for part in parts)) if allowed else ()

    def spell(self, label: str) -> str:
        """An answer in the spelling of `Selection.spell`, whatever the order of joined labels."""
        return text_of(JOINT.join(self.selection.rule.sort(self.split(label)))) or label

    def find_fault(self, row: Row) -> Finding | None:
        """Why a row cannot be used."""
        path = self.paths.get(row.path)
        if path is None:
            return self._say_unknown(row)
        if row.md5 != self.files.listing[path]:
            detail = f"{path} is not the picture that was looked at: its MD5 is now "
            detail += f"{self.files.listing[path]}, the sheet has {row.md5 or 'none'}."
            return make_fault("corrected picture changed", row, detail, ANEW)
        return None if row.label in (row.given, REMOVE) else self._find_wrong_label(path, row)

    def _find_wrong_label(self, path: str, row: Row) -> Finding | None:
        labelled = self.selection[path]
        by_boxes = not labelled.labels or (self.selection.several and bool(labelled.boxes))
        if not row.label:
            detail = f"The label of {path} is empty."
            remedy = f"Write the right class, the given one ({row.given}), or {REMOVE}."
            return make_fault("no label", row, detail, remedy)
        if self.selection.rule.boxed and by_boxes:
            return make_fault("correction of boxes", row, *_tell_boxes(path, labelled))
        if not self.split(row.label):
            known = ", ".join(sorted(self.labels))
            detail = f"{row.label!r} for {path} is none of the classes {known}."
            remedy = f"Use one of them, or {REMOVE}; a new class begins in the labels themselves."
            return make_fault("unknown class", row, detail, remedy)
        return None

    def _say_unknown(self, row: Row) -> Finding:
        if (now := self.by_md5.get(row.md5)) is not None:
            detail = f"{row.path} is not among the pictures; it is now {now}."
        elif row.path in self.files.listing:
            detail = f"{row.path} is not among the pictures that are used; see the quarantine."
        else:
            detail = f"{row.path or 'A picture without a name'} is not among the pictures."
        remedy = f"Remove the row, or put the picture back. {ANEW}"
        return make_fault("unknown picture", row, detail, remedy)


def _tell_boxes(path: str, labelled: Labelled) -> tuple[str, str]:
    """Where a picture's class comes from."""
    places = ", ".join(dict.fromkeys(box.place for box in labelled.boxes if box.place))
    where = labelled.file or "the label file"
    named = f", {places or labelled.place}" if places or labelled.place else ""
    detail = f"{path} has its class from boxes, in {where}{named}; a sheet cannot correct those."
    return detail, f"Correct the boxes in {where}{named}, and give the row its given label again."


def make_fault(reason: str, row: Row, detail: str, remedy: str) -> Finding:
    """An error that names the row."""
    where = f"{row.file}, {row.place}: "
    return Finding("error", reason, row.file, f"{where}{detail}", remedy, row.place)
