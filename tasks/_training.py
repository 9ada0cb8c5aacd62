"""A training as it runs, in MLflow: a run that is opened, fed and ended beside it.

A thread of its own speaks to MLflow, so that neither a slow nor a missing server holds training
up. What could not be sent stays and is sent later.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from enginehouse.artifact import Report, flatten
from enginehouse.errors import Interrupted, first_line
from enginehouse.stage import Job, Watch
from enginehouse.train.loop import STEPS
from tasks._progress import EPOCH
from tasks.registry import Point, Registry, TrainingRun, read_machine

SEND_EVERY = 2.0  # seconds
MACHINE_EVERY = 10.0  # seconds between two looks at processor, memory and GPU
LAST_WAIT = 20.0  # seconds for MLflow at the end; a worker of Prefect kills 30 after a cancel


def watch_training(state: Path, recipe: str, data: str, warn: Callable[[str], None]) -> Watch:
    """What logs the trainings of a recipe.

    Args:
        state: folder of the local state.
        recipe: name of the recipe.
        data: digest of the data version.
        warn: told, once per training, if MLflow does not get what it should.
    """

    @contextlib.contextmanager
    def watch(job: Job, key: str, report: Report) -> Iterator[Report]:
        log = TrainingLog(lambda: _open(state, recipe, data, job, key), warn)

        def both(message: str, done: int = 0, total: int = 0, **metrics: float) -> None:
            report(message, done, total, **metrics)
            log.add(message, done, metrics)

        try:
            yield both
        except BaseException as error:
            # What is no Exception (Ctrl-C, a cancellation) ended it from outside.
            killed = isinstance(error, Interrupted) or not isinstance(error, Exception)
            log.end(
                "KILLED" if killed else "FAILED", f"{type(error).__name__}: {first_line(error)}"
            )
            raise
        log.end("FINISHED", "finished")

    return watch


def _open(state: Path, recipe: str, data: str, job: Job, key: str) -> tuple[Registry, TrainingRun]:
    registry = Registry(state)
    tags = {"recipe": recipe, "data": data}
    parameters = flatten(job.config.model_dump(mode="json"), job.stage.name)
    return registry, registry.open_training(recipe, key, tags, parameters)


class TrainingLog:
    """Collects what a training reports, and sends it.

    Args:
        open_run: gives the registry and the run; asked again after it failed.
        warn: told once if something cannot be sent.
    """

    def __init__(
        self,
        open_run: Callable[[], tuple[Registry, TrainingRun]],
        warn: Callable[[str], None],
    ) -> None:
        self._open_run = open_run
        self._warn = warn
        self._points: list[Point] = []
        self._fault = ""
        self._warned = False
        self._end: tuple[str, str] | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, name="training log", daemon=True)
        self._thread.start()

    def add(self, message: str, done: int, metrics: Mapping[str, float]) -> None:
        """Take the metrics of a report: those of some steps, or of an epoch."""
        if message == STEPS:
            self._take("step/", metrics, done)
        elif message.startswith(EPOCH):
            self._take("epoch/", metrics, done)
        self._tell()

    def end(self, status: str, reason: str) -> None:
        """Send the rest, and end the run."""
        self._end = (status, reason)
        self._over.set()
        self._thread.join(LAST_WAIT)
        if self._thread.is_alive():
            self._fault = self._fault or "it does not answer"
        self._tell()

    def _take(self, prefix: str, metrics: Mapping[str, float], step: int) -> None:
        now = time.time()
        self._points += [Point(prefix + name, v, now, step) for name, v in metrics.items()]

    def _tell(self) -> None:
        """Warn once. In the caller's thread, which is the one that belongs to a run of Prefect."""
        if self._fault and not self._warned:
            self._warned = True
            self._warn(f"MLflow does not get this training's metrics; it goes on. {self._fault}")

    def _work(self) -> None:
        """Send now and then until the end; of the thread."""
        sender: _Sender | None = None
        while True:
            over = self._over.wait(SEND_EVERY if sender else 0)
            try:
                sender = sender or _Sender(*self._open_run())
                sender.send(self._points, over)
                if over and self._end:
                    sender.registry.end_training(sender.run.run_id, *self._end)
            except Exception as error:  # whatever it is, training goes on, and a person is told
                self._fault = first_line(error)
                if not over:
                    self._over.wait(SEND_EVERY)
            if over:
                return


class _Sender:
    """A run that is open, and the machine that is looked at meanwhile."""

    def __init__(self, registry: Registry, run: TrainingRun) -> None:
        self.registry = registry
        self.run = run
        self._read_machine = read_machine(run.run_id)
        self._looked = time.monotonic()

    def send(self, points: list[Point], over: bool) -> None:
        """Send the points and take them out of the list, to which others may add meanwhile."""
        if over or time.monotonic() - self._looked >= MACHINE_EVERY:
            self._looked, now = time.monotonic(), time.time()
            second = round(now - self.run.started)
            points += [Point(name, v, now, second) for name, v in self._read_machine().items()]
        num = len(points)
        self.registry.log_points(self.run.run_id, points[:num])
        del points[:num]
