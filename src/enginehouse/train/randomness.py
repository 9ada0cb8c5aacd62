"""Random numbers that depend on a seed and a place alone, never on what was drawn before."""

from __future__ import annotations

import contextlib
import hashlib
import random
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from enginehouse.train.world import World

if TYPE_CHECKING:
    import torch

MOST = 2**62  # seeds that are drawn lie below


def seed_of(*numbers: int) -> int:
    """A seed, 0 <= seed < 2**63, for a place (seed of the run, epoch, batch, ...)."""
    text = "/".join(map(str, numbers))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Within it, torch's own generator on the CPU starts from `seed`; after it, all is as before.

    For transforms that draw from that generator and take no other.
    """
    import torch

    with torch.random.fork_rng(devices=[]):
        # Not torch.manual_seed, which would also seed the GPUs.
        torch.default_generator.manual_seed(seed)
        yield


@contextlib.contextmanager
def borrow_random(seed: int) -> Iterator[None]:
    """Seed Python's and numpy's common random numbers; after the block they are as before it."""
    words, arrays = random.getstate(), np.random.get_state()
    random.seed(seed)
    np.random.seed(seed_of(seed) % 2**32)
    try:
        yield
    finally:
        random.setstate(words)
        np.random.set_state(arrays)


class Draw:
    """Random numbers for the pictures of one batch.

    They are drawn for the whole batch, and each process takes those of its own pictures: so how
    a batch is shared among processes changes no picture.

    Args:
        seed: of the batch.
        num: pictures in the whole batch.
        world: whose part of the pictures is here.
    """

    def __init__(self, seed: int, num: int, world: World) -> None:
        import torch

        self.generator = torch.Generator().manual_seed(seed)
        self.num = num
        self.places = torch.from_numpy(world.part(np.arange(num)))

    def uniform(self, count: int) -> torch.Tensor:
        """`count` numbers in [0, 1) per picture that is here, float32 [count, n], on the CPU."""
        import torch

        return torch.rand(count, self.num, generator=self.generator)[:, self.places]

    def seeds(self) -> list[int]:
        """A seed per picture that is here, for what draws by itself."""
        import torch

        drawn = torch.randint(MOST, (self.num,), generator=self.generator)
        return [int(seed) for seed in drawn[self.places]]

    def seed(self) -> int:
        """One seed for the whole batch, the same in all processes."""
        import torch

        return int(torch.randint(MOST, (), generator=self.generator))
