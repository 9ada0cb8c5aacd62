"""Turning and magnifying many square pictures at once, each by an amount of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def turn_quarters(pictures: torch.Tensor, quarters: torch.Tensor) -> torch.Tensor:
    """Turn by multiples of 90 degrees, counter-clockwise; no pixel changes its value.

    Args:
        pictures: [n, 3, size, size], of any type.
        quarters: how many quarter turns, int64 [n], each 0..3, on the CPU.
    """
    import torch

    turned = pictures.clone()
    for number in range(1, 4):
        chosen = (quarters == number).nonzero()[:, 0].to(pictures.device)
        if len(chosen):
            turned[chosen] = torch.rot90(pictures[chosen], number, (2, 3))
    return turned


def turn_and_zoom(
    pictures: torch.Tensor, degrees: torch.Tensor, zoom: torch.Tensor
) -> torch.Tensor:
    """Turn about the middle and magnify, bilinearly; beyond the picture its edge is repeated.

    Pictures that are neither turned nor magnified stay as they are.

    Args:
        pictures: [n, 3, size, size], uint8 or float32.
        degrees: counter-clockwise, float32 [n], on the CPU.
        zoom: above 1 what is seen gets larger, float32 [n], on the CPU.

    Returns:
        float32 [n, 3, size, size], in the memory format of `pictures`.
    """
    import torch

    result = pictures.to(torch.float32, copy=True)
    changed = ((degrees != 0) | (zoom != 1)).nonzero()[:, 0]
    if not len(changed):
        return result
    there, size = changed.to(pictures.device), pictures.shape[2]
    angle = degrees[changed].deg2rad()
    both = torch.stack([angle.cos(), angle.sin()]) / zoom[changed]
    cos, sin = both.to(pictures.device).view(2, -1, 1, 1)
    x = (torch.arange(size, device=pictures.device) + 0.5) * 2 / size - 1  # pixels, -1..1
    y = x.view(-1, 1)  # points down
    # From where in the picture each pixel of the result comes.
    grid = torch.stack([cos * x - sin * y, sin * x + cos * y], dim=3)
    sampled = torch.nn.functional.grid_sample(
        result[there], grid, mode="bilinear", padding_mode="border", align_corners=False
    )
    return result.index_copy_(0, there, sampled)
