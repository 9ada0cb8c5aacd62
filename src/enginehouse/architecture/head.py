"""The class head: the layer that gives the logits, whatever the architecture calls it."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from enginehouse.errors import RecipeError

if TYPE_CHECKING:
    import torch


def find_head(net: torch.nn.Module) -> str:
    """Name of the layer that gives the logits: the last linear one, or 1x1 convolution.

    Raises:
        RecipeError: there is neither.
    """
    import torch

    found = ""
    for name, module in net.named_modules():
        is_pointwise = isinstance(module, torch.nn.Conv2d) and module.kernel_size == (1, 1)
        if isinstance(module, torch.nn.Linear) or is_pointwise:
            found = name
    if not found:
        raise RecipeError(
            f"model: {type(net).__name__} has no linear layer or 1x1 convolution that could be "
            "its class head.",
            "Choose another architecture.",
        )
    return found


def replace_head(net: torch.nn.Module, dropout: float, hidden: int) -> None:
    """Put dropout before the head, and a hidden layer with ReLU (0 units: none).

    What the architecture itself drops stays. Without a hidden layer the head keeps its weights.
    """
    from torch import nn

    name = find_head(net)
    head = net.get_submodule(name)
    layers: OrderedDict[str, torch.nn.Module] = OrderedDict()
    if dropout:
        layers["dropout"] = nn.Dropout(dropout)
    if hidden:
        layers["hidden"] = _make_layer(head, hidden, first=True)
        layers["relu"] = nn.ReLU()
        if dropout:
            layers["dropout2"] = nn.Dropout(dropout)
        head = _make_layer(head, hidden, first=False)
    net.set_submodule(name, nn.Sequential(layers | {"logits": head}))


def _make_layer(head: torch.nn.Module, hidden: int, first: bool) -> torch.nn.Module:
    """A layer of the head's kind: from the features to the hidden units, or on to the logits."""
    import torch
    from torch import nn

    if isinstance(head, torch.nn.Linear):
        sizes = (head.in_features, hidden) if first else (hidden, head.out_features)
        return nn.Linear(*sizes)
    assert isinstance(head, torch.nn.Conv2d)
    sizes = (head.in_channels, hidden) if first else (hidden, head.out_channels)
    return nn.Conv2d(*sizes, kernel_size=1)
