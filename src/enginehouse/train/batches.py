"""Packed pictures on disk become what enters the network. Knows nothing of networks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from enginehouse.train.augment import AugmentConfig, augment
from enginehouse.train.network import normalise
from enginehouse.train.splits import Split

if TYPE_CHECKING:
    import torch

    Batch = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class Feed:
    """Turns a split into batches: float32 [n, 3, size, size], normalised, and labels int64 [n].

    Attributes:
        mean, std: per channel, on the 0..1 scale.
        device: where the batches are wanted.
    """

    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    device: torch.device

    def shuffled(
        self, split: Split, batch_size: int, config: AugmentConfig, generator: torch.Generator
    ) -> Iterator[Batch]:
        """Every picture once, varied, in an order drawn from the (CPU) generator."""
        for rows in shuffle_rows(len(split), batch_size, generator):
            pictures, labels = split.pick(rows)
            varied = augment(pictures.to(self.device), config, generator)
            yield normalise(varied, self.mean, self.std), labels.to(self.device)

    def in_order(self, split: Split, batch_size: int) -> Iterator[Batch]:
        """Every picture once, as it is, in the order of the split; the last batch may be small."""
        for start in range(0, len(split), batch_size):
            rows = np.arange(start, min(start + batch_size, len(split)))
            pictures, labels = split.pick(rows)
            inputs = normalise(pictures.to(self.device), self.mean, self.std)
            yield inputs, labels.to(self.device)


def shuffle_rows(
    num_rows: int, batch_size: int, generator: torch.Generator
) -> Iterator[NDArray[np.int64]]:
    """All rows once, in random order, in batches.

    A last batch of one picture is merged into the one before: BatchNorm cannot take it alone.
    """
    import torch

    order = torch.randperm(num_rows, generator=generator).numpy()
    stops = list(range(batch_size, num_rows, batch_size))
    if stops and num_rows - stops[-1] == 1:
        stops.pop()
    yield from np.split(order, stops)


def count_batches(num_rows: int, batch_size: int) -> int:
    """How many batches `shuffle_rows` makes."""
    full, rest = divmod(num_rows, batch_size)
    return max(1, full + (rest > 1))
