"""How much more often something bad happens on the same units, and what that may truly be.

The bound is the upper end of the score interval of Tango (Equivalence test and confidence
interval for the difference in proportions for the paired-sample design, Statistics in Medicine
17:891-908, 1998), taken from one side. It only looks at the units that flip, and says something
where none does: 0 of n vouch for z^2 / (n + z^2), which of 60 is 0.043.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from enginehouse.choose.record import Excess

LEVEL = 0.95
TINY = 1e-9  # of shares: nearer to the found difference no bound ever lies
DIGITS = 6  # of a bound, so that the last bits of a root finder change no identity


def measure_excess(
    before: NDArray[np.bool_], now: NDArray[np.bool_], parts: NDArray[np.int64]
) -> Excess:
    """Units by what happened to them twice.

    Units of one part are no independent cases: the bound is that of the same shares among as
    many units as there are parts.

    Args:
        before, now: whether the bad thing happens to each unit, [n], n at least 1.
        parts: number of the part of each, int [n].
    """
    of = len(parts)
    assert of, "nothing to compare"
    lost, gained = int((now & ~before).sum()), int((before & ~now).sum())
    num_parts = len(np.unique(parts))
    scale = num_parts / of
    bound = bound_excess(lost * scale, gained * scale, num_parts)
    return Excess(lost=lost, gained=gained, of=of, bound=round(bound, DIGITS))


def bound_excess(lost: float, gained: float, of: float, level: float = LEVEL) -> float:
    """What the true difference of the shares does not exceed, -1..1 (Tango, 1998).

    Args:
        lost: units to which it happens only now. gained: only before. Neither need be whole,
            where units stand for fewer independent ones.
        of: units; above 0.
        level: confidence, from this one side.
    """
    from scipy.optimize import brentq

    z = NormalDist().inv_cdf(level)

    def reach(excess: float) -> float:
        """Above 0 as long as the difference that was found lies within z of this one."""
        # The likeliest share of the gained, where this difference of the shares is the true one.
        linear = (2 * of - lost + gained) * excess - lost - gained
        constant = -gained * excess * (1 - excess)
        share = (math.sqrt(max(linear**2 - 8 * of * constant, 0)) - linear) / (4 * of)
        variance = of * (2 * share + excess * (1 - excess))
        return lost - gained - of * excess + z * math.sqrt(max(variance, 0))

    start = (lost - gained) / of + TINY  # where nothing flips, 0 is a root too, and not the bound
    return float(brentq(reach, start, 1.0)) if start < 1 else 1.0
