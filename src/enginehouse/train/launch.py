"""Training in several processes: torchrun's launcher in a process of its own, and who waits for it.

    python -m enginehouse.train.launch FOLDER [PARENT_PID]

The stage may run in any thread; torchrun wants the main one for its signals. So the stage starts
this module, which starts the ranks. Each of them ends with the one that started it, be that
killed. What they tell each other lies in FOLDER. On further nodes a person starts it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

from enginehouse.artifact import Workspace
from enginehouse.errors import Interrupted, TrainingError
from enginehouse.prepare.record import Pack
from enginehouse.train.config import TrainConfig
from enginehouse.train.order import (
    MODEL,
    STOP,
    Ended,
    Failure,
    Order,
    ReportReader,
    Restart,
    list_failures,
)
from enginehouse.train.record import Pretrained, TrainedModel

POLL = 0.2  # seconds between two looks at reports and wishes
GRACE = 120.0  # seconds that the ranks have to agree to stop, and to save
PR_SET_PDEATHSIG = 1  # from linux/prctl.h
LOG = "log.txt"
NUM_LINES = 8  # of the log, in an error


def fit_together(
    pack: Pack, config: TrainConfig, here: Workspace, pretrained: Pretrained | None
) -> TrainedModel:
    """Train in `config.devices` processes; their leader's files are then in the scratch folder.

    Where one of them runs out of memory, all begin again from the last checkpoint, with half as
    many pictures at once: in the middle of a step they could not agree on it.

    Raises:
        EnginehouseError: what the first process that failed raised.
        TrainingError: there are fewer GPUs, or a process ended without a word.
        Interrupted: it was asked to stop; what was saved is kept.
    """
    num_nodes = count_nodes()
    num_local = check_devices(config.devices, num_nodes)
    import torch

    restart: Restart | None = None
    for attempt in range(1, 32):
        folder = here.scratch / f"ranks-{attempt}"
        folder.mkdir()
        order = Order(
            config=config,
            pack=pack,
            pretrained=pretrained,
            threads=max(1, torch.get_num_threads() // num_local),
            restart=restart,
            store=here.store.root,
            scratch=here.scratch.absolute(),
            resumable=here.resumable.absolute(),
            profile=here.profile,
        )
        order.write(folder)
        if num_nodes > 1:
            here.report(f"waiting for {num_nodes - 1} more nodes; on each: {_spell(folder)}")
        found = _run(folder, here)
        if isinstance(found, TrainedModel):
            return found
        restart = found
    raise AssertionError("halving ends")


def check_devices(num_wanted: int, num_nodes: int) -> int:
    """How many processes this node starts.

    Raises:
        TrainingError: they cannot be shared evenly, or there are fewer GPUs.
    """
    import torch

    if num_wanted % num_nodes:
        raise TrainingError(
            f"train.devices is {num_wanted}; {num_nodes} nodes cannot have as many each.",
            f"Make it a multiple of {num_nodes}.",
        )
    num_local, num_gpus = num_wanted // num_nodes, torch.cuda.device_count()
    if torch.cuda.is_available() and num_gpus < num_local:
        raise TrainingError(
            f"train.devices wants {num_local} GPUs on this machine; it has {num_gpus}.",
            f"Set train.devices to {num_gpus * num_nodes} or less.",
        )
    return num_local


def count_nodes() -> int:
    """How many machines train together, by torchrun's own variable."""
    return int(os.environ.get("PET_NNODES", "1").rpartition(":")[2])


def _run(folder: Path, here: Workspace) -> TrainedModel | Restart:
    """One start of all ranks: their model, or how to start them again."""
    command = [sys.executable, "-m", "enginehouse.train.launch", str(folder), str(os.getpid())]
    with (folder / LOG).open("wb") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is for the stage, which asks the ranks to stop
        )
        try:
            asked = _follow(process, folder, here)
        finally:
            process.kill()  # the ranks end with it
            process.wait()
    return _read_end(folder, asked)


def _follow(process: subprocess.Popen[bytes], folder: Path, here: Workspace) -> bool:
    """Pass reports on until the launcher has ended; whether it was asked to stop."""
    reports, deadline = ReportReader(folder), float("inf")
    while True:
        ended = process.poll() is not None  # first, lest the last reports be missed
        for message, done, total, metrics in reports:
            here.report(message, done, total, **metrics)
        if ended:
            return deadline < float("inf")
        if here.stopping() and deadline == float("inf"):
            (folder / STOP).touch()
            deadline = time.monotonic() + (GRACE if reports.has_begun else 0)
        if time.monotonic() > deadline:
            process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(POLL)


def _read_end(folder: Path, asked: bool) -> TrainedModel | Restart:
    if (folder / MODEL).exists():
        return TrainedModel.from_json((folder / MODEL).read_text(encoding="utf-8"))
    failures = list_failures(folder)
    for failure in failures:
        if failure.error:
            raise failure.error
    for failure in failures:
        if failure.restart:
            return failure.restart
    if asked:
        raise Interrupted(
            "Training was stopped before it could save anew.",
            "Run again: it goes on from the last checkpoint, if there is one.",
        )
    raise _explain_end(folder, failures)


def _explain_end(folder: Path, failures: list[Failure]) -> TrainingError:
    """The error for a process that ended without one of ours."""
    ended = Ended.read(folder) if (folder / "ended.json").exists() else None
    said = [each for each in failures if ended is None or each.rank == ended.rank]
    if said:
        what = f"Process {said[0].rank} failed: {said[0].kind}: {said[0].message}"
    elif ended:
        what = f"Process {ended.rank} ended with {ended.how}"
    else:
        what = "The processes could not be started"
    lines = (folder / LOG).read_text(encoding="utf-8", errors="replace").strip().splitlines()
    told = "".join(f"\n  | {line}" for line in lines[-NUM_LINES:])
    return TrainingError(
        f"{what}.{told}",
        "SIGKILL mostly means that the machine's memory ran out. Run again: it goes on from the "
        "last checkpoint, if there is one.",
    )


def _spell(folder: Path) -> str:
    return shlex.join([Path(sys.executable).name, "-m", "enginehouse.train.launch", str(folder)])


def end_with(parent: int) -> None:
    """From now on this process is killed when its parent ends; at once if that is gone already."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl failed")
    if os.getppid() != parent:
        os._exit(1)


def main(folder: Path, parent: int | None) -> int:
    """Start this node's ranks with torchrun, and wait for them; returns the exit code."""
    if parent is not None:
        end_with(parent)
    from torch.distributed import run as torchrun
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    from enginehouse.train import rank

    num_nodes = count_nodes()
    devices = Order.read(folder).config.devices
    arguments = torchrun.parse_args(  # type: ignore[no-untyped-call]
        [
            *(["--standalone", "--local-addr=localhost"] if num_nodes == 1 else []),
            f"--nnodes={num_nodes}",
            f"--nproc-per-node={devices // num_nodes}",
            f"--log-dir={folder / 'torchrun'}",
            *("--module", rank.__name__, str(folder), str(os.getpid())),
        ]
    )
    try:
        torchrun.run(arguments)  # type: ignore[no-untyped-call]
    except ChildFailedError as error:
        number, failure = error.get_first_failure()
        killed = failure.exitcode < 0
        how = f"signal {failure.signal_name()}" if killed else f"exit code {failure.exitcode}"
        Ended(rank=number, how=how).write(folder)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else None))
