"""GroupNorm in place of BatchNorm: pictures are normed alone, so batches may be very small."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from enginehouse.errors import RecipeError

if TYPE_CHECKING:
    import torch

MOST_GROUPS = 32  # of the paper


def replace_batchnorm(net: torch.nn.Module) -> None:
    """Make every BatchNorm2d a GroupNorm that keeps its scales and offsets.

    Groups: the largest divisor of the channels that is at most 32
    (Wu and He, https://arxiv.org/abs/1803.08494).

    Raises:
        RecipeError: the network has no BatchNorm2d, or one of a kind that is not known.
    """
    import torch

    found = [
        (name, module)
        for name, module in net.named_modules()
        if isinstance(module, torch.nn.BatchNorm2d)
    ]
    if not found:
        raise RecipeError(
            f"model.norm: {type(net).__name__} has no BatchNorm that GroupNorm could replace.",
            "Set model.norm: batch, which leaves the architecture's own norms.",
        )
    for name, module in found:
        net.set_submodule(name, _convert(name, module))


def _convert(name: str, norm: torch.nn.BatchNorm2d) -> torch.nn.Module:
    import torch
    from torch import nn

    channels = norm.num_features
    groups = max(n for n in range(1, min(channels, MOST_GROUPS) + 1) if channels % n == 0)
    group_norm = nn.GroupNorm(groups, channels, eps=norm.eps, affine=norm.affine)
    if norm.affine:
        group_norm.weight, group_norm.bias = norm.weight, norm.bias
    if type(norm) is torch.nn.BatchNorm2d:
        return group_norm
    if type(norm).__name__ == "BatchNormAct2d":  # timm's, which drops and activates as well
        drop, act = norm.get_submodule("drop"), norm.get_submodule("act")
        return nn.Sequential(OrderedDict(norm=group_norm, drop=drop, act=act))
    raise RecipeError(
        f"model.norm: {name} is a {type(norm).__name__}, which does more than BatchNorm2d.",
        "Set model.norm: batch, or choose another architecture.",
    )
