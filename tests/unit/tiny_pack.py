"""A pack that a tiny network learns in seconds, and the records that are made from it.

Each picture is grey noise with a band; the band's colour is the class.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from enginehouse.artifact import Report, Workspace, silent
from enginehouse.preparation import Preparation
from enginehouse.prepare.record import Pack
from enginehouse.store import Store
from enginehouse.train.config import TrainConfig
from enginehouse.train.record import TrainedModel
from enginehouse.train.train import train

SIZE = 32
CLASSES = ("red", "green", "blue")
TINY = {"family": "tiny", "name": "tiny_cnn"}


def open_workspace(folder: Path, report: Report = silent) -> Workspace:
    """A workspace with a fresh scratch folder, over the store in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    scratch = folder / f"scratch{len(list(folder.glob('scratch*')))}"
    scratch.mkdir()
    return Workspace(Store(folder / "store"), scratch, report)


def draw(labels: Sequence[int], seed: int) -> NDArray[np.uint8]:
    """uint8 [n, 3, 32, 32] of these classes."""
    rng = np.random.default_rng(seed)
    pictures = rng.integers(90, 150, (len(labels), 3, SIZE, SIZE))
    for picture, label in zip(pictures, labels, strict=True):
        top = rng.integers(2, 24)
        picture[label, top : top + 5, 4:28] += 70
    return pictures.astype(np.uint8)


def seal_pack(
    folder: Path,
    train_labels: Sequence[int] = (0, 1, 2) * 24,
    val_labels: Sequence[int] = (0, 1, 2) * 8,
    **fields: Any,
) -> Pack:
    """A pack with these labels in its splits; `fields` replace those of the record."""
    here = open_workspace(folder)
    splits = {"train": train_labels, "val": val_labels, "test": (0, 1, 2)}
    rows = []
    for seed, (split, labels) in enumerate(splits.items()):
        np.save(here.scratch / f"{split}-00000.npy", draw(labels, seed))
        rows += [
            {
                "split": split,
                "row": row,
                "path": f"{split}-{row}.png",
                "label": CLASSES[label],
                "class_index": label,
                "part": f"{split}-{row}",
            }
            for row, label in enumerate(labels)
        ]
    columns = ["split", "row", "path", "label", "class_index", "part"]
    # Not in the order of the arrays: readers have to go by `row`.
    pd.DataFrame(rows[::-1], columns=columns).to_parquet(here.scratch / "index.parquet")
    usual = {
        "classes": CLASSES,
        "preparation": Preparation(size=SIZE),
        "counts": {split: len(labels) for split, labels in splits.items()},
        "mean": (0.48, 0.48, 0.48),
        "std": (0.09, 0.09, 0.09),
    }
    return Pack(
        files=here.seal(["index.parquet", *(f"{split}-00000.npy" for split in splits)]),
        **{**usual, **fields},
    )


def tiny_config(**fields: Any) -> TrainConfig:
    return TrainConfig.model_validate(
        {"model": TINY, "epochs": 3, "batch_size": 16, "precision": "fp32", **fields}
    )


def train_tiny(folder: Path, pack: Pack, **fields: Any) -> TrainedModel:
    return train(pack, tiny_config(**fields), open_workspace(folder))
