"""The same pixels under different labels: nobody can say which of them is right."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from enginehouse.ingest.tables import iter_rows
from enginehouse.labels import LeftOut

Said = tuple[str, ...]


def find_conflicts(described: Path, label: Callable[[str], Said]) -> list[LeftOut]:
    """All pictures of which an exact copy bears another label.

    Args:
        described: table with the columns `path` and `pixels`.
        label: what is said of the picture with this path.
    """
    return tell_conflicts(find_copies(described, label), label)


def find_copies(described: Path, label: Callable[[str], Said]) -> list[list[str]]:
    """Paths of the same pixels of which not the same is said; arguments as above."""
    digests = bytearray()  # 32 bytes per picture are all that is kept of it
    codes: list[int] = []
    known: dict[Said, int] = {}
    for path, pixels in iter_rows(described, ["path", "pixels"]):
        digests += bytes.fromhex(pixels)
        codes.append(known.setdefault(label(path), len(known)))
    groups = _group_conflicts(np.frombuffer(bytes(digests), "S32"), codes)
    wanted = {row for group in groups for row in group}
    if not wanted:
        return []
    paths = {
        row: path for row, (path,) in enumerate(iter_rows(described, ["path"])) if row in wanted
    }
    return [[paths[row] for row in group] for group in groups]


def _group_conflicts(
    digests: np.ndarray[tuple[int], np.dtype[np.bytes_]], codes: list[int]
) -> list[list[int]]:
    """Rows with the same digest and more than one code."""
    order = np.argsort(digests, kind="stable")
    ordered = digests[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(ordered) else order
    groups = (group.tolist() for group in np.split(order, starts[1:]) if len(group) > 1)
    return [group for group in groups if len({codes[row] for row in group}) > 1]


def tell_conflicts(copies: Iterable[list[str]], label: Callable[[str], Said]) -> list[LeftOut]:
    """None of these is used; each row names the others."""
    return [
        _tell(path, [other for other in group if other != path], label)
        for group in copies
        for path in group
    ]


def _tell(path: str, others: list[str], label: Callable[[str], Said]) -> LeftOut:
    named = ", ".join(f"{other} ({_show(label(other))})" for other in others[:5])
    more = f" and {len(others) - 5} more" if len(others) > 5 else ""
    detail = f"{path} ({_show(label(path))}) has the same pixels as {named}{more}: which label "
    return LeftOut(path, "label conflict", f"{detail}is right?")


def _show(said: Said) -> str:
    return ", ".join(dict.fromkeys(said))
