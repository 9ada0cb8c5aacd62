"""The tables that are judged: one row per picture, per class, and one for the whole set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


def make_tables(files: Mapping[str, Path], labels: Sequence[str]) -> dict[str, pd.DataFrame]:
    """Tables by name, each with its id in the column `id`.

    Args:
        files: the manifest's files by name.
        labels: all classes, also those of which no picture could be used.
    """
    import pandas as pd

    pictures = pd.read_parquet(files["manifest.parquet"]).rename(columns={"path": "id"})
    quarantine = pd.read_parquet(files["quarantine.parquet"]).rename(columns={"path": "id"})
    junk = int((quarantine["reason"] == "junk").sum())
    labels_of = pictures.groupby("pixels")["label"].agg(
        lambda labels: "|".join(sorted(set(labels)))
    )
    pictures["labels_of_content"] = pictures["pixels"].map(labels_of).str.count(r"\|") + 1
    classes = pictures.groupby("label").agg(
        pictures=("id", "size"), distinct=("pixels", "nunique"), parts=("part", "nunique")
    )
    classes = classes.reindex(list(labels), fill_value=0)
    count = len(pictures) + len(quarantine) - junk
    whole = {
        "id": "data set",
        "pictures": len(pictures),
        "classes": len(classes),
        "quarantined_share": (len(quarantine) - junk) / count,
        "duplicate_share": 1 - pictures["pixels"].nunique() / len(pictures),
        "imbalance": classes["distinct"].max() / max(1, classes["distinct"].min()),
    }
    return {
        "pictures": pictures,
        "classes": classes.rename_axis("id").reset_index(),
        "set": pd.DataFrame([whole]),
        "quarantine": quarantine,
    }
