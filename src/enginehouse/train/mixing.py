"""Training pictures mixed with each other, and their targets with them.

A picture's partner is another of the same process: with several of them, a batch is mixed
otherwise than with one, though by the same share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginehouse.train.augment import AugmentConfig
from enginehouse.train.randomness import Draw, seeded

if TYPE_CHECKING:
    import torch


def mix(
    pictures: torch.Tensor, targets: torch.Tensor, config: AugmentConfig, draw: Draw
) -> tuple[torch.Tensor, torch.Tensor]:
    """MixUp or CutMix; where both are wanted, one is drawn for the batch.

    MixUp: https://arxiv.org/abs/1710.09412, CutMix: https://arxiv.org/abs/1905.04899.

    Args:
        pictures: float32 [n, 3, size, size].
        targets: float32 [n, classes].
        config: at least one alpha is above 0.
        draw: the random numbers of the batch.

    Returns:
        Both, shaped as they were; the pictures in channels_last memory.
    """
    import torch
    from torchvision.transforms import v2

    wanted = {v2.MixUp: config.mixup, v2.CutMix: config.cutmix}
    transform = v2.RandomChoice([kind(alpha=alpha) for kind, alpha in wanted.items() if alpha])
    with seeded(draw.seed()):
        mixed, shares = transform(pictures, targets)
    return mixed.contiguous(memory_format=torch.channels_last), shares
