"""A moving average of the weights: steadier than the weights of any one step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch.optim.swa_utils import AveragedModel


def make_average(net: torch.nn.Module, decay: float) -> AveragedModel | None:
    """An exponential moving average of weights and statistics; None for a decay of 0.

    It begins as the weights themselves and gets slower: the decay of update n is at most
    (1 + n) / (10 + n), as in TensorFlow's ExponentialMovingAverage, so that a short training is
    not held back by its first steps.
    """
    import torch
    from torch.optim.swa_utils import AveragedModel

    if decay == 0:
        return None

    def average(
        averages: Sequence[torch.Tensor], values: Sequence[torch.Tensor], count: torch.Tensor | int
    ) -> None:
        weight = 1 - min(decay, (1 + int(count)) / (10 + int(count)))
        if torch.is_floating_point(averages[0]):
            torch._foreach_lerp_(list(averages), list(values), weight)
        else:  # a number of batches has no average
            torch._foreach_copy_(list(averages), list(values))

    return AveragedModel(net, multi_avg_fn=average, use_buffers=True)
