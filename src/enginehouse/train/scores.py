"""How well a network does on one split, without changing it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Scores:
    """Mean cross entropy (unweighted), accuracy, and F1 averaged over the classes that occur."""

    loss: float
    accuracy: float
    macro_f1: float

    def to_row(self) -> dict[str, float]:
        """The numbers of a history row; a loss that is not finite is left out."""
        loss = {"val_loss": self.loss} if math.isfinite(self.loss) else {}
        return {**loss, "accuracy": self.accuracy, "macro_f1": self.macro_f1}

    def beats(self, other: Scores | None) -> bool:
        """Higher macro F1, or the same with a lower loss; never with a loss that is not finite."""
        if not math.isfinite(self.loss):
            return False
        return other is None or (self.macro_f1, -self.loss) > (other.macro_f1, -other.loss)


def score_network(
    net: torch.nn.Module,
    batches: Iterable[tuple[torch.Tensor, torch.Tensor]],
    dtype: torch.dtype,
) -> Scores:
    """Run a network in evaluation mode over batches of (inputs, labels); at least one batch.

    Args:
        net: from float32 [n, 3, size, size] to logits [n, classes].
        batches: on the network's device.
        dtype: format of the matrix products; the loss is taken in float32.
    """
    import torch

    net.eval()
    losses, answers, truth = [], [], []
    with torch.inference_mode():
        for inputs, labels in batches:
            with torch.autocast(inputs.device.type, dtype, enabled=dtype != torch.float32):
                logits = net(inputs)
            losses.append(
                torch.nn.functional.cross_entropy(logits.float(), labels, reduction="sum")
            )
            answers.append(logits.argmax(1))
            truth.append(labels)
    right, said = torch.cat(truth).cpu().numpy(), torch.cat(answers).cpu().numpy()
    loss = torch.stack(losses).sum().item() / len(right)
    return Scores(loss, float((right == said).mean()), macro_f1(right, said))


def macro_f1(truth: NDArray[np.int64], answers: NDArray[np.int64]) -> float:
    """Mean over the classes that occur in `truth` of F1 = 2 TP / (true + predicted).

    Args:
        truth, answers: class index per picture, [n].
    """
    scores = []
    for label in np.unique(truth):
        true, said = truth == label, answers == label
        scores.append(2 * (true & said).sum() / (true.sum() + said.sum()))
    return float(np.mean(scores))
