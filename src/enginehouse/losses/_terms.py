"""What the losses share: from a term per class to one number per picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from enginehouse.problem import Shape


def add_up(terms: torch.Tensor, weights: torch.Tensor | None, shape: Shape) -> torch.Tensor:
    """Weighted sum over the classes, or mean where each class stands for itself, [n].

    Args:
        terms: [n, classes].
        weights: how much each class counts, [classes]; None: all the same.
        shape: of the targets.
    """
    counted = terms if weights is None else terms * weights
    return counted.sum(dim=1) if shape == "distribution" else counted.mean(dim=1)
