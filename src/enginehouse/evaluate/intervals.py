"""How sure a number is: 95 % intervals by part, as pictures of one part are no independent cases.

Two kinds. Where enough happened, a bootstrap: the parts are drawn again, with all their pictures,
1000 times, and the middle 95 % of the resulting numbers count (Efron's percentile interval). It
says nothing where nothing happened and little where few did; there it is the exact binomial
interval (Clopper and Pearson, 1934), taken as if each part had been one case.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from enginehouse.evaluate.point import Interval, Rate

NUM_DRAWS = 1000
BLOCK = 100  # draws that are worked on at once, so that memory stays small
LEVEL = 0.95
MIN_PARTS = 30  # fewer parts, or fewer cases of one kind: the exact interval
MIN_CASES = 5


class Resamples:
    """The same pictures over and over, their parts drawn anew each time, the same way always.

    Args:
        parts: number of the part of each picture or unit, int [n].
    """

    def __init__(self, parts: NDArray[np.int64]) -> None:
        _, self.parts = np.unique(parts, return_inverse=True)
        self.num_parts = int(self.parts.max(initial=-1)) + 1

    @cached_property
    def _weights(self) -> NDArray[np.uint8]:
        """How often each part is in each draw, [draws, parts]; no part is ever in 256 times."""
        rng = np.random.default_rng(0)
        draws = (rng.integers(self.num_parts, size=self.num_parts) for _ in range(NUM_DRAWS))
        counts = [np.bincount(drawn, minlength=self.num_parts) for drawn in draws]
        return np.array(counts, np.uint8)

    def add_up(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sums over each draw, [draws, k], of values of the units, [n, k]."""
        by_part = np.zeros((self.num_parts, values.shape[1]))
        np.add.at(by_part, self.parts, values)
        blocks = [
            self._weights[start : start + BLOCK].astype(np.float64) @ by_part
            for start in range(0, NUM_DRAWS, BLOCK)
        ]
        return np.concatenate(blocks)


def bound_share(num: float, of: float) -> Interval:
    """The exact two-sided binomial interval of `num` in `of` (Clopper and Pearson).

    Args:
        num: cases; need not be whole, where units stand for fewer independent ones.
        of: how many there could have been; above 0.
    """
    from scipy.special import betaincinv

    tail = (1 - LEVEL) / 2
    return Interval(
        low=float(betaincinv(num, of - num + 1, tail)) if num > 0 else 0.0,
        high=float(betaincinv(num + 1, of - num, 1 - tail)) if num < of else 1.0,
    )


def bound_above(num: int, of: int) -> float:
    """What the true share does not exceed, with 95 % confidence: the exact one-sided bound.

    Of 0 in n it is near 3 / n, the rule of three.
    """
    from scipy.special import betaincinv

    return float(betaincinv(num + 1, of - num, LEVEL)) if num < of else 1.0


def count_needed(limit: float) -> int:
    """How many cases without a single one show, with 95 % confidence, a share below `limit`."""
    return math.ceil(math.log(1 - LEVEL) / math.log(1 - limit))


def estimate_rate(
    happened: NDArray[np.bool_], among: NDArray[np.bool_], resamples: Resamples
) -> Rate | None:
    """How often something happened among some units; None where there are none.

    Args:
        happened, among: per unit, [n].
        resamples: of the parts of these units.
    """
    num, of = int((happened & among).sum()), int(among.sum())
    if not of:
        return None
    num_parts = len(np.unique(resamples.parts[among]))
    if num_parts < MIN_PARTS or min(num, of - num) < MIN_CASES:
        exact = bound_share(num / of * num_parts, num_parts)
        return Rate(num=num, of=of, low=exact.low, high=exact.high)
    values = np.stack([happened & among, among], axis=1).astype(np.float64)
    sums = resamples.add_up(values)
    drawn = sums[:, 0] / np.maximum(sums[:, 1], 1)
    found = _take_middle(drawn[sums[:, 1] > 0])
    return Rate(num=num, of=of, low=found.low, high=found.high)


def count_exactly(
    happened: NDArray[np.bool_], among: NDArray[np.bool_], parts: NDArray[np.int64]
) -> Rate:
    """The same with the exact interval, of units that are at least one: for many small groups."""
    num, of = int((happened & among).sum()), int(among.sum())
    num_parts = len(np.unique(parts[among]))
    exact = bound_share(num / of * num_parts, num_parts)
    return Rate(num=num, of=of, low=exact.low, high=exact.high)


def estimate_quality(
    truth: NDArray[np.bool_], said: NDArray[np.bool_], resamples: Resamples
) -> dict[str, Interval]:
    """Intervals of `accuracy` and `macro_f1`, as problems define them.

    Args:
        truth, said: which classes each picture has and is said to have, [n, classes].
        resamples: of the parts of these pictures.
    """
    num_classes = truth.shape[1]
    right = (truth == said).all(axis=1)[:, None]
    columns = [right, np.ones_like(right), truth & said, truth, said]
    sums = resamples.add_up(np.concatenate(columns, axis=1).astype(np.float64))
    hits, support, answers = np.split(sums[:, 2:], [num_classes, 2 * num_classes], axis=1)
    f1 = 2 * hits / np.maximum(support + answers, 1)
    occurs = support > 0  # of a draw, too, macro F1 is the mean over the classes that occur in it
    macro_f1 = (f1 * occurs).sum(axis=1) / occurs.sum(axis=1)
    return {
        "accuracy": _take_middle(sums[:, 0] / sums[:, 1]),
        "macro_f1": _take_middle(macro_f1),
    }


def measure_macro_f1(truth: NDArray[np.bool_], said: NDArray[np.bool_]) -> float:
    """Mean F1 over the classes that occur in the truth, as problems define it.

    Args:
        truth, said: which classes each picture has and is said to have, [n, classes].
    """
    occurs = truth.any(axis=0)
    hits = (truth & said)[:, occurs].sum(axis=0)
    answers = said[:, occurs].sum(axis=0) + truth[:, occurs].sum(axis=0)
    return float((2 * hits / answers).mean()) if occurs.any() else 0.0


def _take_middle(drawn: NDArray[np.float64]) -> Interval:
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return Interval(low=float(low), high=float(high))
