"""The store: bytes by content digest, an index of records by key, locks, the journal.

The index is the one authority on what was computed (see docs/adr). Knows nothing of stages.
Everything is written under a temporary name, flushed and renamed, so a killed process leaves
no half-written object or entry; locks are flock(2), so they die with their process.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict

from enginehouse.errors import StoreError

PARTS = "parts.json"  # in a folder to go on from: what its key is made of


class Blob(BaseModel):
    """Digest (SHA-256, hex) and size in bytes of one stored file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sha256: str
    size: int


def hash_file(path: Path, algorithm: str = "sha256") -> str:
    """Hex digest of a file's content."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, algorithm).hexdigest()


@contextlib.contextmanager
def no_room(root: Path) -> Iterator[None]:
    """Turn a full disk into an error that names the folder and the room that is left."""
    try:
        yield
    except Exception as error:  # libraries have types of their own for it, with the same words
        full = getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT)
        if not full and os.strerror(errno.ENOSPC) not in str(error):
            raise
        free = shutil.disk_usage(root).free / 2**20
        raise StoreError(
            f"No room left on the disk that holds {root} ({free:.0f} MiB free).",
            "Free some space, or set ENGINEHOUSE_STORE to a folder on a larger disk; "
            "then run again: finished stages are kept.",
        ) from error


class Store:
    """A folder that may be shared by several processes and checkouts."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        for name in ("objects", "index", "locks", "scratch", "memory"):
            (self.root / name).mkdir(parents=True, exist_ok=True)

    def blob_path(self, blob: Blob) -> Path:
        """Where a blob lies; says nothing about whether it is there."""
        return self.root / "objects" / blob.sha256[:2] / blob.sha256[2:]

    def find_fault(self, blob: Blob) -> str | None:
        """Why a blob cannot be used (`is missing ...`, `is corrupt ...`), or None."""
        path = self.blob_path(blob)
        if not path.is_file():
            return f"is missing in the store (object {blob.sha256[:12]})"
        if path.stat().st_size != blob.size or hash_file(path) != blob.sha256:
            return f"is corrupt in the store (object {blob.sha256[:12]})"
        return None

    def seal(self, path: Path) -> Blob:
        """Move a file into the store; a corrupt object of the same digest is replaced."""
        with no_room(self.root):
            blob = Blob(sha256=hash_file(path), size=path.stat().st_size)
            final = self.blob_path(blob)
            final.parent.mkdir(exist_ok=True)
            with path.open("rb") as stream:
                os.fsync(stream.fileno())
            path.chmod(0o444)
            path.replace(final)
            return blob

    def write_text(self, path: Path, text: str) -> None:
        """Write a small file so that a reader sees the old text or the new, never half."""
        with no_room(self.root):
            path.parent.mkdir(parents=True, exist_ok=True)
            draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
            with draft.open("w", encoding="utf-8") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            draft.replace(path)

    def record_path(self, stage: str, key: str) -> Path:
        """Where the index keeps the record of a key."""
        return self.root / "index" / stage / f"{key}.json"

    def memo_path(self, code: str) -> Path:
        """Where what code with this digest computed of single files is remembered."""
        return self.root / "memo" / f"{code}.sqlite"

    def _lock_path(self, key: str) -> Path:
        return self.root / "locks" / f"{key}.lock"

    @contextlib.contextmanager
    def lock(self, key: str, waiting: Callable[[], None]) -> Iterator[None]:
        """Hold the lock of a key; `waiting` is called once if another process holds it."""
        lock = FileLock(self._lock_path(key))
        try:
            lock.acquire(timeout=0)
        except Timeout:
            waiting()
            lock.acquire()
        try:
            yield
        finally:
            lock.release()

    @contextlib.contextmanager
    def open_scratch(self, key: str) -> Iterator[Path]:
        """An empty folder for the holder of a key's lock; what a killed one left is removed."""
        folder = self.root / "scratch" / key
        shutil.rmtree(folder, ignore_errors=True)
        with no_room(self.root):
            folder.mkdir()
            try:
                yield folder
            finally:
                shutil.rmtree(folder, ignore_errors=True)

    def resumable_path(self, slot: str, key: str) -> Path:
        """The folder from which a rerun of a key in this place goes on; its lock guards it."""
        return self.root / "resumable" / slot.replace("/", ".") / key

    @contextlib.contextmanager
    def open_resumable(self, slot: str, key: str, parts: dict[str, Any]) -> Iterator[Path]:
        """That folder, with what its key is made of written into it; goes again if left empty."""
        folder = self.resumable_path(slot, key)
        self.write_text(folder / PARTS, json.dumps(parts, sort_keys=True))
        try:
            yield folder
        finally:
            if folder.is_dir() and _is_empty(folder):
                shutil.rmtree(folder, ignore_errors=True)

    def list_unfinished(self, slot: str, key: str) -> list[Any]:
        """What the other keys are made of that left something to go on from in this place."""
        found = []
        for folder in self._list_others(slot, key):
            with contextlib.suppress(OSError, ValueError, Timeout), self._hold(folder):
                if not _is_empty(folder):
                    found.append(json.loads((folder / PARTS).read_text(encoding="utf-8")))
        return found

    def drop_resumable(self, slot: str, key: str, others: bool) -> None:
        """Remove the folder of a key, whose lock is held here.

        Args:
            others: also those of other keys in this place, unless somebody works on them.
        """
        shutil.rmtree(self.resumable_path(slot, key), ignore_errors=True)
        for folder in self._list_others(slot, key) if others else ():
            with contextlib.suppress(Timeout), self._hold(folder):
                shutil.rmtree(folder, ignore_errors=True)

    def _hold(self, folder: Path) -> AbstractContextManager[Any]:
        """The lock of a folder's key; raises Timeout if somebody has it."""
        return FileLock(self._lock_path(folder.name)).acquire(timeout=0)

    def _list_others(self, slot: str, key: str) -> list[Path]:
        own = self.resumable_path(slot, key)
        if not own.parent.is_dir():
            return []
        return sorted(folder for folder in own.parent.iterdir() if folder != own)

    def append_journal(self, **line: Any) -> None:
        """Append one line to the journal of executions (one write, so lines never mix)."""
        text = json.dumps({**line, "pid": os.getpid()}, sort_keys=True) + "\n"
        with no_room(self.root), (self.root / "journal.jsonl").open("a") as stream:
            stream.write(text)

    def remember(self, name: str, value: Any) -> None:
        """Keep a small JSON value that explains things later (never used to decide a hit)."""
        self.write_text(self.root / "memory" / f"{name}.json", json.dumps(value, sort_keys=True))

    def recall(self, name: str) -> Any:
        """What was remembered under a name, or None (also when it cannot be read)."""
        with contextlib.suppress(OSError, ValueError):
            return json.loads((self.root / "memory" / f"{name}.json").read_text())
        return None


def _is_empty(folder: Path) -> bool:
    """Whether a folder to go on from holds nothing to go on from."""
    return all(each.name == PARTS for each in folder.iterdir())
