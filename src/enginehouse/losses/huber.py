"""Huber loss of probabilities: squared for small errors, straight for large ones.

Huber, "Robust Estimation of a Location Parameter", https://doi.org/10.1214/aoms/1177703732.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from enginehouse.artifact import Config
from enginehouse.losses._terms import add_up

if TYPE_CHECKING:
    import torch

    from enginehouse.problem import Problem

LIBRARIES = ("torch",)
FITS = ("distribution", "independent")


class Options(Config):
    """Its numbers."""

    delta: float = Field(
        0.25,
        ge=0.01,
        le=1,
        description="Error of a probability from which the loss grows straight; 1: half the "
        "squared error everywhere.",
    )


def measure(
    logits: torch.Tensor,
    targets: torch.Tensor,
    weights: torch.Tensor | None,
    problem: Problem,
    options: Options,
) -> torch.Tensor:
    """w d^2 / 2 of the error d = |p - t| up to delta, w delta (d - delta / 2) beyond it.

    Over the classes the sum of a distribution, the mean of independent ones; float32 [n].
    """
    from torch.nn.functional import huber_loss

    chances = problem.activate(logits)
    terms = huber_loss(chances, targets, reduction="none", delta=options.delta)
    return add_up(terms, weights, problem.SHAPE)
