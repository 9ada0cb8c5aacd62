"""Reading pictures ahead of their use, in processes where that is wanted.

Every process maps the same shards, and is sent nothing but where they lie and which rows are
wanted; what a batch costs is copying its rows out of the page cache. torch's DataLoader moves the
batches, as shared memory. Knows nothing of what becomes of them.
"""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from enginehouse.errors import TrainingError
from enginehouse.train.reading import (
    ByBatch,
    Pictures,
    Rows,
    end_with_parent,
    keep_batch,
    start_server,
)

if TYPE_CHECKING:
    import torch

PATIENCE = 300.0  # seconds without a batch after which a process is said to hang
LOOK_EVERY = 10.0  # seconds of waiting after which one looks whether a process was killed
AHEAD = 2  # batches that each process has under way
SHARED = Path("/dev/shm")  # where Linux keeps shared memory


class Reader:
    """Gives batches of pictures; its processes live from the first batch to `close`.

    Args:
        pictures: what is read; it must be possible to send it to another process.
        num_workers: processes; 0: this one reads, when a batch is asked for.
        pinned: batches lie in page-locked memory, from which a GPU copies by itself.
        patience: seconds without a batch after which a process is said to hang.
        look_every: seconds of waiting after which one looks whether a process was killed.

    Attributes:
        waited: seconds that the last batch took to come.
    """

    def __init__(
        self,
        pictures: Pictures,
        num_workers: int,
        pinned: bool,
        patience: float = PATIENCE,
        look_every: float = LOOK_EVERY,
    ) -> None:
        import torch
        from torch.utils.data import DataLoader

        self.pictures = pictures
        self.num_workers = num_workers
        self.patience = patience
        self.waited = 0.0
        self._batches: list[Rows] = []
        self._coming: Iterator[torch.Tensor] = iter(())
        self._batch_bytes = 0
        ahead: Any = {}
        if num_workers:
            ahead = {
                "timeout": min(look_every, patience),
                "prefetch_factor": AHEAD,
                "persistent_workers": True,
                "multiprocessing_context": start_server(),
                "worker_init_fn": end_with_parent,
            }
        self._loader: DataLoader[Any] = DataLoader(
            cast("Any", ByBatch(pictures)),  # no Dataset by type, as that would import torch here
            batch_sampler=cast("Any", self._batches),
            collate_fn=cast("Any", keep_batch),
            num_workers=num_workers,
            pin_memory=pinned,
            generator=torch.Generator(),  # for its own seeds, lest it draws from torch's
            **ahead,
        )

    def read(self, batches: Sequence[Rows]) -> Iterator[torch.Tensor]:
        """The pictures of each batch of rows, uint8 [n, 3, size, size].

        A pass that is not read to its end is over when the next begins.

        Raises:
            TrainingError: a process hangs or was killed, or shared memory is too small for them.
        """
        if self.num_workers and batches:
            self._check_shared_memory(batches)
            self._drop_rest()  # so that all processes are idle when they are called to a new pass
        self._batches[:] = batches
        started = time.monotonic()
        try:
            self._coming = coming = iter(self._loader)
        except RuntimeError as error:
            self._explain(error, started, patience=0)
        while True:
            clock = time.perf_counter()
            pictures = self._wait_for_next(coming)
            self.waited = time.perf_counter() - clock
            if pictures is None:
                return
            yield pictures

    def close(self) -> None:
        """End the processes."""
        if running := cast("Any", self._loader._iterator):
            # torch has no public way, and ends them only once nothing refers to the iterator: an
            # error that is on its way up does.
            running._shutdown_workers()
        self._coming = iter(())

    def _check_shared_memory(self, batches: Sequence[Rows]) -> None:
        """Whether what the processes have under way fits; they could only die of it."""
        if self._batch_bytes:
            return
        one = self.pictures[np.asarray(batches[0][:1])]
        self._batch_bytes = one.nbytes * max(map(len, batches))
        if SHARED.is_dir() and shutil.disk_usage(SHARED).free < self._needed_bytes:
            raise TrainingError(
                f"Shared memory is too small for reading ahead: {self._tell_shared_memory()}",
                self._remedy,
            )

    def _drop_rest(self) -> None:
        self._batches.clear()
        while self._wait_for_next(self._coming) is not None:
            pass

    def _wait_for_next(self, coming: Iterator[torch.Tensor]) -> torch.Tensor | None:
        """The next batch, or None at the end; looks from time to time why none comes."""
        started = time.monotonic()
        while True:
            try:
                return next(coming, None)
            except RuntimeError as error:
                self._explain(error, started, self.patience)

    def _explain(self, error: RuntimeError, started: float, patience: float) -> None:
        """Raise an error that says what is wrong, unless there is time left to wait.

        Args:
            error: torch's; it says what happened in its message alone.
            started: when waiting began.
            patience: how long to wait, in seconds.
        """
        waited = time.monotonic() - started
        if "exited unexpectedly" in str(error):
            message = (
                f"A process that reads pictures was killed (train.workers: {self.num_workers}); "
                "most likely memory ran out, shared memory or all of it."
            )
        elif "timed out" not in str(error):
            raise error
        elif waited < patience:
            return
        else:
            message = (
                f"No batch came for {waited:.0f} s: a process that reads pictures hangs "
                f"(train.workers: {self.num_workers}). What it reads from does not answer, or "
                "shared memory ran out."
            )
        facts = self._tell_shared_memory()
        self.close()
        raise TrainingError(f"{message} {facts}", self._remedy) from error

    @property
    def _needed_bytes(self) -> int:
        return self.num_workers * AHEAD * self._batch_bytes

    @property
    def _remedy(self) -> str:
        return (
            "Set train.workers lower (0 needs no shared memory), or give a container more of it: "
            f"docker run --shm-size={math.ceil(2 * self._needed_bytes / 2**30)}g."
        )

    def _tell_shared_memory(self) -> str:
        needed = (
            f"{self.num_workers} processes want about {_mib(self._needed_bytes)} of it, "
            f"{AHEAD} batches of {_mib(self._batch_bytes)} each"
        )
        if not SHARED.is_dir():
            return f"{needed}."
        usage = shutil.disk_usage(SHARED)
        return f"{SHARED} has {_mib(usage.total)}, {_mib(usage.free)} of them free; {needed}."


def _mib(size: int) -> str:
    return f"{size / 2**20:.0f} MiB"
