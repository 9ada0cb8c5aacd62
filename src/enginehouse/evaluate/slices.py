"""Scores of the pictures with one value of a column: where an engine does worse than elsewhere."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from enginehouse.choices import suggest
from enginehouse.errors import RecipeError
from enginehouse.evaluate.intervals import (
    Resamples,
    estimate_quality,
    estimate_rate,
    measure_macro_f1,
)
from enginehouse.evaluate.operating import apply_point
from enginehouse.evaluate.point import OperatingPoint, Rate
from enginehouse.evaluate.record import Slice
from enginehouse.evaluate.units import Answers, make_units

if TYPE_CHECKING:
    import pandas as pd

MAX_VALUES = 20  # of a column; the rarer ones count as one
NUM_CUTS = 4
MIN_PARTS = 5  # of a slice, to say with any certainty that it is worse
REST = "others"
NONE = "(none)"


def cut_slices(
    table: pd.DataFrame, columns: Sequence[str], patterns: Mapping[str, str]
) -> pd.DataFrame:
    """The value of every slice for every picture, as text; one column per slice.

    Args:
        table: a row per picture.
        columns: of the table; numbers and times are cut into quarters.
        patterns: name to a regular expression over the path, whose one group is the value.

    Raises:
        RecipeError: there is no such column.
    """
    import pandas as pd

    if missing := [name for name in columns if name not in table]:
        there = [str(name) for name in table if name not in ("split", "row", "class_index")]
        raise RecipeError(
            f"evaluate.slices: the pack has no column {missing[0]!r}; it has {', '.join(there)}.",
            f"Name one of them{suggest(missing[0], there)}.",
        )
    found = {name: _cut_column(table[name]) for name in columns}
    for name, pattern in patterns.items():
        hits = [re.search(pattern, path) for path in table["path"]]
        found[name] = _name_values(pd.Series([hit[1] or NONE if hit else NONE for hit in hits]))
    return pd.DataFrame({name: values.to_numpy() for name, values in found.items()})


def _cut_column(values: pd.Series) -> pd.Series:
    """Text as it is; quarters of numbers and times, where there are more values than quarters."""
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    numeric = is_numeric_dtype(values) and not is_bool_dtype(values)
    if (numeric or values.name == "time") and values.nunique() > NUM_CUTS:
        return _cut_quarters(values)
    return _name_values(values.astype(str).replace("", NONE))


def _cut_quarters(values: pd.Series) -> pd.Series:
    """Each value as `lowest to highest` of its quarter; equal values stay together."""
    known = np.sort(values[values != ""].to_numpy())
    starts = known[[len(known) * place // NUM_CUTS for place in range(NUM_CUTS)]]
    # A text without a time has no quarter.
    quarter = np.searchsorted(starts, values.to_numpy(), side="right") - 1
    named = values.astype(str).copy()
    for place in np.unique(quarter):
        mine = values[quarter == place]
        ends = [
            f"{end:.4g}" if not isinstance(end, str) else end for end in (mine.min(), mine.max())
        ]
        named[quarter == place] = " to ".join(ends) if place >= 0 else NONE
    return named


def _name_values(values: pd.Series) -> pd.Series:
    common = values.value_counts(sort=True).index[:MAX_VALUES]
    return values.where(values.isin(common), REST)


def score_slices(
    slices: pd.DataFrame, answers: Answers, point: OperatingPoint | None
) -> tuple[Slice, ...]:
    """Score every value of every slice against all pictures.

    Args:
        slices: as `cut_slices` gives them, a row per picture.
        answers: of these pictures.
        point: for escapes and overkill, or None.
    """
    whole = _score(answers, point)
    found = []
    for name in slices:
        values = slices[name].to_numpy()
        for value in sorted(set(values)):
            part = _score(answers.pick(values == value), point)
            found.append(_compare(str(name), str(value), part, whole))
    return tuple(found)


Scored = tuple[Answers, Resamples, float, Rate | None, Rate | None]


def _score(answers: Answers, point: OperatingPoint | None) -> Scored:
    """Macro F1, escapes and overkill of some pictures."""
    resamples = Resamples(answers.parts)
    macro_f1 = measure_macro_f1(answers.truth, answers.said)
    if point is None:
        return answers, resamples, macro_f1, None, None
    alarm = apply_point(point, answers.probabilities, answers.classes)
    units = make_units(answers, alarm, "picture")
    passed = units.alarm < point.threshold
    return (
        *(answers, resamples, macro_f1),
        estimate_rate(passed, units.defective, resamples),
        estimate_rate(~passed, ~units.defective, resamples),
    )


def _compare(name: str, value: str, part: Scored, whole: Scored) -> Slice:
    answers, resamples, macro_f1, escapes, overkill = part
    certain = resamples.num_parts >= MIN_PARTS
    interval = None
    if certain:
        interval = estimate_quality(answers.truth, answers.said, resamples)["macro_f1"]
    rates = ((escapes, whole[3]), (overkill, whole[4]))
    worse = (interval is not None and interval.high < whole[2]) or (
        certain and any(mine and all_ and mine.low > all_.share for mine, all_ in rates)
    )
    return Slice(
        name=name,
        value=value,
        num_pictures=len(answers.parts),
        num_parts=resamples.num_parts,
        macro_f1=macro_f1,
        interval=interval,
        escapes=escapes,
        overkill=overkill,
        worse=worse,
    )
