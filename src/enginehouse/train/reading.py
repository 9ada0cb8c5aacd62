"""What goes on in the processes that read pictures for the one that trains.

They are forked from a server that has imported torch once for all of them.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

Rows = NDArray[np.int64]


class Pictures(Protocol):
    """What is read: rows of it as an array."""

    def __len__(self) -> int:
        """How many rows there are."""

    def __getitem__(self, rows: Rows) -> NDArray[np.uint8]:
        """uint8 [n, 3, size, size]."""


class ByBatch:
    """Pictures as torch's DataLoader wants them: asked for a batch of rows at once."""

    def __init__(self, pictures: Pictures) -> None:
        self.pictures = pictures

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitems__(self, rows: Rows) -> torch.Tensor:
        import torch

        return torch.from_numpy(self.pictures[rows])


def keep_batch(batch: torch.Tensor) -> torch.Tensor:
    """A batch is made whole already."""
    return batch


def end_with_parent(number: int) -> None:
    """End this process when the one that trains is gone, and not before.

    Killed, that one can tell nobody, and torch watches the parent of this process, which is the
    server that it was forked from. Told to stop, it still needs what is read to come to an end:
    so this process leaves the group to which a terminal sends Ctrl-C, and Prefect SIGTERM.
    """
    import multiprocessing

    os.setpgid(0, 0)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})  # torch ends those that hang so
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="watch parent").start()


def start_server() -> Any:
    """A clean process from which readers are forked; it imports torch once for all of them.

    Forking this process itself would copy locks that its threads hold, and its GPU context.
    """
    import multiprocessing
    from multiprocessing import forkserver

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", __name__])
    # A process passes on what it blocks. The server must outlive a SIGTERM that goes to a whole
    # group of processes: the readers would end with it. It ends with this process.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return context
