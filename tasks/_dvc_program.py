"""The program `dvc`: how it is run, and its failures told so that one knows what to do."""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from enginehouse.errors import DataError
from tasks._dvc import SAMPLE_REMOTE, find_cache, read_path_setting, read_setting
from tasks._dvc_lock import say_who_blocks

Say = Callable[[str], object]


def run_dvc(root: Path, command: list[str], report: Say) -> subprocess.CompletedProcess[str]:
    """Run a command of DVC in a repository, waiting for other processes to release its locks.

    Raises:
        DataError: a process that has ended left a lock that would be waited for; the disk is full.
    """
    say_who_blocks(root, report)
    done = subprocess.run(
        [sys.executable, "-m", "dvc", "--wait-for-lock", *command],
        cwd=root,
        env={**os.environ, "DVC_NO_ANALYTICS": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    full = (os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT))
    if done.returncode != 0 and any(words in done.stdout + done.stderr for words in full):
        raise tell_no_room(root, f"dvc {command[0]}")
    return done


def tell_no_room(root: Path, what: str) -> DataError:
    """The error of a full disk: names the fullest of the places that data passes through."""
    cache = find_cache(root)
    places = (root, cache if cache.exists() else root, Path(tempfile.gettempdir()))
    place = min(places, key=lambda folder: shutil.disk_usage(folder).free)
    free = shutil.disk_usage(place).free / 2**20
    return DataError(
        f"No room left for {what}: the disk that holds {place} has {free:.0f} MiB free.",
        "Free some space, or move DVC's cache to a larger disk (dvc cache dir --local FOLDER); "
        "then run again: it goes on where it stopped.",
    )


def say_error(output: str) -> str:
    """What DVC's output says was wrong, without passwords of remotes and offers of help."""
    words = re.sub(r"//[^/@\s]+@", "//***@", output)
    lines = [line for line in words.splitlines() if line and not line.startswith("Having any")]
    first = next((i for i, line in enumerate(lines) if line.startswith("ERROR")), 0)
    return " ".join(lines[first:])[:600]


def find_remote(root: Path) -> str | None:
    """The name of the default remote; None if there is none, or only the sample's."""
    found = read_setting(root, "core", "remote")
    if found is None:
        return None
    url = read_path_setting(root, f'remote "{found[0]}"', "url")
    return None if url == root / ".dvc" / SAMPLE_REMOTE else found[0]
