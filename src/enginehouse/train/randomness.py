"""Random numbers that depend on a seed and a place alone, never on what was drawn before."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from enginehouse.train.world import World

if TYPE_CHECKING:
    import torch


def seed_of(*numbers: int) -> int:
    """A seed, 0 <= seed < 2**63, for a place (seed of the run, epoch, batch, ...)."""
    text = "/".join(map(str, numbers))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


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
        import numpy as np
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

        drawn = torch.randint(2**62, (self.num,), generator=self.generator)
        return [int(seed) for seed in drawn[self.places]]
