"""The pictures of a pack on disk: shards of plain .npy, mapped by whoever reads them.

Why .npy: every tool of the field reads it, its rows lie at fixed places, so any row is read
without touching another, and all readers share the operating system's page cache.

Why several per split: files stay at a size that moves and checks well, and the store keeps a
shard only once that is the same in two versions of the data. For that, where a shard ends must
depend on the pictures around that place, not on how many lie before it: the rows are in the order
of their paths, and a shard ends after a picture whose digest says so. A new picture then changes
the shard that it falls into, and few others if any.

A pack takes the space of its raw pixels, and of the index.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from enginehouse.artifact import Workspace
from enginehouse.prepare.record import Pack

SHARD_BYTES = 64 << 20  # of a shard, about; none exceeds twice as much by more than a picture
MAX_SHARDS = 256  # of a split, about; beyond, they grow: each that is mapped holds a descriptor


class PackedPictures:
    """The pictures of one split, uint8 [n, 3, size, size], RGB, mapped from their shards.

    Rows are asked for as of an array. Sent to another process, it takes along where the shards
    lie, not what is in them.

    Args:
        paths: of the shards, in order.
        size: side of the pictures, in pixels.
    """

    def __init__(self, paths: Sequence[Path], size: int) -> None:
        self.paths = tuple(paths)
        self.shards: list[NDArray[np.uint8]] = [np.load(path, mmap_mode="r") for path in paths]
        self.starts = np.cumsum([0, *(len(shard) for shard in self.shards)])
        self.shape = (int(self.starts[-1]), 3, size, size)

    def __reduce__(self) -> tuple[Any, ...]:
        """What pickle sends: how to open the shards again."""
        return type(self), (self.paths, self.shape[-1])

    def __len__(self) -> int:
        """How many rows there are."""
        return self.shape[0]

    def __getitem__(self, rows: int | slice | NDArray[np.int64]) -> NDArray[np.uint8]:
        """One row, uint8 [3, size, size], or some in the order asked for, [n, 3, size, size].

        Raises:
            IndexError: there is no such row.
        """
        if isinstance(rows, int | np.integer):
            one: NDArray[np.uint8] = self[np.array([rows])][0]
            return one
        if isinstance(rows, slice):
            rows = np.arange(*rows.indices(len(self)))
        if len(rows) and not (rows.min() >= 0 and rows.max() < len(self)):
            raise IndexError(f"rows {rows.min()} to {rows.max()} of {len(self)}")
        picked = np.empty((len(rows), *self.shape[1:]), np.uint8)
        shards = np.searchsorted(self.starts, rows, side="right") - 1
        for place, (row, shard) in enumerate(zip(rows, shards, strict=True)):
            picked[place] = self.shards[shard][row - self.starts[shard]]
        return picked

    def __iter__(self) -> Iterator[NDArray[np.uint8]]:
        """Row by row, as they lie in the mapping."""
        for shard in self.shards:
            yield from shard


def open_pictures(pack: Pack, split: str, here: Workspace) -> PackedPictures:
    """Map the pictures of one split (`train`, `val`, `test`); it may hold none.

    Raises:
        StoreError: the pack's bytes are gone or changed.
    """
    names = sorted(name for name in pack.files if name.startswith(f"{split}-"))
    return PackedPictures([here.path(pack, name) for name in names], pack.size)


def cut_shards(digests: Sequence[str], num_bytes: Sequence[int]) -> list[slice]:
    """Which pictures of a split go into one shard.

    A shard ends after a picture with a chance of its bytes over the wanted ones, drawn from its
    digest; and at twice the wanted bytes in any case.

    Args:
        digests: SHA-256 (hex) of each picture's pixels, in the order of the rows.
        num_bytes: what each takes in the pack.
    """
    wanted = SHARD_BYTES
    while sum(num_bytes) > wanted * MAX_SHARDS:  # doubling moves ends only where data doubles
        wanted *= 2
    shards, start, filled = [], 0, 0
    for place, (digest, size) in enumerate(zip(digests, num_bytes, strict=True), start=1):
        filled += size
        if int(digest[:12], 16) / 16**12 < size / wanted or filled >= 2 * wanted:
            shards.append(slice(start, place))
            start, filled = place, 0
    if start < len(digests):
        shards.append(slice(start, len(digests)))
    return shards
