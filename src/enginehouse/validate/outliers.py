"""Pictures whose statistics lie far from those of the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from enginehouse.validate.instance import Instance

if TYPE_CHECKING:
    import pandas as pd

# Whether values are spread over decades, so that their logarithms are compared.
LOGARITHMIC = {
    "brightness": False,
    "contrast": False,
    "sharpness": True,
    "width": True,
    "height": True,
}
MIN_PICTURES = 20  # fewer say nothing of what is usual
TAILS = (0.05, 0.95)
NORMAL_TAIL = 1.6449  # how many standard deviations they lie from the middle of a normal one
RARE = 0.01  # where nearly all values are equal: more than this are no exceptions


def find_outliers(pictures: pd.DataFrame, limit: float) -> list[Instance]:
    """Pictures with a robust z-score above `limit`, the farthest first, one instance each.

    The score is (x - median) / (1.4826 MAD), the modified z-score of Iglewicz & Hoaglin (1993).
    Classes, cameras and formats make several heaps, which the middle half says nothing of, so
    the spread is at least that of the tail on the same side, from its 5 % quantile. Where nearly
    all values are equal it is 1.2533 times the mean absolute deviation (the same source).
    """
    if len(pictures) < MIN_PICTURES:
        return []
    score_of = {
        column: score_values(pictures[column].to_numpy(float), log)
        for column, log in LOGARITHMIC.items()
    }
    worst = np.max(np.abs(list(score_of.values())), axis=0)
    found = []
    for row in np.argsort(-worst, kind="stable")[: int((worst > limit).sum())]:
        words = [
            f"{column} {pictures[column].iloc[row]:g} (median {pictures[column].median():g})"
            for column, scores in score_of.items()
            if abs(scores[row]) > limit
        ]
        path = str(pictures["path"].iloc[row])
        found.append(Instance(path, f"{path} has {', '.join(words)}"))
    return found


def score_values(values: NDArray[np.float64], logarithmic: bool) -> NDArray[np.float64]:
    """The score of each value as `find_outliers` says, signed; 0 where none stands out."""
    if logarithmic:
        values = np.log1p(values)
    away = values - np.median(values)
    middle = 1.4826 * float(np.median(np.abs(away)))
    below, above = (max(middle, abs(np.quantile(away, q)) / NORMAL_TAIL) for q in TAILS)
    spread: NDArray[np.float64] = np.where(away < 0, below, above)
    if np.count_nonzero(away) <= max(3, RARE * len(values)):
        spread = np.full_like(away, 1.2533 * np.mean(np.abs(away)))
    return np.divide(away, spread, out=np.zeros_like(away), where=spread > 0)
