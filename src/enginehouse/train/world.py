"""The processes that train together, as one of them sees them. Alone, it is the whole world.

What several of them do is in `together.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

Value = TypeVar("Value")


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

    def prepare(self, net: torch.nn.Module, warn: Callable[[str], None]) -> torch.nn.Module:
        """The network in the form that all processes can train; says what is not as with one."""
        return net

    def wrap(self, net: torch.nn.Module) -> torch.nn.Module:
        """The network for forward passes whose gradients become the mean over all processes."""
        return net

    def no_sync(self, model: torch.nn.Module, wanted: bool) -> AbstractContextManager[None]:
        """Within it, gradients of a wrapped network stay here, if that is wanted."""
        return nullcontext()

    def reseed(self, seed: int, step: int) -> None:
        """What a step draws (dropout) differs among processes; alone, all that was drawn counts."""

    def mean(self, value: torch.Tensor) -> torch.Tensor:
        """The mean over all processes."""
        return value

    def gather(self, rows: torch.Tensor) -> torch.Tensor:
        """What all processes have along the first axis, by rank; any number of rows each."""
        return rows

    def share(self, value: Value) -> list[Value]:
        """A small value of each process, by rank."""
        return [value]

    def align(self, net: torch.nn.Module) -> None:
        """Take over the leader's statistics (of norms); parameters are alike anyway."""

    def agree_to_stop(self, wish: bool, step: int) -> bool:
        """Whether all stop now, as some process wishes it; the same answer in all of them."""
        return wish
