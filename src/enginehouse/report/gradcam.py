"""Grad-CAM: which places of a picture speak for a class, in a network's last feature map.

Selvaraju et al., "Grad-CAM: Visual Explanations from Deep Networks via Gradient-based
Localization", https://arxiv.org/abs/1610.02391.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from enginehouse.architecture.probe import find_last_map

if TYPE_CHECKING:
    import torch

STRENGTH = 0.55  # of the colours over the picture


def find_evidence(
    net: torch.nn.Module, inputs: torch.Tensor, classes: list[int]
) -> NDArray[np.float32]:
    """How much each place speaks for a class, float32 [n, size, size], 0..1; the strongest is 1.

    All zero where nothing speaks for it.

    Args:
        net: in evaluation mode.
        inputs: float32 [n, 3, size, size], normalised.
        classes: index of a class per picture.

    Raises:
        RecipeError: the network has no last convolutional stage.
    """
    import torch

    kept: list[torch.Tensor] = []

    def keep(_module: Any, _inputs: Any, output: torch.Tensor) -> None:
        kept.append(output)

    hook = find_last_map(net).module.register_forward_hook(keep)
    try:
        with torch.enable_grad():
            logits = net(inputs)
            chosen = logits[torch.arange(len(classes)), torch.tensor(classes)].sum()
            (slopes,) = torch.autograd.grad(chosen, kept)
    finally:
        hook.remove()
    # Equations 1 and 2: each channel counts as much as its mean slope.
    weights = slopes.mean(dim=(2, 3), keepdim=True)
    maps = (weights * kept[0].detach()).sum(dim=1, keepdim=True).relu()
    size = inputs.shape[-2:]
    large = torch.nn.functional.interpolate(maps, size, mode="bilinear", align_corners=False)
    strongest = large.amax(dim=(1, 2, 3), keepdim=True)
    found: NDArray[np.float32] = (large / strongest.clamp(min=1e-12))[:, 0].numpy()
    return found


def paint_evidence(picture: NDArray[np.uint8], evidence: NDArray[np.float32]) -> NDArray[np.uint8]:
    """A grey version of a picture, uint8 [3, size, size], under colours that say how much."""
    from matplotlib import colormaps

    grey = np.repeat(picture.mean(axis=0)[..., None], 3, axis=2)
    colours = 255 * colormaps["turbo"](evidence)[..., :3]
    strength = STRENGTH * evidence[..., None]
    mixed = (1 - strength) * grey + strength * colours
    painted: NDArray[np.uint8] = mixed.round().astype(np.uint8).transpose(2, 0, 1)
    return painted
