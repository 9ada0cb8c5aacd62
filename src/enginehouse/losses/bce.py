"""Binary cross entropy of logits: each class is a question of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginehouse.artifact import Config
from enginehouse.losses._terms import add_up

if TYPE_CHECKING:
    import torch

    from enginehouse.problem import Problem

LIBRARIES = ("torch",)
FITS = ("independent",)


class Options(Config):
    """It has none."""


def measure(
    logits: torch.Tensor,
    targets: torch.Tensor,
    weights: torch.Tensor | None,
    problem: Problem,
    options: Options,
) -> torch.Tensor:
    """Mean of -w (t ln p + (1 - t) ln (1 - p)) over the classes, float32 [n]."""
    from torch.nn.functional import binary_cross_entropy_with_logits

    terms = binary_cross_entropy_with_logits(logits, targets, reduction="none")
    return add_up(terms, weights, problem.SHAPE)
