"""Silence for libraries that print, warn and log while all goes well; ends with its block."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator

_LOGGERS = ("torch", "torchao", "onnxscript", "onnx_ir")


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Swallow standard output, warnings, and those libraries' log lines below ERROR.

    Errors come through. Report nothing inside: it might not be seen.
    """
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    levels = [logger.level for logger in loggers]
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for logger in loggers:
                logger.setLevel(logging.ERROR)
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
