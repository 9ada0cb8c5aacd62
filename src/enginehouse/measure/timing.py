"""Timing of things against each other in one run. Knows nothing of what it calls."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping

NUM_WARM_UP = 3


def time_alternating(
    sides: Mapping[str, Callable[[], object]], rounds: int
) -> dict[str, list[float]]:
    """Time every side once per round, so that what disturbs the machine disturbs them alike.

    What a side leaves behind disturbs the next one: threads that spin on for a while, and caches
    full of its numbers. So each timed call follows an untimed one of the same side, and each round
    has an order of its own (drawn, always the same ones). Before the first round each side is
    called `NUM_WARM_UP` times, untimed.

    Args:
        sides: name to callable; they must compute the same thing for the figures to mean much.
        rounds: number of rounds, at least 1.

    Returns:
        Name to milliseconds per round, in the order of the rounds. Take medians.
    """
    assert rounds >= 1 and sides
    for call in sides.values():
        for _ in range(NUM_WARM_UP):
            call()
    times: dict[str, list[float]] = {name: [] for name in sides}
    names, order = list(sides), random.Random(0)
    for _ in range(rounds):
        order.shuffle(names)
        for name in names:
            call = sides[name]
            call()
            start = time.perf_counter()
            call()
            times[name].append((time.perf_counter() - start) * 1e3)
    return times
