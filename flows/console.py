"""Progress on the terminal: a moving line while a stage works, one line when it is over."""

from __future__ import annotations

import logging
import sys
from typing import TextIO

from rich.console import Console as RichConsole
from rich.markup import escape
from rich.status import Status

from tasks._stage import PROGRESS, STEPS


class Console(logging.Handler):
    """Shows the progress logs. Not on a terminal, only what is over is printed.

    Args:
        stream: where; not where the result of a command goes, if that is read by a program.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        super().__init__()
        self._console = RichConsole(file=stream or sys.stdout, highlight=False, soft_wrap=True)
        self._status: Status | None = None

    def __enter__(self) -> Console:
        """Listen to the progress logs."""
        PROGRESS.addHandler(self)
        STEPS.propagate = False
        if self._console.is_terminal:
            STEPS.setLevel(logging.INFO)
            STEPS.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        """Stop listening."""
        PROGRESS.removeHandler(self)
        STEPS.removeHandler(self)
        self._stop()

    def emit(self, record: logging.LogRecord) -> None:
        """Show one record."""
        if record.name == STEPS.name:
            if self._status is None:
                self._status = self._console.status("")
                self._status.start()
            self._status.update(escape(record.getMessage()))
        elif not hasattr(record, "step"):
            self._stop()
            self._console.print(record.getMessage(), markup=False)

    def _stop(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None
