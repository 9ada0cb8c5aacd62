"""A loss in a module of its own; stands in for a new file under `losses/`."""

from __future__ import annotations

import torch
from pydantic import Field

from enginehouse.artifact import Config
from enginehouse.problem import Problem

LIBRARIES = ("torch",)
FITS = ("distribution",)


class Options(Config):
    scale: float = Field(1.0, gt=0, le=10)


def measure(
    logits: torch.Tensor,
    targets: torch.Tensor,
    weights: torch.Tensor | None,
    problem: Problem,
    options: Options,
) -> torch.Tensor:
    """By how little the right class leads over the others, softly."""
    right = (logits * targets).sum(dim=1, keepdim=True)
    behind = (options.scale * (logits - right)).exp() * (1 - targets)
    return behind.sum(dim=1).log1p()
