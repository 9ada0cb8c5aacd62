"""Prepare: drop repeats, split by part and content so nothing leaks, resize once, pack."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field

from enginehouse.artifact import Config, Source, Workspace
from enginehouse.errors import DataError
from enginehouse.ingest.record import DataVersion, Manifest
from enginehouse.picture import read_picture
from enginehouse.prepare.record import Pack
from enginehouse.prepare.split import SPLITS, assign_splits
from enginehouse.store import hash_file
from enginehouse.validate.record import Validated

if TYPE_CHECKING:
    import pandas as pd

LIBRARIES = ("numpy", "pandas", "pillow", "pyarrow")


class PrepareConfig(Config):
    """Size of the pictures and how they are split."""

    size: int = Field(
        128, ge=16, le=1024, multiple_of=8, description="Side of the square input in pixels."
    )
    val_share: float = Field(0.15, gt=0, lt=0.5, description="Share of parts for validation.")
    test_share: float = Field(0.15, gt=0, lt=0.5, description="Share of parts for the test.")
    seed: int = Field(0, ge=0, description="Seed of the split.")


def prepare(
    data: DataVersion,
    manifest: Manifest,
    validated: Validated,
    config: PrepareConfig,
    here: Workspace,
) -> Pack:
    """Split and pack the accepted pictures.

    Raises:
        DataError: the manifest was not let through, a class cannot be split, or a picture
            changed since it was ingested.
    """
    import pandas as pd

    if validated.manifest != manifest.identity or validated.failures:
        raise DataError("This manifest was not let through.", "Mend the data and run again.")
    table = pd.read_parquet(here.path(manifest, "manifest.parquet"))
    kept = table.drop_duplicates("pixels").reset_index(drop=True)
    kept["split"] = assign_splits(kept, config.val_share, config.test_share, config.seed)
    kept["class_index"] = kept["label"].map(manifest.classes.index)
    source = here.source(data.digest)
    index = []
    for split in SPLITS:
        rows = kept[kept["split"] == split].reset_index(drop=True)
        _pack_pictures(source, rows, config.size, here.scratch / f"{split}.npy", here)
        index.append(rows.assign(row=range(len(rows))))
    columns = ["split", "row", "path", "label", "class_index", "part"]
    pd.concat(index)[columns].to_parquet(here.scratch / "index.parquet", index=False)
    mean, std = measure_channels(here.scratch / "train.npy")
    return Pack(
        files=here.seal([*(f"{split}.npy" for split in SPLITS), "index.parquet"]),
        notes={"dropped_duplicates": _list_repeats(table)},
        classes=manifest.classes,
        size=config.size,
        counts={split: int((kept["split"] == split).sum()) for split in SPLITS},
        mean=mean,
        std=std,
    )


def _pack_pictures(
    source: Source, rows: pd.DataFrame, size: int, path: Path, here: Workspace
) -> None:
    header = {"descr": "|u1", "fortran_order": False, "shape": (len(rows), 3, size, size)}

    def read(row: Any) -> np.ndarray[Any, Any]:
        file = source.folder / row.path
        if hash_file(file, "md5") != row.md5:
            raise DataError(
                f"{row.path} changed while the run was going on.",
                "Run again when nothing writes into the data folder.",
            )
        return read_picture(file, size)

    # Written, not mapped: a full disk then is an error, where a mapping would be killed.
    with ThreadPoolExecutor() as pool, path.open("wb") as stream:
        np.lib.format.write_array_header_1_0(stream, header)
        for done, picture in enumerate(pool.map(read, rows.itertuples(index=False)), start=1):
            stream.write(picture.tobytes())
            here.report(f"packing {path.stem}", done, len(rows))


def measure_channels(
    path: Path,
) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    """Mean and standard deviation per channel of a packed array, on the 0..1 scale.

    Taken from a histogram of whole numbers, so the result is the same on every machine.
    """
    pack = np.load(path, mmap_mode="r")
    counts = np.zeros((3, 256), np.int64)
    for picture in pack:
        for channel in range(3):
            counts[channel] += np.bincount(picture[channel].ravel(), minlength=256)
    levels = np.arange(256)
    total = counts.sum(axis=1)
    mean = (counts * levels).sum(axis=1) / total
    variance = (counts * levels**2).sum(axis=1) / total - mean**2
    std = np.sqrt(np.maximum(variance, 1.0))  # at least one grey level, so a flat set divides well
    r, g, b = (round(float(x) / 255, 6) for x in mean)
    sr, sg, sb = (round(float(x) / 255, 6) for x in std)
    return (r, g, b), (sr, sg, sb)


def _list_repeats(table: pd.DataFrame) -> list[Any]:
    first = table.groupby("pixels")["path"].transform("first")
    repeats = table.duplicated("pixels")
    return [list(pair) for pair in zip(table["path"][repeats], first[repeats], strict=True)]
