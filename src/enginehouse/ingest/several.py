"""Pictures that may bear several labels: what their copies add, and which is the rarest.

The same pixels in the folders of two classes are no conflict then: there is no other way for
folders to say that a picture shows both. Whatever else says two things of one picture is one, and
so is a picture that is called good and something else, or a copy whose label was corrected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from enginehouse.correction_sheet import is_corrections
from enginehouse.ingest.conflicts import find_copies, tell_conflicts
from enginehouse.ingest.selection import Selection
from enginehouse.ingest.tables import iter_rows
from enginehouse.labels import Labelled, LeftOut


def settle_several(described: Path, selection: Selection) -> tuple[Selection, list[LeftOut]]:
    """The selection with the labels of copies joined and all labels counted; what is not used.

    Args:
        described: table with the columns `path` and `pixels`.
        selection: of pictures that may bear several labels.
    """
    joint: list[list[str]] = []
    torn: list[list[str]] = []
    for paths in find_copies(described, selection.say):
        # What a person said of one copy is not watered down by the folder of another.
        by_hand = any(is_corrections(selection[path].file) for path in paths)
        (joint if selection.by_folder and not by_hand else torn).append(paths)
    conflicts = tell_conflicts(torn, selection.say)
    selection = replace(selection, joined=_join(joint, selection))
    told = {item.file for item in conflicts}
    counts: Counter[str] = Counter()
    for (path,) in iter_rows(described, ["path"]):
        labels = selection.list_labels(path)
        if path in told:
            continue
        if selection.rule.good in labels and len(labels) > 1:
            conflicts.append(_tell_contradiction(path, labels, selection[path]))
        else:
            counts.update(labels)
    return replace(selection, counts=counts), conflicts


def _join(copies: Sequence[Sequence[str]], selection: Selection) -> dict[str, tuple[str, ...]]:
    joined: dict[str, tuple[str, ...]] = {}
    for paths in copies:
        labels = tuple(dict.fromkeys(x for path in paths for x in selection[path].labels))
        together = selection.rule.list_labels(Labelled(labels))
        joined |= dict.fromkeys(paths, together)
    return joined


def _tell_contradiction(path: str, labels: Sequence[str], labelled: Labelled) -> LeftOut:
    where = ", ".join(part for part in (labelled.file, labelled.place) if part)
    detail = f"{path} is said to be {' and '.join(labels)}{f' ({where})' if where else ''}; "
    return LeftOut(path, "label conflict", f"{detail}what is good has no other label.")
