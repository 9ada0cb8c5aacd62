"""All checks that look for single cases, run: which files and classes an expectation fails on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from enginehouse.validate.drift import find_drift
from enginehouse.validate.duplicates import (
    find_copies,
    find_copies_across_splits,
    find_missing_box_labels,
    find_parts_across_splits,
)
from enginehouse.validate.instance import Instance
from enginehouse.validate.leaks import find_label_leaks
from enginehouse.validate.near_duplicates import find_near_duplicates
from enginehouse.validate.outliers import find_outliers
from enginehouse.validate.tables import MEANT

if TYPE_CHECKING:
    import pandas as pd

    from enginehouse.validate.tables import Tables
    from enginehouse.validate.validate import ValidateConfig


@dataclass(frozen=True)
class Checked:
    """What the checks found.

    Attributes:
        instances: by the name of the expectation that they break.
        counts: of each check, and other numbers for the table of the whole set.
        pairs: near duplicates, as `near_duplicates.parquet` has them.
    """

    instances: Mapping[str, list[Instance]]
    counts: Mapping[str, float]
    pairs: pd.DataFrame


def run_checks(
    tables: Tables, errors: list[Instance], before: pd.DataFrame | None, config: ValidateConfig
) -> Checked:
    """Look for every kind of case.

    Args:
        errors: what ingest found that cannot be trusted.
        before: pictures of the last accepted version, if there is one.
    """
    pictures = tables["pictures"]
    near = find_near_duplicates(pictures, config.near_distance)
    cases = {
        "errors_found": errors,
        "copies_across_splits": find_copies_across_splits(tables),
        "parts_across_splits": find_parts_across_splits(tables),
        **near.instances,
        "label_leaks": find_label_leaks(pictures, config),
        "box_labels_missing": find_missing_box_labels(tables),
        "no_training": _find_no_training(tables),
        "outliers": find_outliers(pictures, config.outlier_z),
        "drift": [] if before is None else find_drift(pictures, before, config),
    }
    instances = {f"set.{name}": found for name, found in cases.items()}
    instances |= _describe_set(tables) | _describe_classes(tables, config)
    counts: dict[str, float] = {name: len(found) for name, found in cases.items()}
    return Checked(instances, counts | {"near_share": near.share}, near.pairs)


def _describe_set(tables: Tables) -> dict[str, list[Instance]]:
    """What stands behind the numbers of the whole set."""
    pictures, quarantine, whole = tables["pictures"], tables["quarantine"], tables["set"].iloc[0]
    unlabelled = pictures.loc[pictures["label"] == "", "path"]
    classes = tables["classes"].sort_values("distinct", ascending=False)
    used = classes[classes["distinct"] > 0]
    names = ", ".join(used["id"]) or "none"
    rows: list[Any] = list(used.iloc[[0, -1]].itertuples()) if len(used) else []
    ends = " and ".join(f"{row.id} has {row.distinct}" for row in rows)
    return {
        "set.pictures": [Instance("", f"{whole['pictures']} picture(s)")],
        "set.classes": [Instance("", f"{len(used)} class(es) with pictures: {names}")],
        "set.imbalance": [Instance("", f"{ends} distinct pictures")],
        "set.box_imbalance": [Instance("", _compare_box_labels(tables["boxes"]))],
        "set.unlabelled": [Instance(path, f"{path} has no label") for path in unlabelled],
        "set.duplicate_share": find_copies(pictures),
        "set.quarantined_share": _list_left_out(quarantine, whole_files=True),
        "set.left_out_share": _list_left_out(quarantine, whole_files=False),
    }


def _compare_box_labels(boxes: pd.DataFrame) -> str:
    counts = boxes.loc[boxes["label"] != "", "label"].value_counts()
    if counts.empty:
        return "no box bears a label"
    share = counts.iloc[0] / counts.iloc[-1]
    ends = f"{counts.index[0]} has {counts.iloc[0]} boxes, {counts.index[-1]} {counts.iloc[-1]}"
    return f"{ends}: {share:.1f} times as many"


def _find_no_training(tables: Tables) -> list[Instance]:
    if not tables.splits or "train" in tables.splits:
        return []
    return [Instance("", f"pictures are given to {' and '.join(tables.splits)}, none to train")]


def _list_left_out(quarantine: pd.DataFrame, whole_files: bool) -> list[Instance]:
    is_missed = ~quarantine["reason"].isin(MEANT)
    is_wanted = is_missed & ((quarantine["place"] == "") == whole_files)
    rows: list[Any] = list(quarantine[is_wanted].itertuples())
    return [
        Instance(row.path, f"{row.path} {row.place} ({row.reason})".replace("  ", " "), row.place)
        for row in rows
    ]


def _describe_classes(tables: Tables, config: ValidateConfig) -> dict[str, list[Instance]]:
    rows: list[Any] = list(tables["classes"].itertuples())
    return {
        "classes.distinct_parts": [
            Instance(
                "",
                f"{row.id} has {row.pictures} picture(s), {row.distinct} distinct, of "
                f"{row.parts} part(s)",
            )
            for row in rows
            if row.distinct_parts < config.min_per_class
        ],
        "classes.missing_from": [
            Instance("", f"{row.id} has no picture in {split} ({row.pictures} in all)")
            for row in rows
            for split in row.lacks.split()
        ],
    }
