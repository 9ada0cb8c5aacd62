"""How far two values of the same place in a network are apart, and which place is the first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from enginehouse.engine import Precision

# Decibels of signal over noise that a healthy engine keeps everywhere inside the network. Sums in
# another order cost fp32 far less than this; the others round, and what lies on an edge between
# two steps may fall to either side of it, more so the deeper the network.
LIMITS: dict[Precision, float] = {"fp32": 60.0, "fp16": 40.0, "bf16": 25.0, "int8": 20.0}


@dataclass(frozen=True)
class Divergence:
    """One place in a network, and how far two computations of it are apart.

    Attributes:
        place: name of the node, and what it is: `Conv_5 (Conv)`.
        decibels: signal over noise; -inf where a value is not finite, inf where all are equal.
        difference: the mean absolute one. size: the mean absolute value that is wanted.
    """

    place: str
    decibels: float
    difference: float
    size: float

    def describe(self) -> str:
        """Place and figures, as the end of a sentence."""
        if not np.isfinite(self.difference):
            return f"{self.place}, which gives values that are not finite"
        return (
            f"{self.place}, off by {self.difference:.3g} on average where values are "
            f"{self.size:.3g} (signal over noise {self.decibels:.1f} dB)"
        )


def measure_divergence(place: str, wanted: NDArray[Any], found: NDArray[Any]) -> Divergence:
    """Hold two arrays of one shape against each other.

    The signal over noise is 10 log10(sum wanted^2 / sum (wanted - found)^2), in decibels.
    """
    want, have = wanted.astype(np.float64), found.astype(np.float64)
    noise = want - have
    size = float(np.abs(want).mean())
    if not np.isfinite(noise).all():
        return Divergence(place, -np.inf, np.inf, size)
    power = float((noise**2).sum())
    ratio = float((want**2).sum()) / power if power else np.inf
    decibels = 10 * float(np.log10(ratio)) if ratio else -np.inf
    return Divergence(place, decibels, float(np.abs(noise).mean()), size)


def name_first(places: Iterable[Divergence], limit: float) -> str:
    """Which of the places, in the order of the network, is the first below a limit; a sentence."""
    worst: Divergence | None = None
    for each in places:
        if each.decibels < limit:
            return f"The first node that diverges is {each.describe()}."
        if worst is None or each.decibels < worst.decibels:
            worst = each
    if worst is None:
        return "No node inside the network has a counterpart that it could be held against."
    return (
        f"No node inside the network is below {limit:.0f} dB; the farthest apart is "
        f"{worst.describe()}."
    )
