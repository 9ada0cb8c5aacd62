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
    """End this process when the one that trains is gone: killed, it can tell nobody.

    torch watches the parent of this process, which is the server that it was forked from. Ctrl-C,
    which a terminal sends to every process, is for the one that trains: it saves first.
    """
    import multiprocessing

    signal.signal(signal.SIGINT, signal.SIG_IGN)
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

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", __name__])
    return context
