"""Checkpoints on disk: whole or not there, told from damaged ones, the last two of them kept."""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from enginehouse.artifact import flatten
from enginehouse.errors import TrainingError, first_line
from enginehouse.train.state import State

KEPT = 2
NAME = re.compile(r"step-(\d{9})-([0-9a-f]{16})\.pt")

Content = dict[str, Any]
Warn = Callable[[str], None]


class Checkpoints:
    """The checkpoints in one folder. Their names hold the step and the digest of their bytes.

    Args:
        folder: nobody else uses it meanwhile.
        origin: what is trained from what, as plain data; part of every checkpoint.
    """

    def __init__(self, folder: Path, origin: Mapping[str, Any]) -> None:
        self.folder = folder
        self.origin = dict(origin)
        self._whole: list[Path] = []  # read or written here, so known to be; the newest first

    def save(self, step: int, content: Content) -> Path:
        """Write a checkpoint; a reader sees the whole of it or nothing.

        It and the whole one before stay; all others go, so that damaged ones take no place.

        Raises:
            OSError: it could not be written; those before are as they were.
        """
        import torch

        buffer = io.BytesIO()
        torch.save({"origin": self.origin, **content}, buffer)
        data = buffer.getbuffer()
        path = self.folder / f"step-{step:09}-{_digest(data)}.pt"
        draft = path.with_name(f".{path.name}")
        for half in self.folder.glob(".step-*.pt"):  # of a process that was killed
            half.unlink()
        try:
            with draft.open("wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
        _flush_folder(self.folder)
        self._whole = [path, *(each for each in self._whole if each != path)][:KEPT]
        for other in set(self._list()) - set(self._whole):
            other.unlink()
        return path

    def load(self, warn: Warn) -> Content | None:
        """The newest whole checkpoint; None if there is none. Damaged ones are told of.

        Raises:
            TrainingError: it belongs to another training; names what differs.
        """
        found = read_first_whole(self._list(), warn)
        if found is None:
            return None
        path, content = found
        if changes := _compare(content.get("origin"), self.origin):
            raise TrainingError(
                f"The checkpoint {path.name} belongs to another training: {'; '.join(changes)}.",
                f"Train from the beginning: remove {self.folder}; or put the recipe and the data "
                "back as they were.",
            )
        self._whole = [path]
        return content

    def _list(self) -> list[Path]:
        """The newest first."""
        found = [path for path in self.folder.iterdir() if NAME.fullmatch(path.name)]
        return sorted(found, key=lambda path: path.name, reverse=True)


class Saver:
    """Saves a state now and then.

    Args:
        state: what is saved.
        checkpoints: where to.
        seconds: least time between two checkpoints that nobody asked for.
        warn: is told of checkpoints that could not be written.
        leads: whether this process is the one that saves.
    """

    def __init__(
        self,
        state: State,
        checkpoints: Checkpoints,
        seconds: float,
        warn: Warn,
        leads: bool = True,
    ) -> None:
        self.state = state
        self.checkpoints = checkpoints
        self.seconds = seconds
        self.warn = warn
        self.leads = leads
        self.clock = time.monotonic()

    def save(self) -> bool:
        """Save now; whether that went well. Training can go on without a checkpoint."""
        try:
            if self.leads:
                self.checkpoints.save(self.state.progress.steps, self.state.capture())
        except OSError as error:
            self.warn(
                f"no checkpoint could be written to {self.checkpoints.folder} "
                f"({error.strerror or first_line(error)}); training goes on without"
            )
            return False
        finally:
            self.clock = time.monotonic()
        return True

    def save_if_due(self) -> None:
        """Save if enough time has passed."""
        if time.monotonic() - self.clock >= self.seconds:
            self.save()


def take_up(state: State, checkpoints: Checkpoints, warn: Warn) -> bool:
    """Go on from the newest whole checkpoint, if there is one; whether there was.

    Raises:
        TrainingError: it belongs to another training, or lacks a part.
    """
    told: list[str] = []
    saved = checkpoints.load(told.append)
    if saved is not None:
        state.restore(saved)
        state.progress.resumed.append(state.progress.steps)
    for each in told:  # only now, as the warnings are part of what was taken up
        warn(each)
    return saved is not None


def read_first_whole(paths: Sequence[Path], warn: Warn) -> tuple[Path, Content] | None:
    """The first of these files that is a whole checkpoint, and where it lies; None: none is.

    No code in a file is ever run. What is damaged, or no checkpoint, is named and passed over.
    """
    for path in paths:
        try:
            return path, _read(path)
        except (OSError, EOFError, ValueError, RuntimeError, pickle.UnpicklingError) as error:
            warn(f"checkpoint {path.name} is passed over: {first_line(error)}")
    if paths:
        warn("no checkpoint is usable: training begins anew")
    return None


def _read(path: Path) -> Content:
    """One checkpoint; raises any of what `read_first_whole` passes over."""
    import torch

    data = path.read_bytes()
    match = NAME.fullmatch(path.name)
    if match and _digest(data) != match[2]:
        raise ValueError("its bytes are not those that were written")
    content: Any = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    if not isinstance(content, dict):
        raise ValueError(f"it holds a {type(content).__name__}, not the parts of a training")
    return content


def _compare(there: Any, here: Mapping[str, Any]) -> list[str]:
    """What differs between the origin in a checkpoint and the one that is wanted."""
    if not isinstance(there, dict):
        return ["it does not say of which"]
    old, new = flatten(there), flatten(dict(here))
    return [
        f"{name} {old.get(name)} -> {new.get(name)}"
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    ]


def _digest(data: bytes | memoryview) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def _flush_folder(folder: Path) -> None:
    """A name is on the disk only when its folder is."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
