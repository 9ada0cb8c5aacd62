"""What prepare leaves behind."""

from __future__ import annotations

from typing import ClassVar

from enginehouse.artifact import Record


class Pack(Record):
    """Decoded pictures of one size, split: what training, calibration and evaluation read.

    Files: `train.npy`, `val.npy`, `test.npy`: uint8 [n, 3, size, size], RGB; and `index.parquet`
    with the columns split, row (position in the array), path, label, class_index, part.

    Attributes:
        counts: pictures per split.
        mean, std: per channel, over the training split, on the 0..1 scale.
    """

    kind: ClassVar[str] = "pack"

    classes: tuple[str, ...]
    size: int
    counts: dict[str, int]
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
