"""Whether probabilities mean what they say: calibration, and precision over recall."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from enginehouse.choices import load_choice
from enginehouse.problem import Probabilities
from enginehouse.report.statements import Statements

NUM_BINS = 10  # of equal width; more would hold too few pictures of a validation split


@dataclass(frozen=True)
class Reliability:
    """How often what was said with some confidence was true.

    Attributes:
        confidence, share, num: of each bin that is not empty: mean confidence, share that was
            true, and how many answers.
        error: expected calibration error, 0..1: the mean distance between the two, by `num`.
    """

    confidence: NDArray[np.float64]
    share: NDArray[np.float64]
    num: NDArray[np.int64]
    error: float


def measure_reliability(statements: Statements, temperature: float = 1.0) -> Reliability:
    """The reliability diagram and its error (Guo et al., https://arxiv.org/abs/1706.04599).

    Of one label, the likeliest class of each picture is asked about; of several, every class.

    Args:
        statements: whose probabilities were made with `temperature`, which is undone first.
        temperature: 1 leaves them as they are.
    """
    said = undo_temperature(statements.probabilities, statements.problem, temperature)
    truth = statements.truth
    if statements.several:
        confidence, true = said.astype(np.float64).ravel(), truth.ravel()
    else:
        rows, answers = np.arange(len(said)), said.argmax(axis=1)
        confidence, true = said[rows, answers].astype(np.float64), truth[rows, answers]
    bins = np.minimum((confidence * NUM_BINS).astype(int), NUM_BINS - 1)
    num = np.bincount(bins, minlength=NUM_BINS)
    there = num > 0
    means = np.bincount(bins, confidence, NUM_BINS)[there] / num[there]
    shares = np.bincount(bins, true, NUM_BINS)[there] / num[there]
    error = float((num[there] * abs(means - shares)).sum() / num.sum())
    return Reliability(means, shares, num[there], error)


def describe_calibration(statements: Statements, temperature: float) -> str:
    """The calibration error before and after temperature scaling, in words."""
    before, after = (measure_reliability(statements, undone).error for undone in (temperature, 1.0))
    return (
        f"Expected calibration error {before:.3f} before temperature scaling, {after:.3f} with "
        f"temperature {temperature:.2f}, on {len(statements.table)} validation pictures."
    )


def undo_temperature(said: Probabilities, problem: str, temperature: float) -> Probabilities:
    """The probabilities at temperature 1 from those at another, [n, classes]."""
    import torch

    if temperature == 1.0:
        return said
    task = load_choice("problems", problem)
    fine = torch.from_numpy(said).double().clamp(1e-12, 1 - 1e-12)
    logits = fine.logit() if task.SHAPE == "independent" else fine.log()
    before: Probabilities = task.activate(temperature * logits).float().numpy()
    return before


def trace_precision(
    truth: NDArray[np.bool_], said: NDArray[np.float32]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Recall and precision at every threshold, from the strictest on; of one class.

    Args:
        truth: which pictures bear it, [n]; at least one does.
        said: its probability, [n].
    """
    order = np.argsort(-said, kind="stable")
    hits = np.cumsum(truth[order])
    # Pictures with the same probability are beyond a threshold together.
    last = np.flatnonzero(np.append(np.diff(said[order]) != 0, True))
    return hits[last] / hits[-1], hits[last] / (last + 1)
