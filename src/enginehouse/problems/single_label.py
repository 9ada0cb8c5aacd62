"""Single label: each picture is of exactly one class."""

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
SHAPE = "distribution"
SEVERAL_LABELS = False


def encode(labels: Sequence[Sequence[int]], num_classes: int) -> Targets:
    """One-hot rows."""
    return np.eye(num_classes, dtype=np.float32)[[row[0] for row in labels]]


def smooth(targets: torch.Tensor, amount: float) -> torch.Tensor:
    """(1 - a) t + a / C (Szegedy et al., https://arxiv.org/abs/1512.00567)."""
    return targets * (1 - amount) + amount / targets.shape[1]


def activate(logits: torch.Tensor) -> torch.Tensor:
    """Softmax."""
    return logits.softmax(dim=1)


def find_untrained_loss(num_classes: int) -> float:
    """Cross entropy of equal probabilities, ln C."""
    return math.log(num_classes)


def decide(probabilities: Probabilities) -> NDArray[np.bool_]:
    """The likeliest class, and no other."""
    said = np.zeros(probabilities.shape, bool)
    said[np.arange(len(said)), probabilities.argmax(axis=1)] = True
    return said


def score(
    targets: Targets, probabilities: Probabilities, classes: Sequence[str], ranked: bool = True
) -> Quality:
    """Scores of the likeliest class; the average precision is that of one class against all."""
    return score_classes(targets > 0.5, decide(probabilities), probabilities, classes, ranked)


def measure_alarm(probabilities: Probabilities, good: int) -> NDArray[np.float64]:
    """1 - p(good), as a ratio in double precision: in float32 all very certain ones are equal."""
    fine = probabilities.astype(np.float64)
    rest = np.delete(fine, good, axis=1).sum(axis=1)
    alarm: NDArray[np.float64] = rest / (rest + fine[:, good])
    return alarm
