"""Packed pictures on disk become what enters the network. Knows nothing of networks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from enginehouse.errors import TrainingError
from enginehouse.train.augment import AugmentConfig, augment
from enginehouse.train.mixing import mix
from enginehouse.train.network import Normaliser
from enginehouse.train.randomness import Draw, seed_of
from enginehouse.train.reader import Reader
from enginehouse.train.splits import Split
from enginehouse.train.world import World

if TYPE_CHECKING:
    import torch

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Batch:
    """What one process gets of one batch.

    Attributes:
        inputs: float32 [n, 3, size, size], normalised.
        targets: float32 [n, classes].
        rows: of the split, [n].
        split: where they come from.
        num_global: pictures in the whole batch, over all processes.
    """

    inputs: torch.Tensor
    targets: torch.Tensor
    rows: Rows
    split: Split
    num_global: int

    @property
    def names(self) -> list[str]:
        """The pictures' paths below the data folder."""
        return [str(name) for name in self.split.names[self.rows]]


class Feed:
    """Turns a split into batches.

    Order and variations depend on the seed, the epoch and the number of the batch alone: they are
    the same however many processes read, and whether or not training was interrupted. How a batch
    is shared among processes that train changes only which pictures are mixed with each other.

    Args:
        mean, std: per channel, on the 0..1 scale.
        seed: of order and variations.
        world: where the batches are wanted, and how many processes share one.
        num_workers: processes that read ahead; 0: this one reads.

    Attributes:
        waited: seconds for which batches kept their reader waiting, so far.
    """

    def __init__(
        self,
        mean: tuple[float, float, float],
        std: tuple[float, float, float],
        seed: int,
        world: World,
        num_workers: int = 0,
    ) -> None:
        self.mean = mean
        self.std = std
        self.seed = seed
        self.world = world
        self.num_workers = num_workers
        self.waited = 0.0
        self._normalise = Normaliser(mean, std, world.device)
        self._readers: dict[int, Reader] = {}

    @property
    def device(self) -> torch.device:
        """Where the batches are."""
        return self.world.device

    def shuffled(
        self,
        split: Split,
        epoch: int,
        start: int,
        batch_size: int,
        config: AugmentConfig,
        order: Rows | None = None,
    ) -> Iterator[Batch]:
        """The batches of an epoch from number `start` on, varied, in the order of that epoch.

        Args:
            order: rows to use instead of each of the split once, [m] (a balanced draw).

        Raises:
            TrainingError: there are fewer than two pictures for each process of the world, or
                those that read hang, were killed or lack shared memory.
        """
        rows = np.arange(len(split)) if order is None else order
        seed = seed_of(self.seed, epoch)
        numbered = list(enumerate(shuffle_rows(rows, batch_size, self.world.size, seed)))[start:]
        parts = [self.world.part(rows) for _, rows in numbered]
        fill = [255 * value for value in self.mean]
        for (number, whole), part, (pictures, targets) in zip(
            numbered, parts, self._read(split, parts), strict=True
        ):
            draw = Draw(seed_of(self.seed, epoch, number), len(whole), self.world)
            entering = augment(pictures, config, draw, fill), targets
            if config.mixes:
                entering = mix(*entering, config, draw)
            varied, wanted = entering
            inputs = self._normalise(varied)
            yield Batch(inputs, wanted, part, split, len(whole))

    def in_order(self, split: Split, batch_size: int) -> Iterator[Batch]:
        """This process's share of all pictures, as they are, in the order of the split."""
        rows = self.world.part(np.arange(len(split)))
        parts = np.split(rows, range(batch_size, len(rows), batch_size))
        for part, (pictures, targets) in zip(parts, self._read(split, parts), strict=True):
            inputs = self._normalise(pictures)
            yield Batch(inputs, targets, part, split, len(part))

    def _read(
        self, split: Split, parts: Sequence[Rows]
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Pictures (uint8) and targets of these rows, on the device."""
        import torch

        key = id(split.pictures)  # a reader holds its pictures, so nothing else gets this number
        if key not in self._readers:
            pinned = self.device.type == "cuda"
            self._readers[key] = Reader(split.pictures, self.num_workers, pinned)
        reader = self._readers[key]
        in_pictures = [split.rows[part] for part in parts]
        for part, pictures in zip(parts, reader.read(in_pictures), strict=True):
            self.waited += reader.waited
            targets = torch.from_numpy(split.targets[part])
            yield pictures.to(self.device, non_blocking=True), targets.to(self.device)

    def close(self) -> None:
        """End the processes that read."""
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()


def shuffle_rows(rows: Rows, batch_size: int, num_parts: int, seed: int) -> list[Rows]:
    """All of the rows in random order, in batches.

    Each batch gives each of `num_parts` processes two pictures or more, as BatchNorm wants them:
    a last batch of fewer is merged into the one before.

    Raises:
        TrainingError: there are too few rows for that.
    """
    import torch

    if num_parts > 1 and len(rows) < 2 * num_parts:
        raise TrainingError(
            f"{num_parts} processes want two training pictures each; there are {len(rows)}.",
            "Set train.devices lower, or add pictures.",
        )
    generator = torch.Generator().manual_seed(seed)
    shuffled = rows[torch.randperm(len(rows), generator=generator).numpy()]
    num = count_batches(len(rows), batch_size, num_parts)
    return np.split(shuffled, range(batch_size, num * batch_size, batch_size))


def count_batches(num_rows: int, batch_size: int, num_parts: int) -> int:
    """How many batches `shuffle_rows` makes."""
    full, rest = divmod(num_rows, batch_size)
    return max(1, full + (rest >= 2 * num_parts))
