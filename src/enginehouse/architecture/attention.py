"""Attention for feature maps, and where it goes: after a network's last convolutional stage."""

from __future__ import annotations

from collections import OrderedDict
from typing import Literal

import torch
from torch import nn

from enginehouse.architecture.probe import find_last_map

REDUCTION = 16  # of both papers


class _Gates(nn.Module):
    """Two 1x1 convolutions through a bottleneck: from a summary of each channel to its gate."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        narrow = max(channels // REDUCTION, 4)
        self.reduce = nn.Conv2d(channels, narrow, 1)
        self.relu = nn.ReLU()
        self.expand = nn.Conv2d(narrow, channels, 1)

    def forward(self, summary: torch.Tensor) -> torch.Tensor:
        """From [n, c, 1, 1] to gates before the sigmoid, [n, c, 1, 1]."""
        gates: torch.Tensor = self.expand(self.relu(self.reduce(summary)))
        return gates


class SqueezeExcitation(nn.Module):
    """Each channel is weighed by what all channels are on average.

    s = sigmoid(W2 relu(W1 avg(x))), x * s (Hu et al., https://arxiv.org/abs/1709.01507).
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.gates = _Gates(channels)

    def forward(self, maps: torch.Tensor) -> torch.Tensor:
        """From [n, c, h, w] to the same shape."""
        weighed: torch.Tensor = maps * self.gates(maps.mean((2, 3), keepdim=True)).sigmoid()
        return weighed


class ConvolutionalAttention(nn.Module):
    """CBAM: first channels are weighed, then places.

    x * sigmoid(M(avg(x)) + M(max(x))), then x * sigmoid(f7x7([avg over c; max over c]))
    (Woo et al., https://arxiv.org/abs/1807.06521).
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.gates = _Gates(channels)
        self.places = nn.Conv2d(2, 1, 7, padding=3, bias=False)

    def forward(self, maps: torch.Tensor) -> torch.Tensor:
        """From [n, c, h, w] to the same shape."""
        average = self.gates(maps.mean((2, 3), keepdim=True))
        highest = self.gates(maps.amax((2, 3), keepdim=True))
        maps = maps * (average + highest).sigmoid()
        summary = torch.cat([maps.mean(1, keepdim=True), maps.amax(1, keepdim=True)], dim=1)
        weighed: torch.Tensor = maps * self.places(summary).sigmoid()
        return weighed


def add_attention(net: nn.Module, kind: Literal["se", "cbam"]) -> None:
    """Put attention after the last convolutional stage of a network.

    Where that stage is a plain Sequential, no name changes; else the stage gets one around it.

    Raises:
        RecipeError: the network has no such stage.
    """
    last = find_last_map(net)
    make = SqueezeExcitation if kind == "se" else ConvolutionalAttention
    block = make(last.given[1])
    if type(last.module) is nn.Sequential:
        last.module.add_module("attention", block)
    else:
        parts = OrderedDict(stage=last.module, attention=block)
        net.set_submodule(last.name, nn.Sequential(parts))
