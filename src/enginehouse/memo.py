"""What was computed of single files, by the MD5 of their content. It can never change a result.

A memo belongs to the code that filled it: other code has another one. What is in it is believed
only with its checksum; what cannot be read is as if it were not there. Several processes may use
one memo. Knows nothing of what is remembered.
"""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

Answer = TypeVar("Answer")

WAIT = 30.0  # seconds for another process to finish writing
AT_ONCE = 500  # keys in one question: SQLite has a limit


# The file itself is whole: another process holds it for long, or nothing can be written here.
WHOLE = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
}


class Memo:
    """One SQLite file: MD5 of a content to a short text.

    Args:
        path: of the file; made when something is put into it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def get_many(self, md5s: Iterable[str]) -> dict[str, str]:
        """What is remembered of these contents; those of which nothing is are left out."""
        wanted = list(md5s)

        def get(database: sqlite3.Connection) -> dict[str, str]:
            found: dict[str, str] = {}
            for start in range(0, len(wanted), AT_ONCE):
                keys = wanted[start : start + AT_ONCE]
                marks = ",".join("?" * len(keys))
                query = f"SELECT md5, value, checksum FROM memo WHERE md5 IN ({marks})"
                rows = database.execute(query, keys)
                found |= {md5: text for md5, text, mark in rows if mark == _checksum(md5, text)}
            return found

        return self._do(get, {}) if self.path.exists() else {}

    def put_many(self, values: Mapping[str, str]) -> None:
        """Remember; what is known already gets the new text."""
        rows = [(md5, text, _checksum(md5, text)) for md5, text in values.items()]
        if not rows:
            return

        def put(database: sqlite3.Connection) -> None:
            database.executemany("INSERT OR REPLACE INTO memo VALUES (?, ?, ?)", rows)

        self._do(put, None)

    def _do(self, action: Callable[[sqlite3.Connection], Answer], otherwise: Answer) -> Answer:
        """Act in one short transaction; whatever goes wrong is as if nothing were known."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.closing(sqlite3.connect(self.path, timeout=WAIT)) as database, database:
                database.execute(
                    "CREATE TABLE IF NOT EXISTS memo "
                    "(md5 TEXT PRIMARY KEY, value TEXT, checksum TEXT) WITHOUT ROWID"
                )
                return action(database)
        except OSError:
            return otherwise
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF not in WHOLE:
                self._remove()
            return otherwise

    def _remove(self) -> None:
        """Begin anew: a damaged file would be of no use for ever."""
        for end in ("", "-journal", "-wal", "-shm"):
            with contextlib.suppress(OSError):
                self.path.with_name(self.path.name + end).unlink(missing_ok=True)


def _checksum(md5: str, text: str) -> str:
    return hashlib.blake2b(f"{md5} {text}".encode(), digest_size=8).hexdigest()
