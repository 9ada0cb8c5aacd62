"""Packing: each picture is read, checked, decoded and cleaned once, and its windows are written.

Knows plans, pixels and files, and nothing of labels.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from enginehouse.artifact import Source, Workspace
from enginehouse.errors import DataError
from enginehouse.parallel import map_in_order
from enginehouse.picture import decode_picture, resize_picture
from enginehouse.preparation import Preparation, Window
from enginehouse.prepare.shards import cut_shards
from enginehouse.prepare.split import SPLITS
from enginehouse.prepare.windows import Plan
from enginehouse.prepared_picture import clean_picture, resize_windows

CHUNK_BYTES = 32 << 20  # of packed windows that travel together from a worker


class Job(NamedTuple):
    """One picture to pack: its path, MD5, size after cleaning, and the windows to cut."""

    path: str
    md5: str
    size: tuple[int, int]
    cuts: tuple[Window, ...]


class Packed(NamedTuple):
    """One picture, packed.

    Attributes:
        pictures: uint8 [windows, 3, size, size], RGB.
        levels: how often each value occurs in them, int64 [3, 256].
        flags: what cleaning did not touch, one sentence each.
        change: mean change by cleaning, of the values' range.
    """

    pictures: NDArray[np.uint8]
    levels: NDArray[np.int64]
    flags: tuple[str, ...]
    change: float


@dataclass
class Shipment:
    """What came of packing.

    Attributes:
        names: of the shards, in the scratch folder.
        levels: how often each value occurs in training, int64 [3, 256].
        flagged: path and sentence of each picture that cleaning left as it is.
        changes: path to the mean change by cleaning.
    """

    names: list[str] = field(default_factory=list)
    levels: NDArray[np.int64] = field(default_factory=lambda: np.zeros((3, 256), np.int64))
    flagged: list[tuple[str, str]] = field(default_factory=list)
    changes: dict[str, float] = field(default_factory=dict)


def pack_pictures(
    plans: Sequence[Plan], source: Source, preparation: Preparation, here: Workspace
) -> Shipment:
    """Write the shards of all splits into the scratch folder, in the order of the plans.

    Raises:
        DataError: a picture changed since it was ingested.
    """
    picture_bytes = 3 * preparation.size**2
    jobs = [Job(p.path, p.md5, p.size, tuple(piece.cut for piece in p.pieces)) for p in plans]
    largest = picture_bytes * max((len(job.cuts) for job in jobs), default=1)
    packed = map_in_order(
        partial(pack_picture, source.folder, preparation),
        jobs,
        here.report,
        "packing",
        chunk=max(1, min(16, CHUNK_BYTES // largest)),
    )
    shipment = Shipment()
    for split in SPLITS:
        mine = [plan for plan in plans if plan.split == split]
        sizes = [len(plan.pieces) * picture_bytes for plan in mine]
        for number, shard in enumerate(cut_shards([plan.pixels for plan in mine], sizes)):
            name = f"{split}-{number:05}.npy"
            _write_shard(here.scratch / name, mine[shard], packed, preparation.size, shipment)
            shipment.names.append(name)
    return shipment


def _write_shard(
    path: Path, plans: Sequence[Plan], packed: Iterator[Packed], size: int, shipment: Shipment
) -> None:
    shape = (sum(len(plan.pieces) for plan in plans), 3, size, size)
    header = {"descr": "|u1", "fortran_order": False, "shape": shape}
    # Written, not mapped: a full disk then is an error, where a mapping would be killed.
    with path.open("wb") as stream:
        np.lib.format.write_array_header_1_0(stream, header)
        for plan in plans:
            made = next(packed)
            stream.write(made.pictures.data)
            if plan.split == "train":
                shipment.levels += made.levels
            shipment.flagged += [(plan.path, flag) for flag in made.flags]
            shipment.changes[plan.path] = made.change


def pack_picture(folder: Path, preparation: Preparation, job: Job) -> Packed:
    """Read, check, decode, clean, cut and resize one picture.

    Raises:
        DataError: its content is no longer what was ingested.
    """
    array = read_checked(folder, job.path, job.md5)
    cleaned, flags = clean_picture(array, preparation.clean)
    found = (cleaned.shape[1], cleaned.shape[0])
    assert found == job.size, f"{job.path}: planned {job.size}, cleaned to {found}"
    pictures = resize_windows(cleaned, job.cuts, preparation.size)
    change = measure_change(array, cleaned) if preparation.clean else 0.0
    return Packed(pictures, count_levels(pictures), flags, change)


def read_checked(folder: Path, path: str, md5: str) -> NDArray[np.uint8]:
    """Decode a picture of the data: uint8 [height, width, 3], RGB.

    Raises:
        DataError: its content is no longer what was ingested.
    """
    content = (folder / path).read_bytes()
    if hashlib.md5(content, usedforsecurity=False).hexdigest() != md5:
        raise DataError(
            f"{path} changed while the run was going on.",
            "Run again when nothing writes into the data folder.",
        )
    return decode_picture(BytesIO(content), path).array


def measure_change(before: NDArray[np.uint8], after: NDArray[np.uint8]) -> float:
    """Mean difference between two pictures seen at the same small size, 0 to 1."""
    small, clean = (resize_picture(array, 64).astype(np.int16) for array in (before, after))
    return round(float(np.abs(small - clean).mean()) / 255, 6)


def count_levels(pictures: NDArray[np.uint8]) -> NDArray[np.int64]:
    """How often each value occurs per channel of uint8 [n, 3, size, size]: int64 [3, 256]."""
    levels = np.zeros((3, 256), np.int64)
    for picture in pictures:  # one by one: bincount widens what it counts to eight bytes each
        for channel in range(3):
            levels[channel] += np.bincount(picture[channel].ravel(), minlength=256)
    return levels


def measure_channels(
    levels: NDArray[np.int64],
) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    """Mean and standard deviation per channel, on the 0..1 scale.

    Taken from counts of whole numbers, so the result is the same on every machine.

    Args:
        levels: how often each value occurs, int64 [3, 256].
    """
    values = np.arange(256)
    total = levels.sum(axis=1)
    mean = (levels * values).sum(axis=1) / total
    variance = (levels * values**2).sum(axis=1) / total - mean**2
    std = np.sqrt(np.maximum(variance, 1.0))  # at least one grey level, so a flat set divides well
    r, g, b = (round(float(x) / 255, 6) for x in mean)
    sr, sg, sb = (round(float(x) / 255, 6) for x in std)
    return (r, g, b), (sr, sg, sb)
