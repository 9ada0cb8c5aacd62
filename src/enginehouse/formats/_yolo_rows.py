"""The rows of one YOLO label file: class and box, or class and polygon, in shares of the sides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from enginehouse.formats._numbers import parse_number
from enginehouse.formats._per_picture import PictureLabels
from enginehouse.labels import Box

LIBRARIES: tuple[str, ...] = ()

_ROUNDING = 1e-5  # by so much a share may pass 0 or 1: tools write six decimals or fewer
_BOX = ("x centre", "y centre", "width", "height")


@dataclass
class RowReader:
    """Reads the rows of all label files of one data set.

    Attributes:
        names: class index to name; {} if nothing declares any.
        num_keypoints: numbers in each row that follow the box.
        used: class indices that rows have.
        confident: label files with a confidence in each row.
    """

    names: Mapping[int, str]
    num_keypoints: int = 0
    used: set[int] = field(default_factory=set)
    confident: list[str] = field(default_factory=list)

    def read(self, text: str, labels: PictureLabels) -> None:
        """Read all rows of a file; one that cannot be read spoils the whole file."""
        first_lines: dict[object, int] = {}
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip():
                continue
            labels.num_regions += 1
            place = f"line {number}"
            box = self._read_row(line.split(), place, labels)
            if box is None:
                continue
            first = first_lines.setdefault((box.label, box.xywh, box.polygons), number)
            if first == number:
                labels.boxes.append(box)
            else:
                detail = f"the row is a duplicate of line {first}; it counts once."
                remedy = "Remove the second row."
                labels.find("warning", "duplicate row", detail, remedy, place)

    def _read_row(self, row: list[str], place: str, labels: PictureLabels) -> Box | None:
        """The box of a row, or None (and why is noted)."""
        parsed = [parse_number(text) for text in row]
        numbers = [number for number in parsed if number is not None]
        if len(numbers) < len(row):
            wrong = row[parsed.index(None)]
            self._spoil(labels, "not a number", f"{wrong!r} is not a number", place)
            return None
        index, shares = numbers[0], self._choose_columns(numbers)
        if not shares:
            wanted = "class, x, y, width, height, or class and x, y of three points or more"
            detail = f"a row should hold {wanted}; found {len(row)} columns"
            self._spoil(labels, "wrong number of columns", detail, place)
            return None
        if len(row) == 6 and labels.file not in self.confident[-1:]:
            self.confident.append(labels.file)
        has_class = self._has_class(index, place, labels)
        for column, share in enumerate(shares):
            if not -_ROUNDING <= share <= 1 + _ROUNDING:
                name = _BOX[column] if len(shares) == 4 else "xy"[column % 2]
                detail = f"{name} is {share:g}, outside the normalised range 0..1"
                self._spoil(labels, "values outside 0..1", detail, place)
                return None
        label = self.names.get(int(index), str(int(index)))
        return _build_box(label, shares, place) if has_class else None

    def _choose_columns(self, numbers: list[float]) -> list[float]:
        """The columns of box or polygon, without class, confidence and keypoints; [] if wrong."""
        count = len(numbers) - 1
        if count == 4 or (self.num_keypoints and count == 4 + self.num_keypoints):
            return numbers[1:5]
        if count == 5:  # a confidence is a share, too
            return numbers[1:5] if 0 <= numbers[5] <= 1 else []
        return numbers[1:] if count >= 6 and count % 2 == 0 and not self.num_keypoints else []

    def _has_class(self, index: float, place: str, labels: PictureLabels) -> bool:
        """Whether a class index is one of those declared; an error if not."""
        if index.is_integer() and index >= 0 and (not self.names or int(index) in self.names):
            self.used.add(int(index))
            return True
        known = "whole numbers from 0 are wanted"
        if self.names:
            known = f"{len(self.names)} classes are declared, {min(self.names)}..{max(self.names)}"
        detail = f"class index {index:g} is out of range; {known}."
        remedy = "Count classes from 0, and declare all of them in data.yaml or classes.txt."
        labels.find("error", "class index out of range", detail, remedy, place)
        labels.broken = labels.broken or f"{place}: its class index {index:g} is out of range"
        return False

    def _spoil(self, labels: PictureLabels, reason: str, detail: str, place: str) -> None:
        """Note a row for which the whole picture is left out."""
        labels.leave_out(reason, f"{detail}; the whole image is left out, not just the box.", place)
        labels.broken = labels.broken or f"{place}: {detail}"


def _build_box(label: str, numbers: list[float], place: str) -> Box:
    if len(numbers) == 4:
        x, y, width, height = numbers
        return Box(label, (x - width / 2, y - height / 2, width, height), (), place, True)
    xs, ys = numbers[0::2], numbers[1::2]
    xywh = min(xs), min(ys), max(xs) - min(xs), max(ys) - min(ys)
    return Box(label, xywh, (tuple(numbers),), place, True)
