"""A small repository with data that real DVC versioned and pushed, and commands run in it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

CONFIG = """\
[core]
    remote = sample
    analytics = false
    check_update = false
['remote "sample"']
    url = sample-remote
"""


def run(root: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """A command in a repository, without this process's own DVC or git settings."""
    return subprocess.run(
        command,
        cwd=root,
        env={**os.environ, "DVC_NO_ANALYTICS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def dvc(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run(root, sys.executable, "-m", "dvc", *arguments)


def write_data(folder: Path) -> None:
    for name in ("set/images/pit/a.jpg", "set/images/pit/b.jpg", "set/images/ok/ü [1], 2.jpg"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(f"the picture {name}".encode())
    (folder / "set/boxes.csv").write_bytes(b"image_id,x\r\na.jpg,1\r\n")


def make_versioned(root: Path) -> None:
    """A repository whose `data/` is versioned and pushed."""
    (root / ".dvc").mkdir(parents=True)
    (root / ".dvc/config").write_text(CONFIG)
    (root / ".dvc/.gitignore").write_text("/config.local\n/tmp\n/cache\n")
    (root / ".dvcignore").write_text("# of file managers\n.DS_Store\n__MACOSX/\n")
    run(root, "git", "init", "-q")
    write_data(root / "data")
    for command in ("add", "push"):
        done = dvc(root, command, *(["data"] if command == "add" else []))
        assert done.returncode == 0, done.stderr


def read_md5(root: Path, file: str = "data.dvc") -> str:
    return yaml.safe_load((root / file).read_text())["outs"][0]["md5"].removesuffix(".dir")


@contextlib.contextmanager
def mount_small_disk(place: Path, room: str) -> Iterator[Path]:
    """A disk that is soon full; where it cannot be mounted, the test is skipped."""
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={room}", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a small disk")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)
