"""Which pictures a network is calibrated on: from training, balanced, always the same."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from enginehouse.errors import QuantizationError

if TYPE_CHECKING:
    import torch

    from enginehouse.train.splits import Split

MIN_SHARE = 0.5  # of the pictures asked for; with fewer the ranges would be a matter of luck


@dataclass(frozen=True)
class Pinned:
    """The pictures that a network is calibrated on.

    Attributes:
        split: where they are from.
        rows: which of it, int64 [n], in the order in which they go by.
    """

    split: Split
    rows: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.rows)

    def walk(self, batch: int) -> Iterator[torch.Tensor]:
        """The pictures as they are packed: uint8 [up to `batch`, 3, size, size]."""
        for start in range(0, len(self.rows), batch):
            yield self.split.pick(self.rows[start : start + batch])[0]

    def digest(self) -> str:
        """sha256 of their rows in the split and of their bytes."""
        found = hashlib.sha256(np.ascontiguousarray(self.rows, "<i8").tobytes())
        for pictures in self.walk(batch=64):
            found.update(pictures.numpy().tobytes())
        return found.hexdigest()


def check_classes(counts: NDArray[np.int64], classes: tuple[str, ...]) -> None:
    """Check that every class is there to be calibrated on.

    Args:
        counts: training pictures that bear each class, [classes].
        classes: their names by index.

    Raises:
        QuantizationError: a class has none.
    """
    if missing := [name for name, count in zip(classes, counts, strict=True) if count == 0]:
        raise QuantizationError(
            f"Calibration wants pictures of every class; the training split holds none of "
            f"{', '.join(missing)}.",
            "Add pictures of it, or take the class out of the data set.",
        )


def choose_rows(labels: NDArray[np.int64], num_pictures: int, seed: int) -> NDArray[np.int64]:
    """Pick rows by taking one of each class in turn, each class in an order drawn from the seed.

    A class that runs out is filled up by the others. When the split holds fewer pictures than
    asked for, but at least half of them, all are taken.

    Args:
        labels: class index of each training picture, [n]; where it bears several, of its rarest.
        num_pictures: how many are wanted.
        seed: of the choice.

    Returns:
        Row numbers, int64 [min(n, num_pictures)], classes mixed evenly.

    Raises:
        QuantizationError: too few pictures; says wanted and found.
    """
    least = int(np.ceil(MIN_SHARE * num_pictures))
    if len(labels) < least:
        raise QuantizationError(
            f"Calibration wants {num_pictures} pictures, at least {least}; the training split "
            f"holds {len(labels)}.",
            "Add training pictures, or lower quantize.num_pictures.",
        )
    shuffled = np.random.default_rng(seed).permutation(len(labels))
    turn = np.empty(len(labels), np.int64)
    for label in np.unique(labels):
        mine = shuffled[labels[shuffled] == label]
        turn[mine] = np.arange(len(mine))
    order = np.lexsort((labels, turn))
    return order[:num_pictures].astype(np.int64)
