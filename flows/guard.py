"""Run a command so that nothing it starts outlives the process that asked for it.

    python guard.py PARENT_PID COMMAND [ARGUMENT...]

The command ends when it likes. When this process gets a signal, the command is asked to end; when
the parent is gone, be it by kill -9, it is killed. Whatever is left of its descendants is killed
too. Linux only, standard library only: it runs as a script and imports nothing of ours.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from pathlib import Path

PR_SET_PDEATHSIG = 1  # numbers from linux/prctl.h
PR_SET_CHILD_SUBREAPER = 36
POLL = 0.2  # seconds between two looks at the parent
GRACE = 10.0  # seconds between asking and killing
ENDING = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
SIGNALS = {*ENDING, signal.SIGCHLD}


def main(parent: int, command: list[str]) -> int:
    """Run the command; returns its exit code as a shell would."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)  # orphans of the command become our children
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # they are waited for instead
    child = os.fork()
    if child == 0:
        _become(command)
    codes: dict[int, int] = {}
    while _reap(codes) and child not in codes and os.getppid() == parent:
        caught = signal.sigtimedwait(SIGNALS, POLL)
        if caught and caught.si_signo in ENDING:
            _ask(child, codes)
            break
    while _reap(codes):  # each kill hands us the next generation
        for pid in _list_children():
            os.kill(pid, signal.SIGKILL)
        signal.sigtimedwait({signal.SIGCHLD}, POLL)
    return codes[child] if codes[child] >= 0 else 128 - codes[child]


def _ask(child: int, codes: dict[int, int]) -> None:
    os.kill(child, signal.SIGTERM)
    deadline = time.monotonic() + GRACE
    while _reap(codes) and child not in codes and time.monotonic() < deadline:
        signal.sigtimedwait({signal.SIGCHLD}, POLL)


def _become(command: list[str]) -> None:
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # should even this guard be killed
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr, flush=True)
    finally:
        os._exit(127)


def _reap(codes: dict[int, int]) -> bool:
    """Note the exit codes of dead children; whether any child lives."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid == 0:
            return True
        codes[pid] = os.waitstatus_to_exitcode(status)


def _list_children() -> list[int]:
    children = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
        except (FileNotFoundError, ProcessLookupError):  # it ended meanwhile
            continue
        if int(parent) == os.getpid() and state != "Z":
            children.append(int(stat.parent.name))
    return children


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl failed")


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
