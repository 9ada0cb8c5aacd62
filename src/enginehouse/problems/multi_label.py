"""Multi label: a picture bears any number of labels, and each is a question of its own.

The class that means nothing was found, where there is one, is a question like the others: good
pictures bear it alone. Where the network says both it and a defect, the defect counts; where it
says nothing at all, it knows nothing of the picture, which no class stands for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from enginehouse.problem import Probabilities, Quality, Targets
from enginehouse.problems._scores import score_classes

if TYPE_CHECKING:
    import torch

LIBRARIES = ("numpy", "torch", "torchmetrics")
SHAPE = "independent"
SEVERAL_LABELS = True


def encode(labels: Sequence[Sequence[int]], num_classes: int) -> Targets:
    """Multi-hot rows."""
    targets = np.zeros((len(labels), num_classes), np.float32)
    for row, borne in zip(targets, labels, strict=True):
        row[list(borne)] = 1
    return targets


def smooth(targets: torch.Tensor, amount: float) -> torch.Tensor:
    """(1 - a) t + a / 2: knowing nothing of a class is a half."""
    return targets * (1 - amount) + amount / 2


def activate(logits: torch.Tensor) -> torch.Tensor:
    """Sigmoid."""
    return logits.sigmoid()


def find_untrained_loss(num_classes: int) -> float:
    """Binary cross entropy at a half, ln 2: a mean over the classes, so however many there are."""
    return math.log(2)


def decide(probabilities: Probabilities) -> NDArray[np.bool_]:
    """Every class of at least a half; that can be none."""
    said: NDArray[np.bool_] = probabilities >= 0.5
    return said


def score(
    targets: Targets, probabilities: Probabilities, classes: Sequence[str], ranked: bool = True
) -> Quality:
    """Scores of each class by itself; right is a picture of which every class is told right."""
    return score_classes(targets > 0.5, decide(probabilities), probabilities, classes, ranked)


def measure_alarm(probabilities: Probabilities, good: int) -> NDArray[np.float64]:
    """The largest probability of a defect, whatever is said of the good class."""
    alarm: NDArray[np.float64] = np.delete(probabilities, good, axis=1).max(axis=1).astype(float)
    return alarm
