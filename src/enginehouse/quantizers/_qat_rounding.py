"""The modules that round in a graph that is trained. They stand where observers stood."""

from __future__ import annotations

import torch
from torch import nn

LOWEST, HIGHEST = -128, 127  # of activations; weights go from -127
_EPS = 2**-24  # keeps weights that are all zero from dividing by nothing


class LearntRange(nn.Module):
    """Rounds a tensor to INT8, symmetric, by one scale that is learnt along with the weights.

    The scale is learnt by its base-2 logarithm (Jain et al., "Trained Quantization Thresholds",
    https://arxiv.org/abs/1903.08066), so that a step changes it by a share of itself. Its gradient
    is that of LSQ (Esser et al., https://arxiv.org/abs/1902.08153), over the square root of the
    numbers of one picture times the highest level.

    Args:
        scale: to begin with.
    """

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor([scale]).log2())
        self.zero: torch.Tensor
        self.register_buffer("zero", torch.zeros(1), persistent=False)

    @property
    def scale(self) -> torch.Tensor:
        """Of one level, float32 [1]."""
        return self.log_scale.exp2()

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        """What INT8 makes of a float32 tensor [n, ...]; gradients pass where nothing is cut off."""
        share = (pictures[0].numel() * HIGHEST) ** -0.5
        return torch._fake_quantize_learnable_per_tensor_affine(
            pictures, self.scale, self.zero, LOWEST, HIGHEST, share
        )


class RoundedWeight(nn.Module):
    """Rounds a weight to -127..127, each output channel by its own largest number."""

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        """What INT8 makes of a float32 weight [channels, ...]; gradients pass."""
        largest = weight.detach().abs().flatten(1).amax(dim=1)
        scale = (largest / HIGHEST).clamp(min=_EPS)
        zeros = torch.zeros_like(scale, dtype=torch.int32)
        return torch.fake_quantize_per_channel_affine(weight, scale, zeros, 0, -HIGHEST, HIGHEST)
