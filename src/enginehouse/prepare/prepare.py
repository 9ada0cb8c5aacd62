"""Prepare: drop repeats, split by part and content so nothing leaks, clean, cut, resize, pack."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from enginehouse.artifact import Workspace
from enginehouse.choices import load_choice
from enginehouse.errors import DataError
from enginehouse.ingest.record import DataVersion, Manifest
from enginehouse.prepare.config import PrepareConfig
from enginehouse.prepare.folds import assign_fold
from enginehouse.prepare.pack import measure_channels, pack_pictures
from enginehouse.prepare.pairs import draw_pairs
from enginehouse.prepare.record import Pack
from enginehouse.prepare.split import SPLITS, assign_splits, drop_repeats
from enginehouse.prepare.windows import (
    add_facts,
    list_shown,
    list_window_classes,
    make_index,
    make_window_rule,
    plan_pictures,
    plan_windows,
)
from enginehouse.validate.record import Validated

if TYPE_CHECKING:
    import pandas as pd

LIBRARIES = ("loky", "numpy", "opencv-python-headless", "pandas", "pillow", "pyarrow")
NUM_NAMED = 5


def prepare(
    data: DataVersion,
    manifest: Manifest,
    validated: Validated,
    config: PrepareConfig,
    here: Workspace,
) -> Pack:
    """Split and pack the accepted pictures.

    Raises:
        DataError: the manifest was not let through, a picture has no label, a class cannot be
            split, tiles are wanted without boxes, or a picture changed since it was ingested.
        RecipeError: tiles are wanted where a picture may bear several labels.
    """
    import pandas as pd

    config.check_problem(manifest.problem)
    if validated.manifest != manifest.identity or validated.failures:
        raise DataError("This manifest was not let through.", "Mend the data and run again.")
    table = pd.read_parquet(here.path(manifest, "manifest.parquet"))
    boxes = pd.read_parquet(here.path(manifest, "boxes.parquet"))
    boxes = boxes[boxes["label"] != manifest.good].reset_index(drop=True)  # only defects
    _check_labels(table, manifest.classes)
    several = load_choice("problems", manifest.problem).SEVERAL_LABELS
    if several:
        table["classes"] = table["labels"]
    kept = drop_repeats(table, config)
    kept["split"] = (assign_fold if config.folds else assign_splits)(kept, config)
    preparation = config.make_preparation(manifest.good)
    classes = manifest.classes
    if config.tiles:
        rule = make_window_rule(manifest, boxes)
        classes = list_window_classes(rule, boxes)
        plans = plan_windows(kept, boxes, rule, preparation, config.tiles)
    else:
        plans = plan_pictures(kept, preparation)
    plans.sort(key=lambda plan: (SPLITS.index(plan.split), plan.path))
    index = make_index(plans, classes, tiled=config.tiles is not None)
    if several:
        index["class_indices"] = _list_indices(index, kept, classes)
    _check_training(index, classes)

    source = here.source(data.digest)
    shipment = pack_pictures(plans, source, preparation, here)
    pairs: list[Any] = []
    if config.clean:
        pairs = draw_pairs(plans, shipment.changes, source, preparation, here)
    index = add_facts(index, kept)
    index.to_parquet(here.scratch / "index.parquet", index=False)
    if config.tiles:
        list_shown(plans, boxes).to_parquet(here.scratch / "boxes.parquet", index=False)
    tables = ["index.parquet", *(["boxes.parquet"] if config.tiles else ())]
    mean, std = measure_channels(shipment.levels)
    return Pack(
        files=here.seal([*tables, *shipment.names]),
        reports=here.seal([pair["file"] for pair in pairs]),
        notes={
            "dropped_duplicates": _list_repeats(table, kept),
            "pictures": dict(Counter(plan.split for plan in plans)),
            "cleaning": pairs,
            "flagged": [list(row) for row in shipment.flagged],
        },
        problem=manifest.problem,
        classes=classes,
        preparation=preparation,
        min_visible=config.tiles.min_visible if config.tiles else 0.0,
        counts={split: int((index["split"] == split).sum()) for split in SPLITS},
        mean=mean,
        std=std,
    )


def _check_labels(table: pd.DataFrame, classes: tuple[str, ...]) -> None:
    """Every picture has a class: one without would be trained on as something, or go missing."""
    if strangers := table["path"][~table["label"].isin(classes)].tolist():
        raise DataError(
            f"{len(strangers)} picture(s) have no label among {', '.join(classes)}: "
            f"{', '.join(strangers[:NUM_NAMED])}{', ...' if len(strangers) > NUM_NAMED else ''}.",
            "Label them, or take them out of the data.",
        )


def _list_indices(
    index: pd.DataFrame, table: pd.DataFrame, classes: tuple[str, ...]
) -> list[list[int]]:
    """All classes of the picture in each row, as indices."""
    number_of = {label: number for number, label in enumerate(classes)}
    labels_of = dict(zip(table["path"], table["classes"], strict=True))
    return [sorted(number_of[label] for label in labels_of[path]) for path in index["path"]]


def _check_training(index: pd.DataFrame, classes: tuple[str, ...]) -> None:
    """A class that is not in training could never be told."""
    borne = index["class_indices"].explode() if "class_indices" in index else index["class_index"]
    learnt = set(borne[(index["split"] == "train")[borne.index]])
    if missing := [label for number, label in enumerate(classes) if number not in learnt]:
        raise DataError(
            f"Nothing of {', '.join(missing)} is in training.",
            "Add such pictures, in other parts than those in val and test; or take the class out. "
            "With prepare.tiles, a lower min_visible or larger windows show more of each box; and "
            "with ingest.image_class any_box all defects are one class.",
        )


def _list_repeats(table: pd.DataFrame, kept: pd.DataFrame) -> list[Any]:
    """Each dropped picture with the one that is kept for it."""
    kept_for = dict(zip(kept["pixels"], kept["path"], strict=True))
    pairs = [
        [path, kept_for[pixels]]
        for path, pixels in zip(table["path"], table["pixels"], strict=True)
    ]
    return [pair for pair in pairs if pair[0] != pair[1]]
