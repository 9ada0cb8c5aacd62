"""DVC's locks: who holds one, or left it behind. Never takes one away.

DVC keeps three files in .dvc/tmp. `lock` and `rwlock.lock` bear the number of the last process
that took them and are held by flock(2), so they stay behind, harmless, after every command; with
DVC's setting core.hardlink_lock they are held by being there. `rwlock` lists, as JSON, who reads
or writes which data; DVC itself drops entries of processes that have ended.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shlex
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from enginehouse.errors import DataError
from enginehouse.labels import Finding

NUMBER = re.compile(r"\s*(\d{1,18})(?:\s+(\S+))?\s*")  # zc.lockfile: ` 123`, ` 123 host`


class Lock(NamedTuple):
    """One lock file of DVC.

    Attributes:
        pid: of the process that took it, or None where the file does not say.
        holder: of that process: `running`, `ended`, or `unknown` (on another host, no number).
        command: its command line, where it runs here.
        blocks: whether DVC would wait for it, or fail.
    """

    file: Path
    pid: int | None
    holder: Literal["running", "ended", "unknown"]
    command: str
    blocks: bool


def find_locks(root: Path) -> list[Lock]:
    """The lock files of a repository that name a process, or are held."""
    folder = root / ".dvc" / "tmp"
    locks = [_read_lock(folder / name) for name in ("lock", "rwlock.lock")]
    return [*(lock for lock in locks if lock), *_read_rwlock(folder / "rwlock")]


def describe_lock(lock: Lock, root: Path) -> Finding:
    """What there is to say of a lock, and what to do; only an ended process's may be removed."""
    name = lock.file.relative_to(root).as_posix()
    remove = f"rm {shlex.quote(str(lock.file))}"
    who = f"process {lock.pid}{f' ({lock.command})' if lock.command else ''}"
    severity: Literal["warning", "info"] = "warning"
    if lock.holder == "ended":
        detail = f"The DVC lock {name} was left by {who}, which does not run any more."
        remedy = remove if lock.blocks else f"DVC does not mind it; to be rid of it: {remove}"
        if not lock.blocks and _is_at_rest(root):
            severity = "info"  # every command of DVC leaves that behind
    elif lock.holder == "running":
        detail = f"The DVC lock {name} belongs to {who}, which is running: the data may change."
        remedy = f"Wait until process {lock.pid} has ended; its lock is left alone."
    elif lock.pid is None:
        detail = f"The DVC lock {name} does not say which process holds it or left it."
        remedy = f"See whether any DVC command is running; only if none is: {remove}"
    else:
        detail = f"The DVC lock {name} was taken by {who} of another machine."
        remedy = f"See whether it runs there; only if it does not: {remove}"
    return Finding(severity, "lock", name, detail, remedy)


def say_who_blocks(root: Path, report: Callable[[str], object]) -> None:
    """Tell for whom a DVC command is about to wait.

    Raises:
        DataError: it would wait for a process that has ended.
    """
    for lock in find_locks(root):
        if not lock.blocks:
            continue
        finding = describe_lock(lock, root)
        if lock.holder == "ended":
            raise DataError(finding.detail, finding.remedy)
        report(f"data: waiting. {finding.detail} {finding.remedy}")


def _read_lock(file: Path) -> Lock | None:
    try:
        text = file.read_text(encoding="utf-8", errors="replace").strip()
        held = _is_held(file)
    except OSError:
        return None  # there is none, or it went away this moment
    if match := NUMBER.fullmatch(text):
        pid = int(match[1])
        holder, command = _ask(pid, match[2] or "")
        if held and holder == "ended":  # then another process has it: a child of that one
            return Lock(file, None, "unknown", "", blocks=True)
        return Lock(file, pid, holder, command, blocks=held)
    if not text:
        return Lock(file, None, "unknown", "", blocks=True) if held else None
    parts = re.split(r"[|^]", text)  # flufl.lock: file, host, number, a random number
    if len(parts) >= 4 and parts[-2].isdigit():
        pid = int(parts[-2])
        return Lock(file, pid, *_ask(pid, parts[-3]), blocks=True)
    return Lock(file, None, "unknown", "", blocks=True)  # DVC's hardlink lock: a path only


def _is_held(file: Path) -> bool:
    """Whether a process holds flock(2) on a file; taking it for this moment harms nobody."""
    with file.open("rb") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def _read_rwlock(file: Path) -> Iterator[Lock]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        entries = [*content.get("write", {}).values()]
        entries += [entry for readers in content.get("read", {}).values() for entry in readers]
        processes = {int(entry["pid"]): str(entry["cmd"]) for entry in entries}
    except FileNotFoundError:
        return
    except (OSError, ValueError, AttributeError, KeyError, TypeError):
        yield Lock(file, None, "unknown", "", blocks=True)  # DVC fails on it, see `rwlock.py` there
        return
    for pid, command in processes.items():
        holder, running = _ask(pid, "")
        yield Lock(file, pid, holder, running or command, blocks=holder == "running")


def _is_at_rest(root: Path) -> bool:
    """Whether the last command of DVC that read or wrote data here ended as it should."""
    file = root / ".dvc" / "tmp" / "rwlock"
    return file.is_file() and not any(_read_rwlock(file))


def _ask(pid: int, host: str) -> tuple[Literal["running", "ended", "unknown"], str]:
    """Whether a process runs, and its command line."""
    if pid == 0 or (host and host not in (socket.gethostname(), socket.getfqdn())):
        return "unknown", ""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return "ended", ""
    except PermissionError:
        pass  # of another user, so it runs
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        words = []
    return "running", " ".join(words).strip()[:120]
