"""Packed pictures on disk become what enters the network. Knows nothing of networks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from enginehouse.train.augment import AugmentConfig, augment
from enginehouse.train.network import normalise
from enginehouse.train.reader import Reader
from enginehouse.train.splits import Split

if TYPE_CHECKING:
    import torch

    Batch = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class Feed:
    """Turns a split into batches: float32 [n, 3, size, size], normalised, and labels int64 [n].

    Order and variations are drawn in this process, so that the batches are the same however many
    processes read.

    Attributes:
        mean, std: per channel, on the 0..1 scale.
        device: where the batches are wanted.
        num_workers: processes that read ahead; 0: this one reads.
        readers: of the splits that were asked for; see `close`.
    """

    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    device: torch.device
    num_workers: int = 0
    readers: dict[int, Reader] = field(default_factory=dict, compare=False, repr=False)

    def shuffled(
        self, split: Split, batch_size: int, config: AugmentConfig, generator: torch.Generator
    ) -> Iterator[Batch]:
        """Every picture once, varied, in an order drawn from the (CPU) generator."""
        batches = shuffle_rows(len(split), batch_size, generator)
        for pictures, labels in self._read(split, batches):
            varied = augment(pictures, config, generator)
            yield normalise(varied, self.mean, self.std), labels

    def in_order(self, split: Split, batch_size: int) -> Iterator[Batch]:
        """Every picture once, as it is, in the order of the split; the last batch may be small."""
        stops = range(batch_size, len(split), batch_size)
        for pictures, labels in self._read(split, np.split(np.arange(len(split)), stops)):
            yield normalise(pictures, self.mean, self.std), labels

    def _read(self, split: Split, batches: Sequence[NDArray[np.int64]]) -> Iterator[Batch]:
        """Pictures (uint8) and labels of these rows, on the device."""
        key = id(split)  # a reader holds its split, so nothing else gets this number
        if key not in self.readers:
            pinned = self.device.type == "cuda"
            self.readers[key] = Reader(split, self.num_workers, pinned)
        for pictures, labels in self.readers[key].read(batches):
            yield (
                pictures.to(self.device, non_blocking=True),
                labels.to(self.device, non_blocking=True),
            )

    def close(self) -> None:
        """End the processes that read."""
        self.readers.clear()


def shuffle_rows(
    num_rows: int, batch_size: int, generator: torch.Generator
) -> list[NDArray[np.int64]]:
    """All rows once, in random order, in batches.

    A last batch of one picture is merged into the one before: BatchNorm cannot take it alone.
    """
    import torch

    order = torch.randperm(num_rows, generator=generator).numpy()
    stops = list(range(batch_size, num_rows, batch_size))
    if stops and num_rows - stops[-1] == 1:
        stops.pop()
    return np.split(order, stops)


def count_batches(num_rows: int, batch_size: int) -> int:
    """How many batches `shuffle_rows` makes."""
    full, rest = divmod(num_rows, batch_size)
    return max(1, full + (rest > 1))
