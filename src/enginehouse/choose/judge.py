"""What the rules say of one candidate: its losses against fp32, picture by picture."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from enginehouse.choose.paired import measure_excess
from enginehouse.choose.record import ChooseRules, Excess, Judged, Rung
from enginehouse.choose.side import Side, Verdicts
from enginehouse.evaluate.operating import count_allowed


def judge_plain(rung: Rung, plain: Side) -> Judged:
    """The network as it was trained: held against itself it loses nothing."""
    escapes = overkill = None
    if plain.verdicts:
        defective = plain.verdicts.units.defective
        escapes, overkill = _lose_nothing(defective), _lose_nothing(~defective)
    errors = _lose_nothing(np.ones_like(plain.right))
    assert errors is not None
    return Judged(
        name=rung.name,
        precision=rung.precision,
        errors=errors,
        escapes=escapes,
        overkill=overkill,
        lost_defects=0,
        worst_class="",
        worst_loss=0,
        worst_allowed=0,
        broken=(),
    )


def judge(rung: Rung, plain: Side, side: Side, rules: ChooseRules) -> Judged:
    """Hold a candidate against fp32.

    Args:
        rung: its name and precision.
        plain: fp32. side: the candidate, on the same pictures.
        rules: what it may lose.
    """
    errors = measure_excess(~plain.right, ~side.right, plain.answers.parts)
    change = None
    if plain.verdicts and side.verdicts:
        change = _Change.of(plain.verdicts, side.verdicts)
    losses = _list_losses(plain, side, rules.pictures_per_loss)
    worst = max(losses, key=lambda loss: loss.net - loss.allowed, default=_Loss("", 0, 0, 0))
    broken = [*_break_errors(plain, side, errors, rules)]
    if change:
        broken += _break_verdicts(change, rules)
    return Judged(
        name=rung.name,
        precision=rung.precision,
        errors=errors,
        escapes=change and change.escapes,
        overkill=change and change.overkill,
        lost_defects=change.escapes.lost if change and change.escapes else 0,
        worst_class=worst.name,
        worst_loss=worst.net,
        worst_allowed=worst.allowed,
        broken=(*broken, *_break_classes(worst, losses, rules)),
    )


@dataclass(frozen=True)
class _Change:
    """What becomes of the same units twice.

    Attributes:
        num_escapes, num_overkill: in fp32, and of the candidate.
    """

    unit: str
    escapes: Excess | None
    overkill: Excess | None
    num_escapes: tuple[int, int]
    num_overkill: tuple[int, int]

    @classmethod
    def of(cls, before: Verdicts, now: Verdicts) -> _Change:
        defective, parts = before.units.defective, before.units.parts
        return cls(
            unit=before.units.unit,
            escapes=_measure(~before.rejected, ~now.rejected, defective, parts),
            overkill=_measure(before.rejected, now.rejected, ~defective, parts),
            num_escapes=_count(~before.rejected & defective, ~now.rejected & defective),
            num_overkill=_count(before.rejected & ~defective, now.rejected & ~defective),
        )


class _Loss(NamedTuple):
    """What a class loses: pictures that bear it and are no longer said to, less the reverse."""

    name: str
    net: int
    of: int
    allowed: int


def _list_losses(plain: Side, side: Side, pictures_per_loss: int) -> list[_Loss]:
    """The classes that lose, in index order."""
    truth = plain.answers.truth
    hits = [(truth & each.said).sum(axis=0) for each in (plain, side)]
    losses = []
    for index, name in enumerate(plain.answers.classes):
        net, of = int(hits[0][index] - hits[1][index]), int(truth[:, index].sum())
        if net > 0:
            losses.append(_Loss(name, net, of, -(-of // pictures_per_loss)))
    return losses


def _break_errors(plain: Side, side: Side, errors: Excess, rules: ChooseRules) -> Iterator[str]:
    if errors.bound > rules.margin_errors:
        before, now = plain.right.mean(), side.right.mean()
        drop = f" (drop {before - now:.4f})" if before > now else ""
        yield (
            f"accuracy {before:.4f} in fp32 and {now:.4f} here{drop}: "
            f"{_say_excess(errors, 'picture', 'margin_errors', rules.margin_errors)}"
        )


def _break_verdicts(change: _Change, rules: ChooseRules) -> Iterator[str]:
    for name, excess, counts, margin in (
        ("escapes", change.escapes, change.num_escapes, rules.margin_escapes),
        ("overkill", change.overkill, change.num_overkill, rules.margin_overkill),
    ):
        if excess and excess.bound > margin:
            yield (
                f"{name} {counts[0]} in fp32 and {counts[1]} here, of {excess.of} {change.unit}s: "
                f"{_say_excess(excess, change.unit, f'margin_{name}', margin)}"
            )
    if change.escapes:
        lost, of = change.escapes.lost, change.escapes.of
        allowed = count_allowed(rules.max_lost_defects, of)
        if lost > allowed:
            yield (
                f"{lost} of {of} defective {change.unit}s that fp32 rejects pass here: "
                f"max_lost_defects {rules.max_lost_defects:.2%} allows {allowed}"
            )


def _break_classes(worst: _Loss, losses: list[_Loss], rules: ChooseRules) -> Iterator[str]:
    if worst.net > worst.allowed:
        others = sum(loss.net > loss.allowed for loss in losses) - 1
        more = f"; other classes that lose too many: {others}" if others else ""
        yield (
            f"class {worst.name} loses {worst.net} of its {worst.of} pictures (net): "
            f"pictures_per_loss {rules.pictures_per_loss} allows {worst.allowed}{more}"
        )


def _say_excess(excess: Excess, unit: str, rule: str, margin: float) -> str:
    said = (
        f"{excess.lost} of {excess.of} {unit}s lost and {excess.gained} gained, so up to "
        f"{excess.bound:.2%} more with 95 % confidence; {rule} allows {margin:.2%}"
    )
    if not excess.lost:
        said += " (nothing is lost, but validation is too small to vouch for less)"
    return said


def _lose_nothing(among: NDArray[np.bool_]) -> Excess | None:
    of = int(among.sum())
    return Excess(lost=0, gained=0, of=of, bound=0) if of else None


def _measure(
    before: NDArray[np.bool_],
    now: NDArray[np.bool_],
    among: NDArray[np.bool_],
    parts: NDArray[np.int64],
) -> Excess | None:
    """Of some of the units; None where there are none."""
    return measure_excess(before[among], now[among], parts[among]) if among.any() else None


def _count(before: NDArray[np.bool_], now: NDArray[np.bool_]) -> tuple[int, int]:
    return int(before.sum()), int(now.sum())
