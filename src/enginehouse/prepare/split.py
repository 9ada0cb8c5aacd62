"""Splitting without leaks, and the same way when more data arrives.

A part (pictures that belong together) has a place between 0 and 1 that depends on the seed and on
its name alone. Those below the test share are for the test, those above it by less than the
validation share for validation, the others for training: whatever arrives, a part stays where it
is. Only a class with too few parts to have one in each split is helped: its lowest parts fill the
test, then validation. Such a part goes back, towards training, once others have come to be there.
Never does one go from training to where it is tested: with one exception that nothing can avoid,
a class whose first parts all lie so low that some of them must be lent to training.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import TYPE_CHECKING

from enginehouse.errors import DataError
from enginehouse.prepare.config import PrepareConfig

if TYPE_CHECKING:
    import pandas as pd

SPLITS = ("train", "val", "test")
NUM_NAMED = 5


def find_place(seed: int, part: str) -> float:
    """Where a part stands, in [0, 1), the same for ever."""
    return int(hashlib.sha256(f"{seed}/{part}".encode()).hexdigest()[:13], 16) / 16**13


def drop_repeats(table: pd.DataFrame, config: PrepareConfig) -> pd.DataFrame:
    """One of each set of equal pictures, in the order of the paths.

    Which one does not depend on what was added last. Where splits are given, it is the one that
    is tested on, so that a given test stays whole; by time it is the earliest; else the one whose
    part stands nearest to training. Of equals it is the first path.

    Args:
        table: with the columns path, pixels, part, split, time.
    """
    rank = {"test": 0, "val": 1, "train": 2}
    ranked = table.assign(
        given=[rank.get(split, 3) for split in table["split"]],
        place=[-find_place(config.seed, part) for part in table["part"]],
    )
    first = {"given_or_part": "given", "part": "place", "time": "time"}[config.split_by]
    ranked = ranked.sort_values(list(dict.fromkeys([first, "place", "path"])), kind="stable")
    kept = ranked.drop_duplicates("pixels").sort_values("path")
    return kept[list(table.columns)].reset_index(drop=True)


def assign_splits(table: pd.DataFrame, config: PrepareConfig) -> list[str]:
    """The split of each row: whole parts, but where the data gives splits that cut one.

    Args:
        table: with the columns path, label, part, split, time; repeats already dropped.

    Raises:
        DataError: a class cannot be split, nothing is given to training, or a picture has no time.
    """
    if config.split_by == "time":
        return _split_by_time(table, config)
    if config.split_by == "part" or not table["split"].isin(SPLITS).any():
        side_of = place_parts(table, config.seed, config.val_share, config.test_share)
        return [side_of[part] for part in table["part"]]
    return _split_as_given(table, config)


def place_parts(
    table: pd.DataFrame, seed: int, val_share: float, test_share: float
) -> dict[str, str]:
    """The side of each part, as the module says.

    A part with several labels counts for its commonest. A class that is the commonest of too few
    parts is not helped, as it lies in the parts of others.

    Args:
        table: with the columns part, label; and classes, where a picture may bear several.
        val_share, test_share: of the parts; 0: there is no such side.

    Raises:
        DataError: a class lies in fewer parts than there are sides.
    """
    num_sides = 1 + (val_share > 0) + (test_share > 0)
    for label, found in list_parts(table).items():
        if (num := len(found)) < num_sides:
            raise DataError(
                f"Class {label} has {num} distinct part(s); a split needs at least {num_sides}.",
                f"Add pictures of other parts to {label}, or take the class out.",
            )
    side_of: dict[str, str] = {}
    for parts in group_parts(table):
        placed = sorted((find_place(seed, part), part) for part in parts)
        num_test = sum(place < test_share for place, _ in placed)
        num_tested = sum(place < test_share + val_share for place, _ in placed)
        if len(parts) >= num_sides:
            num_test = max(num_test, test_share > 0)
            num_tested = max(num_tested, num_test + (val_share > 0))
            # One part is lent to training, then one to validation, where all lie too low.
            num_tested = min(num_tested, len(parts) - 1)
            num_test = min(num_test, num_tested - (val_share > 0))
        for rank, (_, part) in enumerate(placed):
            side_of[part] = "test" if rank < num_test else "val" if rank < num_tested else "train"
    return side_of


def list_parts(table: pd.DataFrame) -> dict[str, set[str]]:
    """The parts in which each class occurs, by class; the arguments are those of `place_parts`."""
    name = "classes" if "classes" in table else "label"
    borne = table.explode(name)  # of one label each it changes nothing
    return {str(label): set(parts) for label, parts in borne.groupby(name)["part"]}


def group_parts(table: pd.DataFrame) -> list[list[str]]:
    """The parts, those of the same commonest label together."""
    labels_of: dict[str, Counter[str]] = {}
    for part, label in zip(table["part"], table["label"], strict=True):
        labels_of.setdefault(part, Counter())[label] += 1
    parts_of: dict[str, list[str]] = {}
    for part, labels in labels_of.items():
        commonest = min(labels, key=lambda label: (-labels[label], label))
        parts_of.setdefault(commonest, []).append(part)
    return list(parts_of.values())


def _split_as_given(table: pd.DataFrame, config: PrepareConfig) -> list[str]:
    """Given splits as they are; those that are not given come out of training, by part.

    A picture that is given none, where others are, counts as given to training.
    """
    given = set(table["split"])
    splits = [split if split in SPLITS else "train" for split in table["split"]]
    pool = table[[split == "train" for split in splits]]
    if not len(pool):
        raise DataError(
            "The data gives no picture to training, only to "
            f"{' and '.join(sorted(given & set(SPLITS)))}.",
            "Name a split train, or set prepare.split_by to part.",
        )
    side_of = place_parts(
        pool,
        config.seed,
        0 if "val" in given else config.val_share,
        0 if "test" in given else config.test_share,
    )
    return [
        side_of[part] if split == "train" else split
        for split, part in zip(splits, table["part"], strict=True)
    ]


def _split_by_time(table: pd.DataFrame, config: PrepareConfig) -> list[str]:
    """The latest parts for the test, those before them for validation.

    A part counts as late as its latest picture, so that nothing late is trained on. The newest
    data is always what is tested, so here parts do move into training as others arrive.
    """
    if missing := table["path"][table["time"] == ""].tolist():
        raise DataError(
            f"Splitting by time needs a time for every picture; {len(missing)} have none: "
            f"{', '.join(missing[:NUM_NAMED])}{', ...' if len(missing) > NUM_NAMED else ''}.",
            "Give the times in the label file, or set prepare.split_by to part.",
        )
    latest = table.groupby("part")["time"].max()
    parts = sorted(latest.index, key=lambda part: (latest[part], part), reverse=True)
    if len(parts) < len(SPLITS):
        raise DataError(
            f"The data has {len(parts)} distinct part(s); a split needs at least 3.",
            "Add pictures of other parts.",
        )
    num_test = max(1, round(len(parts) * config.test_share))
    num_val = max(1, round(len(parts) * config.val_share))
    num_val = min(num_val, len(parts) - 1 - num_test)
    sides = ["test"] * num_test + ["val"] * num_val
    side_of = dict(zip(parts, sides, strict=False))
    return [side_of.get(part, "train") for part in table["part"]]
