"""Every picture or part that a candidate answers otherwise than fp32, for people to look at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from enginehouse.choose.side import Side, Verdicts

if TYPE_CHECKING:
    import pandas as pd


def list_flips(pictures: pd.DataFrame, plain: Side, side: Side) -> list[dict[str, Any]]:
    """The flips of one candidate: lost defects first, other answers last.

    A part stands there with the picture that rejected it, and with its own alarms. A picture is
    listed once: with its verdict, where that flips, else as one whose answer differs.

    Args:
        pictures: one row per picture, with `path` and `part`.
        plain: fp32. side: the candidate.

    Returns:
        See `Decision`; alarms are None without an operating point.
    """
    flips, listed = [], set()
    if plain.verdicts and side.verdicts:
        for kind, unit in _iter_verdicts(plain.verdicts, side.verdicts):
            rejects = plain.verdicts if plain.verdicts.rejected[unit] else side.verdicts
            row = rejects.find_picture(unit)
            alarm = (each.units.alarm[unit] for each in (plain.verdicts, side.verdicts))
            flips.append({"kind": kind, **_describe(pictures, plain, side, row, *alarm)})
            listed.add(row)
    for row in np.flatnonzero((plain.said != side.said).any(axis=1)).tolist():
        if row in listed:
            continue
        alarm = (each.verdicts.alarm[row] if each.verdicts else None for each in (plain, side))
        flips.append({"kind": "class", **_describe(pictures, plain, side, row, *alarm)})
    return flips


def _iter_verdicts(before: Verdicts, now: Verdicts) -> Iterator[tuple[str, int]]:
    """Kind and unit of each verdict that flips."""
    defective = before.units.defective
    passes, rejects = before.rejected & ~now.rejected, now.rejected & ~before.rejected
    for kind, flipped in (
        ("lost defect", passes & defective),
        ("lost good", rejects & ~defective),
        ("gained defect", rejects & defective),
        ("gained good", passes & ~defective),
    ):
        for unit in np.flatnonzero(flipped).tolist():
            yield kind, unit


def _describe(
    pictures: pd.DataFrame,
    plain: Side,
    side: Side,
    row: int,
    alarm_fp32: float | None,
    alarm: float | None,
) -> dict[str, Any]:
    def name(bears: Any) -> str:
        return " + ".join(np.array(plain.answers.classes, object)[bears]) or "nothing"

    return {
        "path": str(pictures["path"].iloc[row]),
        "part": str(pictures["part"].iloc[row]),
        "truth": name(plain.answers.truth[row]),
        "fp32": name(plain.said[row]),
        "answer": name(side.said[row]),
        "alarm_fp32": None if alarm_fp32 is None else float(alarm_fp32),
        "alarm": None if alarm is None else float(alarm),
    }
