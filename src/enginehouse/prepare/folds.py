"""Folds: every part is tested in exactly one of several splits of the same data.

The parts of each class, in the order of a place that depends on the seed and on the part's name
alone, are dealt out to the folds in turn. That order has nothing to do with the one of the usual
split, so what happens to be tested there is spread over all folds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginehouse.errors import DataError
from enginehouse.prepare.config import PrepareConfig
from enginehouse.prepare.split import find_place, group_parts, list_parts, place_parts

if TYPE_CHECKING:
    import pandas as pd

NUM_LEFT = 2  # parts of a class beside the test of a fold: one to learn from, one to validate on


def assign_fold(table: pd.DataFrame, config: PrepareConfig) -> list[str]:
    """The split of each row when `config.fold` is tested: whole parts, whatever the data gives.

    Args:
        table: as `place_parts` takes it; repeats already dropped.

    Raises:
        DataError: there are fewer parts than folds, or a class has too few of them.
    """
    fold_of = deal_parts(table, config.seed, config.folds)
    _check_parts(table, fold_of, config.folds)
    tested = [fold_of[part] == config.fold for part in table["part"]]
    rest = table[[not is_tested for is_tested in tested]]
    side_of = place_parts(rest, config.seed, config.val_share, 0)
    return [
        "test" if is_tested else side_of[part]
        for is_tested, part in zip(tested, table["part"], strict=True)
    ]


def deal_parts(table: pd.DataFrame, seed: int, folds: int) -> dict[str, int]:
    """The fold in which each part is tested.

    The folds differ by at most one part in all, and by at most one part of each class; a part
    with several labels counts for its commonest.

    Args:
        table: with the columns part, label.
    """
    ordered = [
        part
        for parts in sorted(group_parts(table), key=min)  # in whatever order the rows are
        for part in sorted(parts, key=lambda part: (find_place(seed, f"fold/{part}"), part))
    ]
    return {part: number % folds for number, part in enumerate(ordered)}


def _check_parts(table: pd.DataFrame, fold_of: dict[str, int], folds: int) -> None:
    if len(fold_of) < folds:
        raise DataError(
            f"The data has {len(fold_of)} distinct part(s); {folds} folds need at least {folds}.",
            "Use fewer folds, or add pictures of other parts.",
        )
    for label, parts in list_parts(table).items():
        for fold in range(folds):
            left = sum(fold_of[part] != fold for part in parts)
            if left < NUM_LEFT:
                raise DataError(
                    f"Class {label} has {len(parts)} distinct part(s), too few for {folds} folds: "
                    f"without those of fold {fold}, {left} are left, and at least {NUM_LEFT} are "
                    "needed to learn from and to validate on.",
                    f"Add pictures of other parts to {label}, take the class out, or use more "
                    "folds.",
                )
