"""One split of a pack, mapped from disk with its labels. Knows nothing of networks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from enginehouse.artifact import Workspace
from enginehouse.errors import DataError
from enginehouse.prepare.record import Pack

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Split:
    """One split of a pack.

    Attributes:
        pictures: uint8 [n, 3, size, size], RGB, mapped from disk.
        labels: class index of each, int64 [n].
    """

    pictures: NDArray[np.uint8]
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)

    def pick(self, rows: NDArray[np.int64]) -> tuple[torch.Tensor, torch.Tensor]:
        """Pictures (uint8) and labels (int64) of some rows, in their order, in memory."""
        import torch

        return torch.from_numpy(np.array(self.pictures[rows])), torch.from_numpy(self.labels[rows])

    def count_classes(self, num_classes: int) -> NDArray[np.int64]:
        """Pictures per class, [num_classes]."""
        return np.bincount(self.labels, minlength=num_classes)


def read_split(pack: Pack, name: str, here: Workspace) -> Split:
    """Open one split (`train`, `val`, `test`) of a pack.

    Raises:
        DataError: the split is empty, or index and pictures do not fit together.
        StoreError: the pack's bytes are gone or changed.
    """
    import pandas as pd

    pictures = np.load(here.path(pack, f"{name}.npy"), mmap_mode="r")
    index = pd.read_parquet(here.path(pack, "index.parquet"))
    index = index[index["split"] == name].sort_values("row")
    if index["row"].tolist() != list(range(len(pictures))):
        raise DataError(
            f"The pack's index lists {len(index)} rows of {name}; its array holds "
            f"{len(pictures)} pictures.",
            "Prepare the data again.",
        )
    if index.empty:
        raise DataError(
            f"The split {name} holds no pictures.",
            "Add data, or give that split a larger share in the recipe.",
        )
    return Split(pictures, index["class_index"].to_numpy(np.int64))
