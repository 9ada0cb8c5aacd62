"""What processes that train together are handed, and what they hand back: files, all JSON.

They lie in one folder, which on several nodes is a shared one.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict

from enginehouse import errors
from enginehouse.prepare.record import Pack
from enginehouse.train.config import TrainConfig
from enginehouse.train.memory import TooManyAtOnce
from enginehouse.train.record import Pretrained
from enginehouse.train.state import Progress

REPORTS = "reports.jsonl"
STOP = "stop"
MODEL = "model.json"  # the leader's record, its files not sealed yet


class _File(BaseModel):
    """What lies in a folder as one JSON file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def write(self, folder: Path, name: str = "") -> None:
        """Write it whole, under its name in the folder."""
        path = folder / f"{name or type(self).__name__.lower()}.json"
        draft = path.with_suffix(".draft")
        draft.write_text(self.model_dump_json(), encoding="utf-8")
        draft.replace(path)

    @classmethod
    def read(cls, folder: Path, name: str = "") -> Self:
        """Read what was written."""
        path = folder / f"{name or cls.__name__.lower()}.json"
        return cls.model_validate_json(path.read_text(encoding="utf-8"))


class Restart(BaseModel):
    """How to go on after memory ran out in one of the processes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    most_at_once: int
    warning: str

    def apply(self, progress: Progress, warn: Callable[[str], None]) -> None:
        """Take fewer pictures at once, and say so."""
        progress.micro_batch = min(progress.micro_batch, self.most_at_once)
        warn(self.warning)


class Order(_File):
    """The work.

    Attributes:
        threads: of each process, where it computes on the CPU.
        restart: after all processes ended for want of memory; None: they did not.
        store, scratch, resumable: those of the stage's workspace.
    """

    config: TrainConfig
    pack: Pack
    pretrained: Pretrained | None
    threads: int
    restart: Restart | None
    store: Path
    scratch: Path
    resumable: Path
    profile: Path | None


class Failure(_File):
    """Why one process ended without what was ordered.

    Attributes:
        kind: name of an exception.
        restart: how it may go on.
        at: time of day, in seconds.
    """

    rank: int
    kind: str
    message: str
    remedy: str = ""
    restart: Restart | None = None
    at: float

    @classmethod
    def of(cls, error: Exception, rank: int) -> Failure:
        """What an exception says."""
        message, remedy, restart = str(error), "", None
        if isinstance(error, errors.EnginehouseError):
            message, remedy = error.message, error.remedy
        if isinstance(error, TooManyAtOnce):
            restart = Restart(most_at_once=error.most_at_once, warning=error.message)
        return cls(
            rank=rank,
            kind=type(error).__name__,
            message=message,
            remedy=remedy,
            restart=restart,
            at=time.time(),
        )

    @property
    def error(self) -> errors.EnginehouseError | None:
        """The error to raise, where it is one of ours."""
        found = getattr(errors, self.kind, None)
        if not (isinstance(found, type) and issubclass(found, errors.EnginehouseError)):
            return None
        return found(self.message, self.remedy)


class Ended(_File):
    """The process that ended first, as torchrun saw it: `exit code 3`, `signal SIGKILL`."""

    rank: int
    how: str


def list_failures(folder: Path) -> list[Failure]:
    """The first one first."""
    found = [Failure.read(folder, path.stem) for path in folder.glob("failure-*.json")]
    return sorted(found, key=lambda failure: failure.at)


class ReportWriter:
    """A report that appends lines to a file."""

    def __init__(self, folder: Path) -> None:
        self.stream = (folder / REPORTS).open("a", encoding="utf-8")

    def __call__(self, message: str, done: int = 0, total: int = 0, **metrics: float) -> None:
        """Append one line."""
        self.stream.write(json.dumps([message, done, total, metrics]) + "\n")
        self.stream.flush()


class ReportReader:
    """Reads what a `ReportWriter` wrote since the last look."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / REPORTS
        self.position = 0

    def __iter__(self) -> Iterator[tuple[str, int, int, dict[str, float]]]:
        """The new lines; half of one is left for the next look."""
        if not self.path.exists():
            return
        with self.path.open("rb") as stream:
            stream.seek(self.position)
            lines = stream.read().split(b"\n")
        for line in lines[:-1]:
            self.position += len(line) + 1
            message, done, total, metrics = json.loads(line)
            yield message, done, total, metrics

    @property
    def has_begun(self) -> bool:
        """Whether there is somebody who writes."""
        return self.path.exists()
