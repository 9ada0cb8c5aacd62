"""Splitting without leaks: pictures that share a part or their content stay together."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import TYPE_CHECKING

from enginehouse.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

SPLITS = ("train", "val", "test")


def assign_splits(table: pd.DataFrame, val_share: float, test_share: float, seed: int) -> list[str]:
    """The split of each row, stratified by label, whole parts only.

    Parts are ordered by a hash of seed and part id, so a new picture moves few others. A part
    with several labels counts for its commonest.

    Args:
        table: with the columns label and part, repeated pictures already dropped.
        val_share, test_share: of each label's parts; at least one part each.

    Raises:
        DataError: a label has fewer than three parts.
    """
    labels_of: dict[str, Counter[str]] = {}
    for part, label in zip(table["part"], table["label"], strict=True):
        labels_of.setdefault(part, Counter())[label] += 1
    parts_of: dict[str, list[str]] = {label: [] for label in sorted(set(table["label"]))}
    for part, labels in labels_of.items():
        commonest = min(labels, key=lambda label: (-labels[label], label))
        parts_of[commonest].append(part)
    split_of: dict[str, str] = {}
    for label, parts in parts_of.items():
        if len(parts) < len(SPLITS):
            raise DataError(
                f"Class {label} has {len(parts)} distinct part(s); a split needs at least 3.",
                f"Add pictures of other parts to {label}, or take the class out.",
            )
        parts.sort(key=lambda part: hashlib.sha256(f"{seed}/{part}".encode()).digest())
        num_test = max(1, round(len(parts) * test_share))
        num_val = max(1, round(len(parts) * val_share))
        for place, part in enumerate(parts):
            split_of[part] = (
                "test" if place < num_test else "val" if place < num_test + num_val else "train"
            )
    return [split_of[part] for part in table["part"]]
