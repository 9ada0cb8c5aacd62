"""Which pictures are used, and with which labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from enginehouse.files import Files
from enginehouse.ingest.classes import JOINT, Rule
from enginehouse.labels import Labelled, LeftOut, Reading, Unlisted


@dataclass(frozen=True)
class Selection:
    """The pictures that are used, if they can be decoded.

    Attributes:
        paths: sorted.
        left_out: pictures of which nothing is said.
        several: whether a picture may bear several labels.
        joined: labels of pictures whose copies lie in folders of other classes.
        counts: pictures that bear each label, where they may bear several.
    """

    paths: Sequence[str]
    left_out: Sequence[LeftOut]
    rule: Rule
    _reading: Reading
    _unlisted: Labelled
    several: bool = False
    joined: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)

    def __getitem__(self, path: str) -> Labelled:
        return self._reading.pictures.get(path, self._unlisted)

    @property
    def by_folder(self) -> bool:
        """Whether the labels are those of folders."""
        return self._reading.by_folder

    def label(self, path: str) -> str:
        """The class of a picture, of several labels the rarest; "" where nothing is labelled."""
        if not self.several:
            return self.rule.label(self[path])
        return min(self.list_labels(path), key=self.counts.__getitem__, default="")

    def spell(self, path: str) -> str:
        """All that a picture bears in one word, as a sheet of corrections has it."""
        return JOINT.join(self.list_labels(path)) if self.several else self.label(path)

    def list_labels(self, path: str) -> tuple[str, ...]:
        """All labels of a picture: of itself and its boxes, sorted; where it may bear several,
        those that it does, in index order."""
        labelled = self[path]
        if self.several:
            return self.joined.get(path) or self.rule.list_labels(labelled)
        return tuple(sorted({*labelled.labels, *(box.label for box in labelled.boxes)} - {""}))

    def say(self, path: str) -> tuple[str, ...]:
        """All that is said of a picture as a whole: its class and its labels."""
        if self.several:
            return self.list_labels(path)
        return self.label(path), *self.list_labels(path)

    def list_classes(self) -> tuple[str, ...]:
        """Classes in index order."""
        if self.several:
            return self.rule.order({each for path in self.paths for each in self.list_labels(path)})
        return self.rule.order({self.label(path) for path in self.paths})


def select_pictures(
    files: Files,
    reading: Reading,
    rule: Rule,
    unlisted: Unlisted,
    label_files: Sequence[str],
    several: bool,
) -> Selection:
    """Select the pictures that the labels speak of, and the others if those count as good.

    Args:
        unlisted: what a picture is that the labels do not mention.
        label_files: which were read.
        several: whether a picture may bear several labels.
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
    return Selection(paths, left_out, rule, reading, good, several)
