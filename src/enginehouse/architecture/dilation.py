"""A finer last feature map: late convolutions are spread instead of taking strides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginehouse.architecture.probe import SIZE, Call, find_last_map, trace_calls
from enginehouse.errors import RecipeError

if TYPE_CHECKING:
    import torch


def dilate(net: torch.nn.Module, output_stride: int) -> None:
    """Make a network's last feature map one cell per `output_stride` pixels.

    A convolution that would go below that keeps the resolution, and those behind it look at
    places as far apart as before: where the old network had a cell, the new one has the same
    values (Chen et al., https://arxiv.org/abs/1706.05587, section 3.1). With dynamic padding
    (the tf_ networks of timm) they are shifted by a cell.

    Raises:
        RecipeError: the network has no last convolutional stage, or its stride is not in its
            convolutions (pooling, even kernels, patches) and the wish cannot be met.
    """
    import torch

    before = SIZE / find_last_map(net).given[2]
    seen: set[str] = set()
    for call in trace_calls(net):
        if isinstance(call.module, torch.nn.Conv2d) and call.name not in seen:
            seen.add(call.name)
            _adapt(call, call.module, output_stride)
    try:
        after = SIZE / find_last_map(net).given[2]
        outcome = f"one per {after:.3g} px with dilation"
    except RecipeError:  # a branch that does not end in a convolution became too small
        after, outcome = 0, "parts that no longer meet with dilation"
    if after != output_stride:
        raise RecipeError(
            f"model.output_stride: wanted a cell per {output_stride} px; {type(net).__name__} has "
            f"one per {before:.3g} px, and {outcome}.",
            "Choose an architecture whose late stages stride by 3x3 convolutions (ResNet, "
            "MobileNet, EfficientNet), or set model.output_stride: 32, which leaves it as it is.",
        )


def _adapt(call: Call, conv: torch.nn.Conv2d, limit: int) -> None:
    """Take away a stride beyond the limit; spread the kernel where one was taken before."""
    height_in, height_out = call.taken[2], call.given[2]
    if height_in == 1:  # of a channel's gate; it has no neighbours
        return
    stride_in, stride_out = SIZE // height_in, SIZE // height_out
    if stride_out <= limit and stride_in <= limit:
        return
    if conv.stride != (1, 1):
        stride = max(1, limit // stride_in)
        conv.stride = (stride, stride)
    spread = max(1, stride_in // limit)
    if spread > 1 and conv.kernel_size != (1, 1):
        conv.dilation = (conv.dilation[0] * spread, conv.dilation[1] * spread)
        if not isinstance(conv.padding, str):
            conv.padding = (conv.padding[0] * spread, conv.padding[1] * spread)
