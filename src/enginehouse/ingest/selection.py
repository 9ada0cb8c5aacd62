"""Which pictures are used, and with which labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from enginehouse.files import Files
from enginehouse.ingest.classes import Rule
from enginehouse.labels import Labelled, LeftOut, Reading, Unlisted


@dataclass(frozen=True)
class Selection:
    """The pictures that are used, if they can be decoded.

    Attributes:
        paths: sorted.
        left_out: pictures of which nothing is said.
    """

    paths: Sequence[str]
    left_out: Sequence[LeftOut]
    rule: Rule
    _reading: Reading
    _unlisted: Labelled

    def __getitem__(self, path: str) -> Labelled:
        return self._reading.pictures.get(path, self._unlisted)

    def label(self, path: str) -> str:
        """The class of a picture; "" where nothing at all is labelled."""
        return self.rule.label(self[path])

    def say(self, path: str) -> tuple[str, ...]:
        """All that is said of a picture as a whole: its class and its labels."""
        labelled = self[path]
        boxes = {box.label for box in labelled.boxes} - {""}
        return self.label(path), *sorted({*labelled.labels, *boxes})

    def list_classes(self) -> tuple[str, ...]:
        """Classes in index order."""
        return self.rule.order({self.label(path) for path in self.paths})


def select_pictures(
    files: Files, reading: Reading, rule: Rule, unlisted: Unlisted, label_files: Sequence[str]
) -> Selection:
    """Select the pictures that the labels speak of, and the others if those count as good.

    Args:
        unlisted: what a picture is that the labels do not mention.
        label_files: which were read.
    """
    # Under a label of pictures the good ones need one, too; under boxes, they have none.
    good = Labelled() if rule.boxed else Labelled((rule.good,))
    told = {item.file for item in reading.left_out if not item.place}
    paths: list[str] = []
    left_out: list[LeftOut] = []
    for path in files.pictures:
        labelled = reading.pictures.get(path)
        if path in told:
            continue
        if labelled is None and unlisted == "good":
            paths.append(path)
        elif labelled is None:
            where = f"{label_files[0]} does not" if len(label_files) == 1 else "Label files do not"
            left_out.append(LeftOut(path, "no label", f"{where} mention {path}."))
        elif rule.vocabulary and not rule.boxed and not labelled.labels:
            left_out.append(LeftOut(path, "no label", f"{labelled.file or path}: no label given."))
        else:
            paths.append(path)
    return Selection(paths, left_out, rule, reading, good)
