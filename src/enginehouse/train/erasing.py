"""CutOut: squares of pictures painted over, so that no single place decides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def cut_out(
    pictures: torch.Tensor, centres: torch.Tensor, side: float, fill: Sequence[float]
) -> torch.Tensor:
    """Paint squares over (DeVries and Taylor, https://arxiv.org/abs/1708.04552).

    A square may lie partly outside its picture.

    Args:
        pictures: float32 [n, 3, size, size].
        centres: row and column of each square, as shares of the side, float32 [squares, 2, n].
        side: of the squares, as a share of the picture's.
        fill: the paint, per channel.
    """
    import torch

    size, device = pictures.shape[2], pictures.device
    length = max(1, round(side * size))
    starts = (centres.to(device) * size).long() - length // 2
    distance = torch.arange(size, device=device) - starts.permute(1, 2, 0).unsqueeze(3)
    rows, columns = ((distance >= 0) & (distance < length)).float()  # [n, squares, size] each
    hidden = rows.transpose(1, 2) @ columns > 0  # in at least one square
    paint = torch.tensor(list(fill), dtype=pictures.dtype, device=device).view(1, 3, 1, 1)
    return torch.where(hidden.unsqueeze(1), paint, pictures)
