"""One split of a pack, mapped from disk with its labels. Knows nothing of networks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from enginehouse.artifact import Workspace
from enginehouse.choices import load_choice
from enginehouse.prepare.index import read_index
from enginehouse.prepare.record import Pack
from enginehouse.prepare.shards import PackedPictures, open_pictures
from enginehouse.problem import Targets

if TYPE_CHECKING:
    import pandas as pd
    import torch


@dataclass(frozen=True)
class Split:
    """One split of a pack, as it is learnt from and scored.

    Attributes:
        pictures: all of the split, uint8 [rows, 3, size, size], RGB, mapped from disk.
        rows: which of them count, int64 [n].
        labels: class index of each of those, int64 [n]; where a picture has several, its rarest.
        targets: what the network shall say of each, float32 [n, classes].
        names: path of each below the data folder, [n].
    """

    pictures: PackedPictures
    rows: NDArray[np.int64]
    labels: NDArray[np.int64]
    targets: Targets
    names: NDArray[np.object_]

    def __len__(self) -> int:
        return len(self.labels)

    def pick(self, rows: NDArray[np.int64]) -> tuple[torch.Tensor, torch.Tensor]:
        """Pictures (uint8) and targets (float32) of some of the n, in their order, in memory."""
        import torch

        pictures = self.pictures[self.rows[rows]]
        return torch.from_numpy(pictures), torch.from_numpy(self.targets[rows])

    def count_classes(self) -> NDArray[np.int64]:
        """Pictures that bear each class, [classes]."""
        counts: NDArray[np.int64] = (self.targets > 0.5).sum(axis=0)
        return counts


def read_split(pack: Pack, name: str, here: Workspace) -> Split:
    """Open one split (`train`, `val`, `test`) of a pack.

    A window that shows too little of a defect to bear its label does not count: no answer to it
    is right.

    Raises:
        DataError: the split is empty, or index and pictures do not fit together.
        StoreError: the pack's bytes are gone or changed.
    """
    index = read_index(pack, name, here)
    labels = index["class_index"].to_numpy(np.int64)
    counts = np.ones(len(labels), bool)
    if pack.preparation.tiles:
        good = pack.classes.index(pack.preparation.good)
        counts = index["clean"].to_numpy(bool) | (labels != good)
    targets = load_choice("problems", pack.problem).encode(_list_labels(index), len(pack.classes))
    names = index["path"].to_numpy(object)
    return Split(
        pictures=open_pictures(pack, name, here),
        rows=np.flatnonzero(counts),
        labels=labels[counts],
        targets=targets[counts],
        names=names[counts],
    )


def _list_labels(index: pd.DataFrame) -> list[list[int]]:
    """The class indices that each row bears."""
    if "class_indices" in index:
        return [list(map(int, row)) for row in index["class_indices"]]
    return [[int(label)] for label in index["class_index"]]
