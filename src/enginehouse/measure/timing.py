"""Timing of things against each other in one run. Knows nothing of what it calls."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

NUM_WARM_UP = 3


def time_alternating(
    sides: Mapping[str, Callable[[], object]], rounds: int
) -> dict[str, list[float]]:
    """Call every side once per round, so that what disturbs the machine disturbs them alike.

    Every second round goes backwards: no side always follows the same other one. Before the
    first round each side is called `NUM_WARM_UP` times, untimed.

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
    names = list(sides)
    for number in range(rounds):
        for name in names if number % 2 == 0 else reversed(names):
            call = sides[name]
            start = time.perf_counter()
            call()
            times[name].append((time.perf_counter() - start) * 1e3)
    return times
