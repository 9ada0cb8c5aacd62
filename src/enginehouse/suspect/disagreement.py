"""How much a network that never saw a picture disagrees with its label.

Confident learning (Northcutt et al., https://arxiv.org/abs/1911.00068). The order is that of self
confidence, the probability of the given label: of labels that were flipped at random it finds more
than the margin to the best other class, with or without the thresholds of the classes, as pictures
that are merely hard keep some probability of what they are. Which ones are called errors, the
thresholds say: a label is one if another class is as sure as it usually is of its own pictures,
and surer than the given one where that is sure, too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from enginehouse.problem import Probabilities, Shape, Targets


@dataclass(frozen=True)
class Disagreement:
    """What is to be said of each of n pictures; of several labels, the worst counts.

    Attributes:
        suspicion: 1 - p(given), [n].
        suspicious: whether a label is called an error, [n].
        suggested: which classes it should have, [n, classes].
        p_given, p_suggested: how likely the given and the suggested answer are, [n].
    """

    suspicion: NDArray[np.float64]
    suspicious: NDArray[np.bool_]
    suggested: NDArray[np.bool_]
    p_given: NDArray[np.float64]
    p_suggested: NDArray[np.float64]


def measure_disagreement(
    shape: Shape, targets: Targets, probabilities: Probabilities, decided: NDArray[np.bool_]
) -> Disagreement:
    """Hold labels against what the network says.

    A picture is one question with as many options as there are classes, or, where each class
    stands for itself, as many questions with two options.

    Args:
        shape: of the problem's targets.
        targets: the labels as they are given, [n, classes].
        probabilities: out of fold, [n, classes].
        decided: what the problem makes of them, [n, classes].
    """
    fine = probabilities.astype(np.float64)
    if shape == "distribution":
        options, given = fine[:, None, :], targets.argmax(axis=1)[:, None]
        said = decided.argmax(axis=1)[:, None]
    else:
        options, given = np.stack([1 - fine, fine], axis=2), (targets > 0.5).astype(np.int64)
        said = decided.astype(np.int64)
    best, is_wrong = _find_errors(options, given)
    said = np.where(is_wrong, best, said)
    p_given, p_said = _pick(options, given), _pick(options, said)
    worst = p_given.argmin(axis=1)[:, None]
    num_classes = targets.shape[1]
    suggested = (
        np.eye(num_classes, dtype=bool)[said[:, 0]] if shape == "distribution" else said == 1
    )
    p_worst = np.take_along_axis(p_given, worst, 1)[:, 0]
    return Disagreement(
        suspicion=1 - p_worst,
        suspicious=np.asarray(is_wrong.any(axis=1)),
        suggested=suggested,
        p_given=p_worst,
        p_suggested=np.take_along_axis(p_said, worst, 1)[:, 0],
    )


def _find_errors(
    options: NDArray[np.float64], given: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The confident option of each question, and whether it contradicts the given one.

    Confident are options of at least the mean probability that they have where they are given.

    Args:
        options: [n, questions, options].
        given: [n, questions].
    """
    is_given = given[:, :, None] == np.arange(options.shape[2])
    counts = is_given.sum(axis=0)
    sums = np.where(is_given, options, 0).sum(axis=0)
    threshold = np.where(counts, sums / np.maximum(counts, 1), np.inf)  # [questions, options]
    confident = np.where(options >= threshold, options, -1.0)
    best = confident.argmax(axis=2)
    return best, (confident.max(axis=2) >= 0) & (best != given)


def _pick(options: NDArray[np.float64], chosen: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.take_along_axis(options, chosen[:, :, None], 2)[:, :, 0]
