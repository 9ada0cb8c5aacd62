"""What training on with rounding makes small: the usual loss of the problem, and a teacher's."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from enginehouse.losses import bce, cross_entropy  # not by name: so the code digest reaches them
from enginehouse.quantizers._qat_options import Options

if TYPE_CHECKING:
    import torch

    from enginehouse.problem import Shape
    from enginehouse.train.loss import LossFunction

    WeighedLoss = Callable[[torch.Tensor, torch.Tensor, torch.Tensor | None], torch.Tensor]

LOSSES: dict[Shape, ModuleType] = {"distribution": cross_entropy, "independent": bce}


def make_taught_loss(
    problem: Any, weights: list[float] | None, options: Options, device: torch.device
) -> LossFunction:
    """A function from logits [n, classes] and [labels, teacher's logits] to losses [n].

    Both parts are the usual loss of the problem. The teacher's is taken as Hinton et al. do
    (https://arxiv.org/abs/1503.02531), less what the teacher itself would have: it is 0 where the
    answers are the same.

    Args:
        problem: the module.
        weights: how much each class counts with the labels; None: all the same.
        options: how much the teacher counts.
        device: of the logits.
    """
    import torch

    loss = _find_loss(problem)
    counts = None if weights is None else torch.tensor(weights, device=device)
    share, temperature = options.distill, options.distill_temperature

    def measure(logits: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        labels, answers = wanted.tensor_split(2, dim=1)
        own, taught = logits / temperature, answers / temperature
        soft = problem.activate(taught)
        gap = loss(own, soft, None) - loss(taught, soft, None)
        return (1 - share) * loss(logits, labels, counts) + share * temperature**2 * gap

    return measure


def make_plain_loss(problem: Any) -> LossFunction:
    """The usual loss of a problem for scoring: from logits and labels to losses [n]."""
    loss = _find_loss(problem)
    return lambda logits, targets: loss(logits, targets, None)


def _find_loss(problem: Any) -> WeighedLoss:
    loss: Any = LOSSES[problem.SHAPE]

    def measure(
        logits: torch.Tensor, targets: torch.Tensor, weights: torch.Tensor | None
    ) -> torch.Tensor:
        losses: torch.Tensor = loss.measure(logits, targets, weights, problem, loss.Options())
        return losses

    return measure
