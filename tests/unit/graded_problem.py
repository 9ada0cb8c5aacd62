"""A third problem, in a module of its own: classes are grades, and each grade holds those below it.

Stands in for a new file under `problems/`, to show that there is nothing else to write.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from enginehouse.problem import Probabilities, Quality, Targets
from enginehouse.problems._scores import score_classes

LIBRARIES = ("numpy", "torch", "torchmetrics")
SHAPE = "independent"
SEVERAL_LABELS = False


def encode(labels: Sequence[Sequence[int]], num_classes: int) -> Targets:
    grades = np.array([row[0] for row in labels])
    targets: Targets = (np.arange(num_classes) <= grades[:, None]).astype(np.float32)
    return targets


def smooth(targets: torch.Tensor, amount: float) -> torch.Tensor:
    return targets * (1 - amount) + amount / 2


def activate(logits: torch.Tensor) -> torch.Tensor:
    return logits.sigmoid()


def find_untrained_loss(num_classes: int) -> float:
    return math.log(2)


def decide(probabilities: Probabilities) -> NDArray[np.bool_]:
    reached = np.logical_and.accumulate(probabilities >= 0.5, axis=1)
    return one_hot(reached.sum(axis=1), reached.shape[1])


def one_hot(reached: NDArray[np.int64], num_classes: int) -> NDArray[np.bool_]:
    """The highest of the grades that are reached; the lowest if none is."""
    hot: NDArray[np.bool_] = np.eye(num_classes, dtype=bool)[np.maximum(reached - 1, 0)]
    return hot


def score(
    targets: Targets, probabilities: Probabilities, classes: Sequence[str], ranked: bool = True
) -> Quality:
    truth = one_hot((targets > 0.5).sum(axis=1), targets.shape[1])
    return score_classes(truth, decide(probabilities), probabilities, classes, ranked)


def measure_alarm(probabilities: Probabilities, good: int) -> NDArray[np.float64]:
    return probabilities[:, good + 1].astype(np.float64)
