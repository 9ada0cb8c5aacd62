"""What prepare leaves behind."""

from __future__ import annotations

from typing import Annotated, ClassVar

from enginehouse.artifact import Record
from enginehouse.choices import Choice
from enginehouse.preparation import Preparation


class Pack(Record):
    """Prepared pictures, split: what training, calibration and evaluation read.

    Without tiles a row is a picture; with tiles it is a window of one.

    Files: shards `train-00000.npy`, `train-00001.npy`, ..., and likewise `val` and `test`: uint8
    [n, 3, size, size], RGB, read through `shards.py`; and `index.parquet`, in the order of the
    shards, with the columns split, row (position in the split), path, label, class_index, part;
    and, where the problem lets a picture have several labels, class_indices (all of them; label
    and class_index are then the rarest).

    Further columns say of the whole picture what the manifest does, so that scores can be cut by
    them: time, format, mode, handling, source, brightness, contrast, sharpness, picture_width,
    picture_height.

    With tiles, the index has four more things to say of a window: x, y, width, height (where it
    lies, in pixels of the picture in the file, as boxes do); clean (no box touches it at all);
    and picture_index (class of the whole picture, among `classes`). A window that shows too
    little of its boxes to bear a label is left out of `train`; in `val` and `test` it is labelled
    good, and not clean. Then there is also `boxes.parquet`: path, label, x, y, width, height of
    every box on the pictures of `val` and `test`.

    Reports: `cleaning-0.png`, ...: a picture before and after cleaning; notes["cleaning"] says
    which.

    Attributes:
        problem: what a label is to the network.
        classes: of the rows, in index order; with tiles those that a window can have, good first.
        preparation: what was done to each decoded picture.
        min_visible: share of a box that a window must show to bear its label; 0 without tiles.
        counts: rows per split.
        mean, std: per channel, over the training split, on the 0..1 scale.
    """

    kind: ClassVar[str] = "pack"
    schema_number: ClassVar[int] = 4

    problem: Annotated[str, Choice("problems")] = "single_label"
    classes: tuple[str, ...]
    preparation: Preparation
    min_visible: float = 0.0
    counts: dict[str, int]
    mean: tuple[float, float, float]
    std: tuple[float, float, float]

    @property
    def size(self) -> int:
        """Side of a prepared picture, in pixels."""
        return self.preparation.size
