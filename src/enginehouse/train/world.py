"""The processes that train together, as one of them sees them. Alone, it is the whole world."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class World:
    """One process among `size` that train one network together.

    Attributes:
        rank: its number; 0 leads: it reports, saves checkpoints, and its result counts.
        size: how many there are.
        device: what it computes on.
    """

    rank: int
    size: int
    device: torch.device

    @property
    def leads(self) -> bool:
        """Whether this is the process that speaks for all."""
        return self.rank == 0

    def part(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """This process's share of some rows; by rank, the shares make the whole again."""
        return np.array_split(rows, self.size)[self.rank]

    def wrap(self, net: torch.nn.Module) -> torch.nn.Module:
        """The network for forward passes whose gradients become the mean over all processes."""
        return net

    def no_sync(self, model: torch.nn.Module, wanted: bool) -> AbstractContextManager[None]:
        """Within it, gradients of a wrapped network stay here, if that is wanted."""
        return nullcontext()

    def gather(self, rows: torch.Tensor) -> torch.Tensor:
        """What all processes have along the first axis, by rank; any number of rows each."""
        return rows

    def agree_to_stop(self, wish: bool, step: int) -> bool:
        """Whether all stop now, as some process wishes it; the same answer in all of them."""
        return wish
