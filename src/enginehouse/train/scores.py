"""How well a network does on one split, without changing it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from enginehouse.choices import load_choice
from enginehouse.train.world import World

if TYPE_CHECKING:
    import torch

    from enginehouse.train.batches import Batch
    from enginehouse.train.loss import LossFunction


@dataclass(frozen=True)
class Scores:
    """Mean loss (unweighted, unsmoothed), accuracy, and F1 averaged over classes that occur."""

    loss: float
    accuracy: float
    macro_f1: float

    def to_row(self) -> dict[str, float]:
        """The numbers of a history row; a loss that is not finite is left out."""
        loss = {"val_loss": self.loss} if math.isfinite(self.loss) else {}
        return {**loss, "accuracy": self.accuracy, "macro_f1": self.macro_f1}

    def beats(self, other: Scores | None) -> bool:
        """Higher macro F1, or the same with a lower loss; never with one that is not finite."""
        if not (math.isfinite(self.loss) and math.isfinite(self.macro_f1)):
            return False
        return other is None or (self.macro_f1, -self.loss) > (other.macro_f1, -other.loss)


def score_network(
    net: torch.nn.Module,
    batches: Iterable[Batch],
    dtype: torch.dtype,
    problem: str,
    loss: LossFunction,
    world: World,
) -> tuple[Scores, torch.Tensor]:
    """Run a network in evaluation mode over a split, and score it by the rules of its problem.

    Args:
        net: from float32 [n, 3, size, size] to logits [n, classes]; alike in all processes.
        batches: this process's part of the split, on the network's device.
        dtype: format of the matrix products; the loss is taken in float32.
        problem: name of the problem.
        loss: from logits and targets to the loss of each picture.
        world: whose processes have a part of the split each.

    Returns:
        The scores of the whole split, and its logits, float32 [n, classes], on the CPU.
    """
    import torch

    net.eval()
    parts, truth = [], []
    with torch.inference_mode():
        for batch in batches:
            with torch.autocast(batch.inputs.device.type, dtype, enabled=dtype != torch.float32):
                parts.append(net(batch.inputs).float())
            truth.append(batch.targets)
        logits, targets = world.gather(torch.cat(parts)), world.gather(torch.cat(truth))
        mean_loss = loss(logits, targets).double().mean().item()
        task = load_choice("problems", problem)
        probabilities = task.activate(logits).cpu().numpy()
    names = [str(index) for index in range(logits.shape[1])]
    quality = task.score(targets.cpu().numpy(), probabilities, names, ranked=False)
    return Scores(mean_loss, quality.accuracy, quality.macro_f1), logits.cpu()
