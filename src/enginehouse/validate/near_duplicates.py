"""Pictures that are nearly the same, by the bits of their perceptual hashes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from enginehouse.validate.instance import Instance

if TYPE_CHECKING:
    import pandas as pd

FLAT = 1.0  # contrast below which a hash is made of noise
KEPT = 5_000  # pairs of each kind that are kept; the others are counted
ENOUGH = 5_000_000  # pairs in all, after which the hashes tell nothing, and the search ends
BLOCK = (64, 16_384)  # hashes against hashes at once: the bits of a block fit the cache
KINDS = ("near_copies_across_splits", "near_copies_across_labels", "near_copies")


@dataclass
class NearDuplicates:
    """Pairs of pictures that are nearly the same.

    Attributes:
        pairs: data frame of a, b, distance, label_a, label_b, split_a, split_b; of each kind
            the first `KEPT`, nearest first.
        instances: by the check that they belong to.
        share: of pictures that are in any pair.
    """

    pairs: pd.DataFrame
    instances: dict[str, list[Instance]]
    share: float


@dataclass
class _Found:
    rows: list[NDArray[np.int64]] = field(default_factory=list)  # [pairs, 3]: a, b, distance
    count: int = 0
    kept: int = 0

    def add(self, rows: NDArray[np.int64]) -> None:
        self.count += len(rows)
        if kept := min(len(rows), KEPT - self.kept):
            self.kept += kept
            self.rows.append(rows[:kept].copy())


def find_near_duplicates(pictures: pd.DataFrame, distance: int) -> NearDuplicates:
    """Pairs whose hashes differ in at most `distance` of 64 bits.

    Every pair is compared, by exclusive or and a count of bits (Zauner, 2010, on perceptual
    hashes and their Hamming distance): a second for 50 000 pictures, in bounded memory. Where
    nearly all pictures are alike the search ends after `ENOUGH` pairs, and says so. Left out are
    exact copies, which are found by content; pictures of one part, which stay together; and
    flat pictures, whose hashes say nothing.

    Args:
        pictures: rows of the manifest.
        distance: largest number of bits that differ.
    """
    import pandas as pd

    hashed = pictures[(pictures["contrast"] >= FLAT) & (pictures["phash"] != "")]
    hashed = hashed.drop_duplicates(["pixels", "split", "label"]).reset_index(drop=True)
    found, num_paired = _compare(hashed, distance)
    tables = [_pair_up(hashed, found[kind]) for kind in KINDS]
    ended = sum(each.count for each in found.values()) > ENOUGH
    instances = {
        kind: _describe(kind, table, found[kind].count, ended)
        for kind, table in zip(KINDS, tables, strict=True)
    }
    share = num_paired / max(1, len(pictures))
    return NearDuplicates(pd.concat(tables, ignore_index=True), instances, share)


def _compare(hashed: pd.DataFrame, distance: int) -> tuple[dict[str, _Found], int]:
    """What is found of each kind, and how many pictures are in any pair."""
    import pandas as pd

    bits = np.array([int(text, 16) for text in hashed["phash"]], np.uint64)
    code: dict[str, Any] = {
        name: pd.factorize(hashed[name])[0] for name in ("pixels", "part", "split", "label")
    }
    found = {kind: _Found() for kind in KINDS}
    paired = np.zeros(len(bits), bool)
    height, width = BLOCK
    for top in range(0, len(bits), height):
        if sum(each.count for each in found.values()) > ENOUGH:
            break
        for left in range(top, len(bits), width):
            differ = np.bitwise_count(
                bits[top : top + height, None] ^ bits[None, left : left + width]
            )
            if not (near := differ <= distance).any():
                continue
            y, x = np.divmod(np.flatnonzero(near), near.shape[1])
            a, b = y + top, x + left
            real = (a < b) & (code["pixels"][a] != code["pixels"][b])
            real &= code["part"][a] != code["part"][b]
            rows = np.stack([a, b, differ[y, x]], axis=1)[real].astype(np.int64)
            paired[rows[:, :2]] = True
            across = code["split"][rows[:, 0]] != code["split"][rows[:, 1]]
            doubt = ~across & (code["label"][rows[:, 0]] != code["label"][rows[:, 1]])
            for kind, mask in zip(KINDS, (across, doubt, ~across & ~doubt), strict=True):
                found[kind].add(rows[mask])
    return found, int(paired.sum())


def _pair_up(hashed: pd.DataFrame, found: _Found) -> pd.DataFrame:
    import pandas as pd

    rows = np.concatenate(found.rows) if found.rows else np.empty((0, 3), np.int64)
    rows = rows[np.lexsort((rows[:, 1], rows[:, 0], rows[:, 2]))]
    a, b = (hashed.iloc[rows[:, side]].reset_index(drop=True) for side in (0, 1))
    columns: dict[str, Any] = {"a": a["path"], "b": b["path"], "distance": rows[:, 2]}
    for name in ("label", "split"):
        columns |= {f"{name}_a": a[name], f"{name}_b": b[name]}
    return pd.DataFrame(columns)


def _describe(kind: str, table: pd.DataFrame, count: int, ended: bool) -> list[Instance]:
    if not count:
        return []
    if kind == "near_copies":
        first = table.iloc[0]
        pictures = len(set(table["a"]) | set(table["b"]))
        words = f"{count} pair(s) of {pictures} picture(s)"
        if count > len(table):
            words = f"{count} pairs, of which {len(table)} are listed"
        if ended:
            words = f"at least {words}"
        return [Instance(first["b"], f"{words}, first {first['a']} and {first['b']}")]
    rows: list[Any] = list(table.itertuples(index=False))
    found = [
        Instance(
            row.b,
            f"{row.a}{_aside(row.label_a, row.split_a)} and "
            f"{row.b}{_aside(row.label_b, row.split_b)} differ in {row.distance} of 64 bits of "
            "their hashes",
        )
        for row in rows
    ]
    if count > len(found):
        least = "at least " if ended else ""
        more = f"{least}{count - len(found)} further pairs, which are not listed"
        found.append(Instance("", more))
    return found


def _aside(label: str, split: str) -> str:
    words = " ".join(filter(None, (label, f"in {split}" if split else "")))
    return f" ({words})" if words else ""
