"""Absolute error of probabilities: hardly moved by labels that are wrong, and slow to learn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginehouse.artifact import Config
from enginehouse.losses._terms import add_up

if TYPE_CHECKING:
    import torch

    from enginehouse.problem import Problem

LIBRARIES = ("torch",)
FITS = ("distribution", "independent")


class Options(Config):
    """It has none."""


def measure(
    logits: torch.Tensor,
    targets: torch.Tensor,
    weights: torch.Tensor | None,
    problem: Problem,
    options: Options,
) -> torch.Tensor:
    """w |p - t|.

    Over the classes the sum of a distribution, the mean of independent ones; float32 [n].
    """
    terms = (problem.activate(logits) - targets).abs()
    return add_up(terms, weights, problem.SHAPE)
