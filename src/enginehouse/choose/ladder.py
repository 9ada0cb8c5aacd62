"""Which candidate ships: up a ladder of ever smaller precisions, as long as each step pays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from enginehouse.choose.record import Judged
from enginehouse.engine import STEPS
from enginehouse.quantize.record import PLAIN


@dataclass
class Ladder:
    """What ships, and one sentence for every candidate.

    Attributes:
        against: candidate to the one that it was held against.
        speedup: candidate to how many times as fast as that it is.
    """

    chosen: str
    against: dict[str, str] = field(default_factory=dict)
    speedup: dict[str, float] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)


def climb(
    judged: Sequence[Judged], milliseconds: Mapping[str, float], min_speedup: float
) -> Ladder:
    """Start at fp32; at each step up, the best that breaks no rule and is faster takes its place.

    Args:
        judged: fp32 first, the others in the order that decides where all else is equal.
        milliseconds: median latency by name.
        min_speedup: how many times as fast as what stands a candidate must be.
    """
    plain, *others = judged
    ladder = Ladder(plain.name)
    stands = plain
    for step in sorted({STEPS[each.precision] for each in others}):
        rivals = [each for each in others if STEPS[each.precision] == step]
        for each in rivals:
            ladder.against[each.name] = stands.name
            ladder.speedup[each.name] = milliseconds[stands.name] / milliseconds[each.name]
            ladder.reasons[each.name] = _object(each, plain, ladder, min_speedup)
        able = [each for each in rivals if not ladder.reasons[each.name]]
        if able:
            best = _take_best(able, milliseconds, min_speedup)
            place = able.index(best)
            for number, each in enumerate(able):
                if each is not best:
                    told = _say_beaten(each, best, milliseconds, before=number < place)
                    ladder.reasons[each.name] = told
            speedup = ladder.speedup[best.name]
            ladder.reasons[stands.name] = (
                f"may ship, but {best.name} is smaller and {speedup:.2f} times as fast"
            )
            stands = best
    ladder.chosen = stands.name
    ladder.reasons[stands.name] = _say_ships(stands, plain, ladder)
    return ladder


def _object(each: Judged, plain: Judged, ladder: Ladder, min_speedup: float) -> str:
    """Why a candidate may not ship, or ""."""
    if each.broken:
        return "; ".join(each.broken)
    if STEPS[each.precision] <= STEPS[plain.precision]:
        return f"not smaller than {_call(plain.name)}"
    against, speedup = ladder.against[each.name], ladder.speedup[each.name]
    if speedup < min_speedup:
        return (
            f"not faster: {speedup:.3f} times as fast as {_call(against)}, wanted {min_speedup:.3f}"
        )
    return ""


def _call(name: str) -> str:
    """What people call a candidate: `none` is the network in fp32."""
    return "fp32" if name == PLAIN else name


def _rank(each: Judged) -> tuple[float, ...]:
    """What it loses, the dearest first; then what it may lose at most."""
    lost_good = each.overkill.lost if each.overkill else 0
    return each.lost_defects, lost_good, each.errors.lost, each.errors.bound


def _take_best(
    able: Sequence[Judged], milliseconds: Mapping[str, float], min_speedup: float
) -> Judged:
    """What loses least; of equals the first, unless another is faster by more than chance."""
    least = min(map(_rank, able))
    best, *others = (each for each in able if _rank(each) == least)
    for each in others if min_speedup else ():
        if milliseconds[best.name] >= max(min_speedup, 1) * milliseconds[each.name]:
            best = each
    return best


def _say_beaten(each: Judged, best: Judged, milliseconds: Mapping[str, float], before: bool) -> str:
    if _rank(each) != _rank(best):
        return (
            f"may ship, but {best.name}, as small, loses less: {_say_rank(best)} against "
            f"{_say_rank(each)}"
        )
    times = milliseconds[each.name] / milliseconds[best.name]
    if before:
        return f"may ship, but {best.name}, as small and as good, is {times:.2f} times as fast"
    return f"may ship, but {best.name}, as small and as good, stands before it in the recipe"


def _say_rank(each: Judged) -> str:
    defects, good, answers, bound = _rank(each)
    return f"{defects} defects, {good} good, {answers} answers (at most {bound:.2%} more errors)"


def _say_ships(chosen: Judged, plain: Judged, ladder: Ladder) -> str:
    if chosen is plain:
        return (
            "ships: no smaller candidate may" if ladder.against else "ships: nothing else is here"
        )
    return (
        f"ships: {ladder.speedup[chosen.name]:.2f} times as fast as "
        f"{_call(ladder.against[chosen.name])}, with 95 % confidence at most "
        f"{chosen.errors.bound:.2%} more errors than {_call(plain.name)}"
    )
