"""Pictures that misbehave where a process of their own reads them; stand in for those of a pack."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time

import numpy as np
from numpy.typing import NDArray

SHAPE = (3, 8, 8)


class Fine:
    """A hundred black pictures."""

    def __len__(self) -> int:
        return 100

    def __getitem__(self, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        if multiprocessing.parent_process() is not None:
            self.misbehave(rows)
        return np.zeros((len(rows), *SHAPE), np.uint8)

    def misbehave(self, rows: NDArray[np.int64]) -> None:
        """Do it not."""


class Hanging(Fine):
    """Row 7 never comes."""

    def misbehave(self, rows: NDArray[np.int64]) -> None:
        if 7 in rows:
            threading.Event().wait()


class Slow(Fine):
    """Every batch takes its time."""

    def misbehave(self, rows: NDArray[np.int64]) -> None:
        time.sleep(0.4)


class Deadly(Fine):
    """Who reads row 7 is killed, as the system does for want of memory."""

    def misbehave(self, rows: NDArray[np.int64]) -> None:
        if 7 in rows:
            os.kill(os.getpid(), signal.SIGKILL)


class Broken(Fine):
    """Row 7 cannot be read."""

    def misbehave(self, rows: NDArray[np.int64]) -> None:
        if 7 in rows:
            raise RuntimeError("the disk said no")


class Huge(Fine):
    """Each picture would be 3 TB."""

    def __getitem__(self, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        return np.broadcast_to(np.uint8(0), (len(rows), 3, 10**6, 10**6))
