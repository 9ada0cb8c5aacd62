"""What becomes of pictures and parts at an operating point, and what other points would give."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from enginehouse.evaluate.intervals import Resamples, count_exactly, estimate_rate
from enginehouse.evaluate.operating import apply_point, count_allowed
from enginehouse.evaluate.point import OperatingPoint, Rate, Unit
from enginehouse.evaluate.record import Outcome, TradeOff
from enginehouse.evaluate.units import Answers, Units, make_units

OVERKILL_LIMITS = (0.005, 0.01, 0.02, 0.05)
ESCAPE_LIMITS = (0.0, 0.001, 0.005, 0.01, 0.02)


def measure_outcome(answers: Answers, point: OperatingPoint, unit: Unit) -> Outcome:
    """Count escapes, overkill and what people look at again.

    Args:
        answers: of any split.
        point: whose thresholds hold, whatever unit it was fixed for.
        unit: what is counted.
    """
    alarm = apply_point(point, answers.probabilities, answers.classes)
    units = make_units(answers, alarm, unit)
    resamples = Resamples(units.parts)
    rejected, defective = units.alarm >= point.threshold, units.defective
    band = (units.alarm >= point.recheck_low) & (units.alarm < point.recheck_high)
    rechecked = estimate_rate(band, np.ones_like(band), resamples)
    assert rechecked is not None
    return Outcome(
        unit=unit,
        escapes=estimate_rate(~rejected, defective, resamples),
        overkill=estimate_rate(rejected, ~defective, resamples),
        rechecked=rechecked,
        escapes_rechecked=int((~rejected & defective & band).sum()),
        overkill_rechecked=int((rejected & ~defective & band).sum()),
        escapes_by_class=_count_by_class(units, ~rejected, answers.classes),
        escapes_at=_trade_escapes(units, resamples, answers.classes),
        overkill_at=_trade_overkill(units, resamples),
    )


def _count_by_class(
    units: Units, passed: NDArray[np.bool_], classes: Sequence[str]
) -> dict[str, Rate]:
    return {
        classes[index]: count_exactly(passed, units.bears[:, index], units.parts)
        for index in units.defects
        if units.bears[:, index].any()
    }


def _trade_escapes(
    units: Units, resamples: Resamples, classes: Sequence[str]
) -> tuple[TradeOff, ...]:
    """Escapes where no more than a share of the good units is rejected; () without good units."""
    falling = np.sort(units.alarm[~units.defective])[::-1]
    found = []
    for limit in OVERKILL_LIMITS if len(falling) else ():
        # Above the first good unit too many, no more than the allowed ones are rejected.
        passed = units.alarm <= falling[count_allowed(limit, len(falling))]
        rate = estimate_rate(passed, units.defective, resamples)
        if rate is not None:
            by_class = _count_by_class(units, passed, classes)
            found.append(TradeOff(limit=limit, rate=rate, by_class=by_class))
    return tuple(found)


def _trade_overkill(units: Units, resamples: Resamples) -> tuple[TradeOff, ...]:
    """Overkill where no more than a share of the defects passes; () without either."""
    rising = np.sort(units.alarm[units.defective])
    found = []
    for limit in ESCAPE_LIMITS if len(rising) else ():
        rejected = units.alarm >= rising[count_allowed(limit, len(rising))]
        rate = estimate_rate(rejected, ~units.defective, resamples)
        if rate is not None:
            found.append(TradeOff(limit=limit, rate=rate))
    return tuple(found)
