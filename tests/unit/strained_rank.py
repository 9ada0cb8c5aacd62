"""Stands in for Python where torchrun starts a rank: there, one rank has a network that fails.

As a module it is the model family `strained`: a network with GroupNorm that breaks in one rank.
"""

from __future__ import annotations

import os
import runpy
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch

from enginehouse import models

LIBRARIES = ("torch",)
ROOT = Path(__file__).parents[2]


class Strained(torch.nn.Module):
    """A small CNN that breaks in one rank, from some training call on or for so many pictures.

    Args:
        limits: how this process breaks, and calls in training (`nan`, `wait`) or pictures at once
            (both `oom`) that go well: `nan` gives logits that are NaN, `oom` fails as a full device
            does (`oom_scoring` in evaluation mode), `wait` waits for the file $STRAINED_GATE.
    """

    def __init__(self, num_classes: int, limits: Mapping[str, int]) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Conv2d(3, 16, 3, stride=2, bias=False),
            torch.nn.GroupNorm(4, 16),
            torch.nn.ReLU(),
            torch.nn.Conv2d(16, 32, 3, stride=2, bias=False),
            torch.nn.GroupNorm(4, 32),
            torch.nn.ReLU(),
            torch.nn.AdaptiveMaxPool2d(1),
            torch.nn.Flatten(),
            torch.nn.Linear(32, num_classes),
        )
        self.register_buffer("kept", torch.zeros(1))  # as norms have, for processes to agree on
        self.limits = limits
        self.calls = 0

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.layers(pictures)
        if self._breaks("oom" if self.training else "oom_scoring", len(pictures)):
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.")
        if not self.training:
            return logits
        self.calls += 1
        if self._breaks("wait", self.calls):
            while not Path(os.environ["STRAINED_GATE"]).exists():
                time.sleep(0.01)
        if self._breaks("nan", self.calls):
            logits[0] = logits[0] * torch.nan
        return logits

    def _breaks(self, how: str, number: int) -> bool:
        return how in self.limits and number > self.limits[how]


def build_model(name: str, num_classes: int) -> torch.nn.Module:
    """`fine`, or `<how>-<rank>-<limit>`, several of them with `+`; alone, a process is rank 0."""
    limits = {}
    for part in name.split("+"):
        how, *where = part.split("-")
        if where and where[0] == os.environ.get("RANK", "0"):
            limits[how] = int(where[1])
    return Strained(num_classes, limits)


def install(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """List the family here, and in the processes that torchrun starts."""
    patch.setitem(models.CHOICES, "strained", "tests.unit.strained_rank")
    stand_in = folder / "python"
    stand_in.write_text(f'#!/bin/sh\nexec {sys.executable} {__file__} "$@"\n')
    stand_in.chmod(0o755)
    patch.setenv("PYTHON_EXEC", str(stand_in))  # torchrun starts ranks with it
    patch.setenv("PYTHONPATH", str(ROOT))
    patch.setenv("STRAINED_GATE", str(folder / "gate"))


if __name__ == "__main__":
    models.CHOICES["strained"] = "tests.unit.strained_rank"
    place = sys.argv.index("-m")
    sys.argv = sys.argv[place + 1 :]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
