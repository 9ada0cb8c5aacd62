"""One candidate's answers to validation, and what becomes of its units at its operating point."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from enginehouse.evaluate.operating import apply_point
from enginehouse.evaluate.point import OperatingPoint
from enginehouse.evaluate.units import Answers, Units, make_units


@dataclass(frozen=True)
class Verdicts:
    """What is rejected.

    Attributes:
        units: pictures or parts.
        rejected: [units].
        alarm: of the pictures, [n].
        unit_of: number of the unit that each picture is or belongs to, int [n].
    """

    units: Units
    rejected: NDArray[np.bool_]
    alarm: NDArray[np.float64]
    unit_of: NDArray[np.int64]

    def find_picture(self, unit: int) -> int:
        """Row of the picture whose alarm is that of the unit."""
        rows = np.flatnonzero(self.unit_of == unit)
        return int(rows[self.alarm[rows].argmax()])


@dataclass(frozen=True)
class Side:
    """One candidate.

    Attributes:
        answers: to whole pictures.
        verdicts: None without an operating point.
    """

    answers: Answers
    verdicts: Verdicts | None

    @cached_property
    def said(self) -> NDArray[np.bool_]:
        """Which classes each picture is said to bear, [n, classes]."""
        return self.answers.said

    @property
    def right(self) -> NDArray[np.bool_]:
        """Which pictures are answered right in every class, [n]."""
        right: NDArray[np.bool_] = (self.answers.truth == self.said).all(axis=1)
        return right


def take_side(answers: Answers, point: OperatingPoint | None) -> Side:
    """Answers with the verdicts that follow from them."""
    if point is None:
        return Side(answers, None)
    alarm = apply_point(point, answers.probabilities, answers.classes)
    units = make_units(answers, alarm, point.rules.unit)
    unit_of = np.arange(len(alarm))
    if point.rules.unit == "part":  # as make_units numbers them
        unit_of = np.unique(answers.parts, return_inverse=True)[1]
    return Side(answers, Verdicts(units, units.alarm >= point.threshold, alarm, unit_of))
