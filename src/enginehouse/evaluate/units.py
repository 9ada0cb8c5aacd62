"""What passes or is rejected: pictures, or the parts that they show; and how each comes out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from enginehouse.engine import Probabilities
from enginehouse.evaluate.point import Unit
from enginehouse.problem import Answered

if TYPE_CHECKING:
    from enginehouse.problem import Targets


@dataclass(frozen=True)
class Answers(Answered):
    """Whole pictures of one split, what they show and what an engine says of them.

    Attributes:
        problem: its name.
        classes: in index order. good: index of the one that means a good part, or None.
        targets: float32 [n, classes].
        probabilities: float32 [n, classes].
        parts: number of the part that each picture shows, int [n].
    """

    problem: str
    classes: Sequence[str]
    good: int | None
    targets: Targets
    probabilities: Probabilities
    parts: NDArray[np.int64]

    def pick(self, rows: NDArray[np.bool_]) -> Answers:
        """Some of the pictures."""
        return Answers(
            *(self.problem, self.classes, self.good),
            *(self.targets[rows], self.probabilities[rows], self.parts[rows]),
        )


@dataclass(frozen=True)
class Units:
    """Pictures or parts, each with how sure the engine is that it is not good.

    Attributes:
        alarm: 0..1, [n]; a part's is the largest of its pictures'.
        bears: which classes each bears, [n, classes]; a part bears those of all its pictures.
        parts: number of the part of each, int [n].
        defects: indices of the classes that are defects.
    """

    unit: Unit
    alarm: NDArray[np.float64]
    bears: NDArray[np.bool_]
    parts: NDArray[np.int64]
    defects: tuple[int, ...]

    @property
    def defective(self) -> NDArray[np.bool_]:
        """Which bear a defect, [n]."""
        return np.asarray(self.bears[:, list(self.defects)].any(axis=1))


def make_units(answers: Answers, alarm: NDArray[np.float64], unit: Unit) -> Units:
    """Pictures as they are, or put together by part.

    Args:
        answers: of pictures; they name a good class.
        alarm: of the pictures, [n].
        unit: what is wanted.
    """
    assert answers.good is not None
    defects = tuple(i for i in range(len(answers.classes)) if i != answers.good)
    if unit == "picture":
        return Units(unit, alarm, answers.truth, answers.parts, defects)
    parts, rows = np.unique(answers.parts, return_inverse=True)
    bears = np.zeros((len(parts), len(answers.classes)), bool)
    np.logical_or.at(bears, rows, answers.truth)
    return Units(unit, take_largest(alarm, rows), bears, parts, defects)


def take_largest(values: NDArray[np.float64], rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """The largest value of each group, [groups]; `rows` says which group each value is of."""
    largest = np.zeros(int(rows.max(initial=-1)) + 1)
    np.maximum.at(largest, rows, values)
    return largest
