"""From what labels say of a picture to its one class, and the order of classes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from enginehouse.labels import Box, Finding, Labelled, LabelOptions, Reading, SeveralLabels

ImageClass = Literal["any_box", "majority", "per_label"]
JOINT = "+"  # between the labels of a picture that has several


@dataclass(frozen=True)
class Rule:
    """How a picture gets its class.

    Attributes:
        image_class: of pictures of which only boxes are labelled.
        good: the class of a picture without boxes.
        defect: the class of a picture with boxes, under `any_box`.
        boxed: whether labels are boxes in this data set.
        vocabulary: declared labels, in index order.
    """

    image_class: ImageClass
    good: str
    defect: str
    boxed: bool
    vocabulary: tuple[str, ...]

    def label(self, labelled: Labelled) -> str:
        """The class of one picture; "" where nothing is said of it."""
        if labelled.labels:
            return JOINT.join(self.sort(labelled.labels))
        if not self.boxed:
            return ""
        boxes = _find_meant(labelled.boxes)
        if not boxes:
            return self.good
        if self.image_class == "any_box":
            return self.defect
        if self.image_class == "majority":
            return self._find_commonest(boxes)
        return JOINT.join(self.sort(box.label or self.defect for box in boxes))

    def list_labels(self, labelled: Labelled) -> tuple[str, ...]:
        """All that one picture bears, where that may be several labels, in index order.

        () where nothing is said of it. A good region beside a defect does not make it good.
        """
        shown = {box.label or self.defect for box in _find_meant(labelled.boxes)}
        said = {*labelled.labels, *(shown - {self.good})}
        if not said and self.boxed:
            said = {self.good}
        return tuple(self.sort(said))

    def order(self, occurring: Collection[str]) -> tuple[str, ...]:
        """Classes of whole pictures in index order.

        Where labels are boxes: those that occur, the good one first. Else all that are declared.
        """
        if not self.boxed:
            added = sorted(set(occurring) - set(self.vocabulary) - {""})
            first = [name for name in added if name == self.good]
            return (*first, *self.vocabulary, *(name for name in added if name != self.good))
        places = {label: place for place, label in enumerate(self.vocabulary)}
        known = {self.good: (-2,), self.defect: (-1,)} if self.image_class == "any_box" else {}
        known.setdefault(self.good, (-1,))

        def rank(name: str) -> tuple[tuple[int, ...], str]:
            parts = [places.get(part, len(places)) for part in name.split(JOINT)]
            return known.get(name, tuple(parts)), name

        return tuple(sorted(set(occurring) - {""}, key=rank))

    def sort(self, labels: Iterable[str]) -> list[str]:
        """Labels in index order, each once."""
        places = {label: place for place, label in enumerate(self.vocabulary)}
        return sorted(set(labels), key=lambda label: (places.get(label, len(places)), label))

    def _find_commonest(self, boxes: Sequence[Box]) -> str:
        """The commonest label of boxes; among equals the one that covers most, then by name."""
        counts: dict[str, int] = defaultdict(int)
        areas: dict[str, float] = defaultdict(float)
        for box in boxes:
            label = box.label or self.defect
            counts[label] += 1
            areas[label] += max(box.xywh[2], 0) * max(box.xywh[3], 0)
        return min(counts, key=lambda label: (-counts[label], -areas[label], label))


def _find_meant(boxes: Iterable[Box]) -> list[Box]:
    """The boxes that stand for something: also one that cannot be used says that it is there."""
    return [box for box in boxes if any(box.xywh) or box.polygons]


def make_rule(
    reading: Reading, declared: tuple[str, ...], image_class: ImageClass, good: str, defect: str
) -> Rule:
    """The rule for one reading.

    Args:
        declared: by the user; () if the data say it.
    """
    pictures = reading.pictures.values()
    boxes = any(labelled.boxes for labelled in pictures)
    labels = any(labelled.labels for labelled in pictures)
    boxed = boxes or (not labels and bool(reading.classes))
    vocabulary = list(declared or reading.classes)
    vocabulary += sorted(list_labels(pictures) - set(vocabulary))
    return Rule(image_class, good, defect, boxed, tuple(vocabulary))


def list_labels(pictures: Iterable[Labelled]) -> set[str]:
    """All labels that pictures or boxes bear."""
    distinct = set(pictures)  # class folders share them
    found = {label for each in distinct for label in each.labels}
    return (found | {box.label for each in distinct for box in each.boxes}) - {""}


def find_undeclared(reading: Reading, options: LabelOptions) -> list[Finding]:
    """An error for labels that the user's list of classes does not have."""
    declared = options.classes
    known = {*declared, *([options.good] if isinstance(options, SeveralLabels) else ())}
    unknown = sorted(list_labels(reading.pictures.values()) - known) if declared else []
    if not unknown:
        return []
    path, labelled = next(
        (path, each)
        for path, each in reading.pictures.items()
        if list_labels([each]) & set(unknown)
    )
    detail = f"The data have labels {', '.join(unknown[:5])} that are not among the declared "
    detail += f"{', '.join(declared)}; {path} has one."
    remedy = "Add them to ingest.labels.classes, or mend the labels."
    file = labelled.file or path
    return [Finding("error", "undeclared label", file, detail, remedy, labelled.place)]
