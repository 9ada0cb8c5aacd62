"""The operating point: fixed on validation for an escape limit, then applied to what comes.

A unit's alarm says how sure the engine is that it is not good. Where each class stands for itself,
the classes are first brought to one measure: each has a threshold of its own, and its logit counts
from there, so that one class with low scores does not make the others alarm too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from enginehouse.choices import load_choice
from enginehouse.engine import Probabilities
from enginehouse.evaluate.intervals import Resamples, bound_above, count_needed, estimate_rate
from enginehouse.evaluate.point import OperatingConfig, OperatingPoint
from enginehouse.evaluate.units import Answers, Units, make_units, take_largest

Verdict = Literal["good", "recheck", "reject"]

TINY = 1e-15  # alarms this near to 0 or 1 count as that far from it
STEP = 1.0  # in logits: how far below the lowest alarm a threshold lies that lets nothing pass


def measure_alarm(
    problem: str,
    probabilities: Probabilities,
    classes: Sequence[str],
    good: int,
    class_thresholds: Mapping[str, float],
) -> NDArray[np.float64]:
    """How sure an engine is that a picture is not good, 0..1, [n].

    Args:
        problem: name of the problem.
        probabilities: float32 [n, classes].
        classes: in index order. good: index of the one that means a good part.
        class_thresholds: what the logits of a class count from; those left out, from 0.5.
    """
    shares = probabilities.astype(np.float64)
    if class_thresholds:
        zeros = np.array([class_thresholds.get(name, 0.5) for name in classes])
        shares = _from_logits(_to_logits(shares) - _to_logits(zeros))
    alarm: NDArray[np.float64] = load_choice("problems", problem).measure_alarm(shares, good)
    return alarm


def apply_point(
    point: OperatingPoint, probabilities: Probabilities, classes: Sequence[str]
) -> NDArray[np.float64]:
    """The alarm of pictures as the point's thresholds mean it, [n]."""
    good = list(classes).index(point.good)
    return measure_alarm(point.problem, probabilities, classes, good, point.class_thresholds)


def find_verdict(point: OperatingPoint, alarm: float) -> Verdict:
    """What becomes of a unit with this alarm."""
    if point.recheck_low <= alarm < point.recheck_high:
        return "recheck"
    return "reject" if alarm >= point.threshold else "good"


def find_point(answers: Answers, rules: OperatingConfig) -> tuple[OperatingPoint | None, list[str]]:
    """The point that meets the rules with the least overkill, and what is to be said of it.

    Args:
        answers: of the validation split.
        rules: the limits.

    Returns:
        The point, or None where nothing is good by name or nothing is defective; and sentences.
    """
    if answers.good is None:
        return None, ["No class is named as the good one, so there is no operating point."]
    if not make_units(answers, np.zeros(len(answers.parts)), rules.unit).defective.any():
        return None, ["Validation holds no defect, so no threshold can be fixed on it."]
    class_thresholds = _find_class_thresholds(answers, rules)
    alarm = measure_alarm(
        *(answers.problem, answers.probabilities, answers.classes, answers.good, class_thresholds)
    )
    units = make_units(answers, alarm, rules.unit)
    threshold = _find_threshold(units, rules, answers.classes)
    low, high = _find_band(units.alarm, threshold, rules.recheck_share)
    resamples = Resamples(units.parts)
    passed = units.alarm < threshold
    escapes = estimate_rate(passed, units.defective, resamples)
    assert escapes is not None
    point = OperatingPoint(
        rules=rules,
        problem=answers.problem,
        good=answers.classes[answers.good],
        threshold=threshold,
        recheck_low=low,
        recheck_high=high,
        class_thresholds=class_thresholds,
        escapes=escapes,
        overkill=estimate_rate(~passed, ~units.defective, resamples),
    )
    return point, _explain(units, passed, rules, answers.classes)


def _find_class_thresholds(answers: Answers, rules: OperatingConfig) -> dict[str, float]:
    """Per defect class the threshold that misses no more units with it than its limit allows."""
    if load_choice("problems", answers.problem).SHAPE != "independent":
        return {}
    thresholds = {}
    for index, name in enumerate(answers.classes):
        if index == answers.good:
            continue
        score = answers.probabilities[:, index].astype(np.float64)
        bears = answers.truth[:, index]
        if rules.unit == "part":
            _, rows = np.unique(answers.parts, return_inverse=True)
            score, bears = take_largest(score, rows), take_largest(bears.astype(float), rows) > 0
        limit = rules.class_limits.get(name, rules.max_escape_rate)
        deciding = _find_deciding(score[bears], limit)
        thresholds[name] = 0.5 if deciding is None else _step_below(score, deciding)
    return thresholds


def _find_threshold(units: Units, rules: OperatingConfig, classes: Sequence[str]) -> float:
    """The largest threshold that meets every limit, moved to where rounding cannot turn it."""
    deciding = [
        _find_deciding(units.alarm[among], limit)
        for _, among, limit in _list_limits(units, rules, classes)
    ]
    return _step_below(units.alarm, min(alarm for alarm in deciding if alarm is not None))


def _list_limits(
    units: Units, rules: OperatingConfig, classes: Sequence[str]
) -> list[tuple[str, NDArray[np.bool_], float]]:
    """Every limit: the class that it is for (`` for all defects), the units, the share."""
    single = [
        (name, units.bears[:, list(classes).index(name)], limit)
        for name, limit in sorted(rules.class_limits.items())
    ]
    return [("", units.defective, rules.max_escape_rate), *single]


def count_allowed(limit: float, of: int) -> int:
    """How many of so many may pass: the whole ones; a product may be a hair below its number."""
    return int(limit * of + 1e-9)


def _find_deciding(alarm: NDArray[np.float64], limit: float) -> float | None:
    """The lowest alarm that has to be told; None where the limit lets all of these pass."""
    allowed = count_allowed(limit, len(alarm))
    return float(np.sort(alarm)[allowed]) if allowed < len(alarm) else None


def _step_below(alarm: NDArray[np.float64], deciding: float) -> float:
    """A threshold that tells the deciding alarm from the next lower one: in the middle, in logits.

    So it does not turn by a hair of rounding on another engine.
    """
    lower = float(alarm[alarm < deciding].max(initial=-1))
    upper = float(_to_logits(deciding))
    middle = (upper + float(_to_logits(lower))) / 2 if lower >= 0 else upper - STEP
    # Between two neighbours the middle may round to the lower one, which must not alarm.
    return min(max(float(_from_logits(middle)), float(np.nextafter(lower, 1))), deciding)


def _find_band(alarm: NDArray[np.float64], threshold: float, share: float) -> tuple[float, float]:
    """From which alarm up to which people look again: the nearest units, in logits.

    The band ends in the middle between the last unit in it and the next one. Units at the same
    distance are all in it or all out, so that it never holds more than the share.
    """
    centre = float(_to_logits(threshold))
    distance = np.sort(np.abs(_to_logits(alarm) - centre))
    inside = count_allowed(share, len(alarm))
    while inside and distance[inside - 1] == distance[inside]:
        inside -= 1
    if not inside:
        return threshold, threshold
    radius = float(distance[inside - 1] + distance[inside]) / 2
    return float(_from_logits(centre - radius)), float(_from_logits(centre + radius))


def _explain(
    units: Units, passed: NDArray[np.bool_], rules: OperatingConfig, classes: Sequence[str]
) -> list[str]:
    """What each limit allowed, what passed, and what that says of parts to come."""
    said = []
    for name, among, limit in _list_limits(units, rules, classes):
        of, num = int(among.sum()), int((among & passed).sum())
        what = f"{name} {units.unit}s" if name else f"defective {units.unit}s"
        if not of:
            said.append(f"Validation holds no {what}, so their limit of {limit:.3g} binds nothing.")
            continue
        num_parts = len(np.unique(units.parts[among]))
        bound = bound_above(round(num / of * num_parts), num_parts)
        said.append(
            f"{num} of {of} {what} of validation pass (limit {limit:.3g}: "
            f"{count_allowed(limit, of)}), which shows with 95 % confidence that at most "
            f"{bound:.1%} do."
        )
        if limit and num_parts < count_needed(limit):
            said.append(
                f"To show {limit:.3g} takes {count_needed(limit)} parts of which none passes; "
                f"there are {num_parts}."
            )
    return said


def _to_logits(share: float | NDArray[np.floating]) -> NDArray[np.float64]:
    exact = np.clip(np.asarray(share, np.float64), TINY, 1 - TINY)
    logits: NDArray[np.float64] = np.log(exact / (1 - exact))
    return logits


def _from_logits(logits: float | NDArray[np.float64]) -> NDArray[np.float64]:
    share: NDArray[np.float64] = 1 / (1 + np.exp(-np.asarray(logits, np.float64)))
    return share
