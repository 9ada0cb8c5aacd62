"""The optimizer and how its learning rate goes up and down."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def make_optimizer(
    net: torch.nn.Module, learning_rate: float, weight_decay: float
) -> torch.optim.Optimizer:
    """AdamW; biases and the scales of norms are not decayed (they are vectors)."""
    import torch

    matrices = [p for p in net.parameters() if p.ndim > 1]
    vectors = [p for p in net.parameters() if p.ndim <= 1]
    groups = [
        {"params": matrices, "weight_decay": weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=learning_rate, fused=True)


def find_rate(epochs_done: float, warmup_epochs: float, epochs: float) -> float:
    """Share of the learning rate at a step: a linear rise, then half a cosine down to zero."""
    if epochs_done < warmup_epochs:
        return epochs_done / warmup_epochs
    rest = (epochs_done - warmup_epochs) / (epochs - warmup_epochs)
    return 0.5 * (1 + math.cos(math.pi * rest))


def set_rate(optimizer: torch.optim.Optimizer, learning_rate: float) -> None:
    """Use this learning rate from the next step on."""
    for group in optimizer.param_groups:
        group["lr"] = learning_rate
