"""Work on many items at once, in processes, with the results in the order of the items.

Knows nothing of what is done to an item. The processes end with the one that started them, also
when that is killed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import TypeVar

from enginehouse.artifact import Report, silent
from enginehouse.errors import EnginehouseError
from enginehouse.processor import count_cores

Item = TypeVar("Item")
Result = TypeVar("Result")

VARIABLE = "ENGINEHOUSE_WORKERS"
FEW = 200  # items that are done before a process would have started and imported its libraries
CHUNK = 16  # items that travel together
IN_FLIGHT = 3  # chunks per worker that are under way or wait to be taken
WATCH_EVERY = 0.5  # seconds
ENVIRONMENT = {
    # Every worker has a core of its own: libraries must not start threads for all of them.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENCV_FOR_THREADS_NUM": "1",
    # What a picture occupied is kept for the next: the system gives memory out slowly, page by
    # page, which took as long as hashing the pixels.
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(256 << 20),
    "PILLOW_BLOCKS_MAX": "4",
}


def map_in_order(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    report: Report = silent,
    message: str = "",
    few: int | None = None,
    chunk: int = CHUNK,
) -> Iterator[Result]:
    """`function` of each item, in order; only a few results wait in memory.

    Threads do few items, processes do many; the results are the same. $ENGINEHOUSE_WORKERS says
    how many of them (default: one per core).

    Args:
        function: of a module, or a `functools.partial` of one, so that it can be sent.
        report: told `message` and how many items are done.
        few: with fewer items no process is started; None: FEW.
        chunk: items that travel together; fewer where results are large.

    Raises:
        EnginehouseError: a process was killed.
    """
    workers = count_workers()
    chunks = (items[start : start + chunk] for start in range(0, len(items), chunk))
    few_items = len(items) < (FEW if few is None else few)
    with ThreadPoolExecutor(workers) if few_items else _open_processes(workers) as pool:
        for done, result in enumerate(_drain(pool, function, chunks, IN_FLIGHT * workers), 1):
            report(message, done, len(items))
            yield result


def count_workers() -> int:
    """How many processes work at once: $ENGINEHOUSE_WORKERS, or as many as cores may be used.

    Raises:
        EnginehouseError: the variable is no whole number from 1 on.
    """
    import loky

    text = os.environ.get(VARIABLE, "")
    if not text:
        return min(count_cores(), int(loky.cpu_count()))  # which knows the limits of containers
    if not (text.isdecimal() and int(text) >= 1):
        raise EnginehouseError(
            f"${VARIABLE} should be a whole number from 1 on, and is {text!r}.",
            f"Mend it, or unset {VARIABLE}: then there is one worker per core.",
        )
    return int(text)


def _drain(
    pool: Executor,
    function: Callable[[Item], Result],
    chunks: Iterable[Sequence[Item]],
    in_flight: int,
) -> Iterator[Result]:
    pending: deque[Future[list[Result]]] = deque()
    try:
        for chunk in chunks:
            pending.append(pool.submit(_run, function, chunk))
            if len(pending) == in_flight:
                yield from pending.popleft().result()
        while pending:
            yield from pending.popleft().result()
    finally:
        for future in pending:
            future.cancel()


def _run(function: Callable[[Item], Result], chunk: Sequence[Item]) -> list[Result]:
    return [function(item) for item in chunk]


@contextlib.contextmanager
def _open_processes(workers: int) -> Iterator[Executor]:
    """A pool of fresh interpreters; they do not run the main script again, as `spawn` does."""
    import loky
    from loky.process_executor import TerminatedWorkerError

    pool = loky.ProcessPoolExecutor(
        workers,
        context=loky.backend.get_context("loky"),
        initializer=_live_and_die_with,
        initargs=(os.getpid(),),
        env=ENVIRONMENT,
    )
    whole = False
    try:
        yield pool
        whole = True
    except TerminatedWorkerError as error:
        raise EnginehouseError(
            "A worker process was killed, most likely because memory ran out.",
            f"Set {VARIABLE} to a smaller number than {workers} and run again.",
        ) from error
    finally:
        pool.shutdown(wait=True, kill_workers=not whole)


def _live_and_die_with(parent: int) -> None:
    """End this process when its parent is gone: killed, it can tell nobody."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, who ends us

    def watch() -> None:
        while os.getppid() == parent:
            stop.wait(WATCH_EVERY)
        os._exit(1)

    stop = threading.Event()
    threading.Thread(target=watch, daemon=True, name="watch parent").start()
