"""The loss of a recipe as one function of logits and targets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from enginehouse.choices import list_choices, load_choice
from enginehouse.errors import RecipeError
from enginehouse.train.config import LossConfig

if TYPE_CHECKING:
    import torch

    LossFunction = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def check_loss(config: LossConfig, problem: str) -> None:
    """Check that a loss fits a problem.

    Raises:
        RecipeError: it does not; names those that do.
    """
    shape = load_choice("problems", problem).SHAPE
    if shape not in load_choice("losses", config.name).FITS:
        names = list_choices("losses")
        fitting = [name for name in names if shape in load_choice("losses", name).FITS]
        raise RecipeError(
            f"train.loss: {config.name} does not fit the problem {problem}.",
            f"Use one of {', '.join(fitting)}.",
        )


def make_loss(
    config: LossConfig, problem: str, weights: Sequence[float] | None, device: torch.device
) -> LossFunction:
    """A function from logits [n, classes] and targets [n, classes] to losses [n], in float32.

    Args:
        config: which loss.
        problem: name of the problem.
        weights: how much each class counts; None: all the same.
        device: of the logits.
    """
    import torch

    task: Any = load_choice("problems", problem)
    chosen: Any = load_choice("losses", config.name)
    options = chosen.Options(**config.options)
    counts = None if weights is None else torch.tensor(list(weights), device=device)

    def measure(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        if config.label_smoothing:
            targets = task.smooth(targets, config.label_smoothing)
        losses: torch.Tensor = chosen.measure(logits.float(), targets, counts, task, options)
        return losses

    return measure


def make_plain_loss(config: LossConfig, problem: str, device: torch.device) -> LossFunction:
    """The same loss for scoring: targets as they are, every class alike."""
    return make_loss(config.model_copy(update={"label_smoothing": 0.0}), problem, None, device)
