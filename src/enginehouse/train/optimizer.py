"""The optimizer and how its learning rate goes up and down."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from enginehouse.train.config import TrainConfig
from enginehouse.train.finetune import group_parameters

if TYPE_CHECKING:
    import torch


def make_optimizer(net: torch.nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    """AdamW or SGD with Nesterov momentum, in their fused form, over the groups of the policy."""
    import torch

    groups = group_parameters(net, config.finetune, config.weight_decay)
    if config.optimizer == "adamw":
        betas = (config.momentum, 0.999)
        return torch.optim.AdamW(groups, lr=config.learning_rate, betas=betas, fused=True)
    nesterov = config.momentum > 0
    sgd = torch.optim.SGD(
        groups, config.learning_rate, momentum=config.momentum, nesterov=nesterov, fused=True
    )
    if config.momentum > 0:
        # Fused, it takes the buffers of all or of none, so what is frozen at first needs one from
        # the beginning; and those that it makes itself stay unfilled where fp16 skips that step.
        for group in sgd.param_groups:
            for parameter in group["params"]:
                sgd.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
    return sgd


def find_rate(config: TrainConfig, epochs_done: float) -> float:
    """The learning rate of a step: a linear rise, then as the schedule says.

    It depends on the steps that the optimizer took, and on nothing that would have to be saved.

    Args:
        config: schedule and highest rate.
        epochs_done: steps over steps per epoch, with a fraction.
    """
    if epochs_done < config.warmup_epochs:
        return config.learning_rate * epochs_done / config.warmup_epochs
    rest = (epochs_done - config.warmup_epochs) / (config.epochs - config.warmup_epochs)
    share = {
        "cosine": 0.5 * (1 + math.cos(math.pi * min(rest, 1))),
        "linear": max(0.0, 1 - rest),
        "constant": 1.0,
    }[config.schedule]
    return config.learning_rate * share


def set_rate(optimizer: torch.optim.Optimizer, learning_rate: float) -> None:
    """Use this learning rate from the next step on, each group its share of it."""
    for group in optimizer.param_groups:
        group["lr"] = learning_rate * group["share"]
