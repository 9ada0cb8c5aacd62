"""The index of a pack, read: what each row of a split is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginehouse.artifact import Workspace
from enginehouse.errors import DataError
from enginehouse.prepare.record import Pack

if TYPE_CHECKING:
    import pandas as pd


def read_index(pack: Pack, split: str, here: Workspace) -> pd.DataFrame:
    """The rows of a split, in the order of its pictures.

    Raises:
        DataError: the split is empty, or the index does not fit the pictures.
        StoreError: the pack's bytes are gone or changed.
    """
    import pandas as pd

    index = pd.read_parquet(here.path(pack, "index.parquet"))
    rows = index[index["split"] == split].sort_values("row").reset_index(drop=True)
    if rows.empty:
        raise DataError(
            f"The split {split} holds no pictures.",
            "Add data, or give that split a larger share in the recipe.",
        )
    if rows["row"].tolist() != list(range(pack.counts[split])):
        raise DataError(
            f"The pack's index lists {len(rows)} rows of {split}; its shards hold "
            f"{pack.counts[split]}.",
            "Prepare the data again.",
        )
    return rows
