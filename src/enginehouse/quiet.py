"""Silence for libraries that print, warn and log while all goes well; ends with its block."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator

_LOGGERS = (
    "torch",
    "torchao",
    "onnxscript",
    "onnx_ir",
    "modelopt.onnx",
    "modelopt.onnx.autocast",
)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Swallow standard output, warnings, and those libraries' log lines below ERROR.

    Likewise what is logged below ERROR at the root itself, by `logging.warning`. Errors come
    through. Report nothing inside: it might not be seen.
    """
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    levels = [logger.level for logger in loggers]
    with (
        contextlib.redirect_stdout(io.StringIO()),
        warnings.catch_warnings(),
        _quiet_root(),
    ):
        warnings.simplefilter("ignore")
        try:
            for logger in loggers:
                logger.setLevel(logging.ERROR)
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)


@contextlib.contextmanager
def _quiet_root() -> Iterator[None]:
    root = logging.getLogger()

    def is_error(record: logging.LogRecord) -> bool:
        return record.levelno >= logging.ERROR

    # Where the root has no handler, `logging.warning` would give it one that prints, for good.
    handler = logging.NullHandler()
    root.addFilter(is_error)
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.removeFilter(is_error)
