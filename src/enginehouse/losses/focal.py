"""Focal loss: what is already told well counts little, so that rare and hard pictures count more.

Lin et al., "Focal Loss for Dense Object Detection", https://arxiv.org/abs/1708.02002. Their
balancing factor is the weight of the class.
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
LEAST = 1e-7  # of what is raised to gamma: at 0 the slope of a root has no end


class Options(Config):
    """Its numbers."""

    gamma: float = Field(
        2.0, ge=0, le=5, description="How much less well told ones count; 0: as much as others."
    )


def measure(
    logits: torch.Tensor,
    targets: torch.Tensor,
    weights: torch.Tensor | None,
    problem: Problem,
    options: Options,
) -> torch.Tensor:
    """-w t (1 - p)^gamma ln p, and where classes are independent the same of 1 - t and 1 - p.

    Over the classes the sum of a distribution, the mean of independent ones; float32 [n]. With
    gamma 0 it is the cross entropy, or the binary one.
    """
    from torch.nn.functional import logsigmoid

    if problem.SHAPE == "distribution":
        terms = targets * _focus(logits.log_softmax(dim=1), options.gamma)
    else:
        there, absent = logsigmoid(logits), logsigmoid(-logits)
        terms = targets * _focus(there, options.gamma)
        terms = terms + (1 - targets) * _focus(absent, options.gamma)
    return add_up(terms, weights, problem.SHAPE)


def _focus(log_p: torch.Tensor, gamma: float) -> torch.Tensor:
    """-(1 - p)^gamma ln p."""
    return -((-log_p.expm1()).clamp(min=LEAST) ** gamma) * log_p
