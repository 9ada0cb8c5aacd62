"""The MD5s of files, with a memory that spares unchanged files the reading.

Knows nothing of DVC. The memory can never change a result: it believes a file unchanged only
when size, times, inode and device are what they were, and forgets files that were touched so
shortly before they were read that a later change could bear the same time.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from enginehouse.errors import DataError
from enginehouse.store import hash_file, no_room

SETTLED_NS = 2_000_000_000  # coarser than the time stamps of any file system in use
MANY = 5000  # files to read from which on it is worth a line


def hash_files(
    folder: Path, files: Iterable[str], memory: Path, report: Callable[[str], object]
) -> dict[str, str]:
    """MD5 (hex) of each file.

    Args:
        folder: absolute.
        files: relative POSIX paths.
        memory: a folder of this function's own; several processes may share it.
        report: gets a line when there is much to read.

    Raises:
        DataError: a file cannot be read, or is no regular file.
        StoreError: no room for the memory.
    """
    file = memory / f"{hashlib.md5(os.fsencode(folder)).hexdigest()}.json"
    known = _recall(file)
    stamps = {path: _stamp(folder, path) for path in files}
    stale = [path for path, stamp in stamps.items() if known.get(path, ["", ""])[0] != stamp]
    if len(stale) > MANY:
        report(f"data: reading {len(stale)} new or changed files in {folder}")
    with ThreadPoolExecutor() as pool:
        fresh = dict(zip(stale, pool.map(lambda path: _hash(folder, path), stale), strict=True))
    listing = {path: fresh.get(path) or known[path][1] for path in stamps}
    kept = {
        path: [stamp, listing[path]]
        for path, stamp in stamps.items()
        if path not in fresh or _is_settled(folder, path, stamp)
    }
    if kept != known:
        memory.mkdir(parents=True, exist_ok=True)
        draft = file.with_suffix(f".{os.getpid()}")
        with no_room(memory):
            draft.write_text(json.dumps(kept), encoding="utf-8")
            draft.replace(file)
    return listing


def list_changes(before: dict[str, str], after: dict[str, str]) -> str:
    """What differs between two listings, naming a few files of each kind."""
    gone = {path: md5 for path, md5 in before.items() if path not in after}
    new = {path: md5 for path, md5 in after.items() if path not in before}
    homes = {md5: path for path, md5 in new.items()}
    moved = {path: homes[md5] for path, md5 in gone.items() if md5 in homes}
    kinds = {
        "changed": [path for path in after if path in before and after[path] != before[path]],
        "moved": [f"{path} -> {target}" for path, target in moved.items()],
        "new": [path for path in new if path not in moved.values()],
        "gone": [path for path in gone if path not in moved],
    }
    return "; ".join(
        f"{len(paths)} {kind} ({', '.join(paths[:3])}{', ...' if len(paths) > 3 else ''})"
        for kind, paths in kinds.items()
        if paths
    )


def _recall(file: Path) -> dict[str, list[str]]:
    with contextlib.suppress(OSError, ValueError):  # no memory: everything is read
        known = json.loads(file.read_text(encoding="utf-8"))
        if isinstance(known, dict):
            return known
    return {}


def _stamp(folder: Path, path: str) -> str:
    try:
        status = (folder / path).stat()
    except OSError as error:
        raise DataError(
            f"{path} in {folder} cannot be read: {error.strerror}.",
            "Give this user the right to read it, or remove it.",
        ) from error
    if not (folder / path).is_file():
        raise DataError(f"{path} in {folder} is no regular file.", "Remove it.")
    return (
        f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} "
        f"{status.st_ino} {status.st_dev}"
    )


def _is_settled(folder: Path, path: str, stamp: str) -> bool:
    """Whether a file that was just read is still the same, and its times lie well in the past."""
    _, modified, changed, *_ = (int(part) for part in stamp.split())
    settled = max(modified, changed) + SETTLED_NS < time.time_ns()
    return settled and _stamp(folder, path) == stamp


def _hash(folder: Path, path: str) -> str:
    try:
        return hash_file(folder / path, "md5")
    except OSError as error:
        raise DataError(
            f"{path} in {folder} cannot be read: {error.strerror}.",
            "Give this user the right to read it, or remove it.",
        ) from error
