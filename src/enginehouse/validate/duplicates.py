"""Pictures that are the same, or show the same part, and where the splits do not respect it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginehouse.validate.instance import Instance

if TYPE_CHECKING:
    import pandas as pd

    from enginehouse.validate.tables import Tables

NAMED = 4  # files that one clause names before it only counts


def find_copies(pictures: pd.DataFrame) -> list[Instance]:
    """Every content that more than one picture of a split has (of the set, without splits)."""
    repeated = pictures[pictures.duplicated(["pixels", "split"], keep=False)]
    return [
        Instance(rows.iloc[1], f"{_name(list(rows))} are the same picture (exact duplicates)")
        for _, rows in repeated.groupby(["pixels", "split"], sort=False)["path"]
    ]


def find_copies_across_splits(tables: Tables) -> list[Instance]:
    """Every content that stands in more than one given split."""
    return [
        Instance(
            rows["path"].iloc[-1],
            f"{_name(_in_order(rows))} are the same picture (a duplicate in "
            f"{_say_splits(rows, tables)})",
        )
        for rows in _torn(tables, "pixels")
    ]


def find_parts_across_splits(tables: Tables) -> list[Instance]:
    """Every part whose pictures stand in more than one given split.

    The same picture under two names is `find_copies_across_splits`'s.
    """
    return [
        Instance(
            rows["path"].iloc[-1],
            f"part {rows['part'].iloc[0]} is in {_say_splits(rows, tables)} "
            f"({_name(_in_order(rows))})",
        )
        for rows in _torn(tables, "part")
        if rows["pixels"].nunique() > 1
    ]


def find_missing_box_labels(tables: Tables) -> list[Instance]:
    """Every label of boxes that a given split has no box of."""
    if not tables.splits or not tables.has_boxes:
        return []
    split_of = tables["pictures"].set_index("path")["split"]
    boxes = tables["boxes"].assign(split=tables["boxes"]["path"].map(split_of))
    counts = boxes.groupby(["label", "split"]).size().unstack(fill_value=0)
    counts = counts.reindex(columns=list(tables.splits), fill_value=0)
    return [
        Instance("", f"{label} has no box in {split} ({int(row.sum())} in all)")
        for label, row in counts.iterrows()
        for split in tables.splits
        if row[split] == 0
    ]


def _torn(tables: Tables, column: str) -> list[pd.DataFrame]:
    """Rows that agree in a column and stand in more than one split, value by value."""
    if not tables.splits:
        return []
    pictures = tables["pictures"]
    pictures = pictures[(pictures["split"] != "") & (pictures[column] != "")]
    torn = pictures.groupby(column)["split"].transform("nunique") > 1
    return [rows for _, rows in pictures[torn].groupby(column, sort=False)]


def _in_order(rows: pd.DataFrame) -> list[str]:
    """The paths, the first of each split ahead."""
    again = rows.duplicated("split")
    return [*rows["path"][~again], *rows["path"][again]]


def _say_splits(rows: pd.DataFrame, tables: Tables) -> str:
    return " and ".join(split for split in tables.splits if split in set(rows["split"]))


def _name(paths: list[str]) -> str:
    shown = ", ".join(paths[: NAMED - 1]) if len(paths) > NAMED else ", ".join(paths[:-1])
    last = f"{len(paths) - NAMED + 1} more" if len(paths) > NAMED else paths[-1]
    return f"{shown} and {last}"
