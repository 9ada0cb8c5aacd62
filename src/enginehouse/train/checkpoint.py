"""Checkpoints on disk: whole or not there, told from damaged ones, the last two of them kept."""

from __future__ import annotations

import hashlib
import io
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from enginehouse.train.state import State

KEPT = 2
NAME = re.compile(r"step-(\d{9})-([0-9a-f]{16})\.pt")


class Checkpoints:
    """The checkpoints in one folder. Their names hold the step and the digest of their bytes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save(self, step: int, content: dict[str, Any]) -> Path:
        """Write a checkpoint; a reader sees the whole of it or nothing. Older ones go."""
        import torch

        buffer = io.BytesIO()
        torch.save(content, buffer)
        data = buffer.getbuffer()
        path = self.folder / f"step-{step:09}-{hashlib.sha256(data).hexdigest()[:16]}.pt"
        draft = path.with_name(f".{path.name}")
        with draft.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(path)
        for old in self._list()[KEPT:]:
            old.unlink()
        return path

    def load(self, warn: Callable[[str], None]) -> dict[str, Any] | None:
        """The newest whole checkpoint, or None; a damaged one is named and passed over."""
        import torch

        for path in self._list():
            data = path.read_bytes()
            match = NAME.fullmatch(path.name)
            assert match
            if hashlib.sha256(data).hexdigest()[:16] != match[2]:
                warn(f"checkpoint {path.name} is damaged; the one before it is used")
                continue
            content: dict[str, Any] = torch.load(
                io.BytesIO(data), map_location="cpu", weights_only=True
            )
            return content
        return None

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
        leads: whether this process is the one that saves.
    """

    def __init__(
        self, state: State, checkpoints: Checkpoints, seconds: float, leads: bool = True
    ) -> None:
        self.state = state
        self.checkpoints = checkpoints
        self.seconds = seconds
        self.leads = leads
        self.clock = time.monotonic()

    def save(self) -> None:
        """Save now."""
        if self.leads:
            self.checkpoints.save(self.state.progress.steps, self.state.capture())
        self.clock = time.monotonic()

    def save_if_due(self) -> None:
        """Save if enough time has passed."""
        if time.monotonic() - self.clock >= self.seconds:
            self.save()
