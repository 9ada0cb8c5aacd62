"""A stem for small pictures: nothing is thrown away before the first stage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginehouse.errors import RecipeError

if TYPE_CHECKING:
    import torch

COARSEST = 2  # stride of a first convolution; more of it is no stem, but patches


def keep_resolution(net: torch.nn.Module) -> None:
    """Make the first convolution 3x3 with stride 1, and leave the first max pool out.

    The stem of ResNets for CIFAR (He et al., https://arxiv.org/abs/1512.03385, section 4.2). A
    first convolution that is 3x3 already keeps its weights; else it gets random ones.

    Raises:
        RecipeError: the network begins with patches, or keeps the resolution already.
    """
    import torch
    from torch import nn

    convs = [(n, m) for n, m in net.named_modules() if isinstance(m, torch.nn.Conv2d)]
    pools = [n for n, m in net.named_modules() if isinstance(m, torch.nn.MaxPool2d)]
    if not convs or max(convs[0][1].stride) > COARSEST:
        begins = f"with a stride of {convs[0][1].stride[0]}" if convs else "without convolution"
        raise RecipeError(
            f"model.small_input: {type(net).__name__} begins {begins}, and has no stem to change.",
            "Choose a ResNet, MobileNet or EfficientNet, or set model.small_input: false.",
        )
    name, old = convs[0]
    is_fine = old.kernel_size == (3, 3) and old.stride == (1, 1)
    if is_fine and not pools:
        raise RecipeError(
            f"model.small_input: the stem of {type(net).__name__} keeps the resolution already.",
            "Set model.small_input: false.",
        )
    if not is_fine:
        bias = old.bias is not None
        new = nn.Conv2d(old.in_channels, old.out_channels, 3, 1, padding=1, bias=bias)
        if old.kernel_size == (3, 3):
            new.weight, new.bias = old.weight, old.bias
        else:
            nn.init.kaiming_normal_(new.weight, mode="fan_out", nonlinearity="relu")
        net.set_submodule(name, new)
    if pools:
        net.set_submodule(pools[0], nn.Identity())
