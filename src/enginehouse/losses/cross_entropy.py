"""Cross entropy: the loss of a picture that bears one label."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginehouse.artifact import Config

if TYPE_CHECKING:
    import torch

    from enginehouse.problem import Problem

LIBRARIES = ("torch",)
FITS = ("distribution",)


class Options(Config):
    """It has none."""


def measure(
    logits: torch.Tensor,
    targets: torch.Tensor,
    weights: torch.Tensor | None,
    problem: Problem,
    options: Options,
) -> torch.Tensor:
    """-sum of w t ln p over the classes, float32 [n]."""
    import torch

    return torch.nn.functional.cross_entropy(logits, targets, weights, reduction="none")
