"""Being asked to stop: SIGTERM and Ctrl-C, while stages work in other threads.

The first signal is a wish: training saves a checkpoint and ends, any other stage is finished
first, as it has nothing that could be kept in the middle. The second ends the process at once.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

from enginehouse.errors import Interrupted

if TYPE_CHECKING:
    from prefect import State

SIGNALS = (signal.SIGTERM, signal.SIGINT)
SAID = b"Stopping: what is under way is saved or finished first. Once more ends at once.\n"


class StopWish:
    """Whether somebody asked a run to stop, by a signal to its process.

    Attributes:
        signal: number of the first signal; 0: none came.
    """

    def __init__(self) -> None:
        self.signal = 0

    def __call__(self) -> bool:
        """Whether to stop."""
        return self.signal != 0

    def check(self) -> None:
        """Do not begin anything more.

        Raises:
            Interrupted: it is wished.
        """
        if self.signal:
            raise Interrupted(
                "The run was stopped between two stages; finished ones are kept.",
                "Run again: it goes on from there.",
            )

    @contextlib.contextmanager
    def heed(self) -> Iterator[None]:
        """Within it, in the main thread, the first signal is a wish; other threads get none.

        Raises:
            Interrupted: it was wished, and everything that was under way is over.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        # A signal that this process was started to ignore (nohup) stays ignored.
        heeded = [each for each in SIGNALS if signal.getsignal(each) is not signal.SIG_IGN]
        before = {each: signal.signal(each, self._note) for each in heeded}
        try:
            yield
            self.check()
        except Interrupted as stop:
            stop.signal = self.signal
            raise
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.signal:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        self.signal = number
        os.write(2, SAID)  # a logger may hold locks that what was interrupted here has taken


def to_state(stop: Interrupted) -> State[Any]:
    """The state of a task or flow run that was stopped; its result is the error."""
    from prefect.states import Cancelled

    # Prefect logs the error where nobody asks for the result; where it was raised says nothing.
    return Cancelled(message=stop.message, data=stop.with_traceback(None))
