"""What training was like: sums over an epoch, and over the few steps since the last line."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from enginehouse.train.batches import Feed
from enginehouse.train.state import Progress
from enginehouse.train.step import Step

if TYPE_CHECKING:
    import torch


class Meter:
    """Counts steps into the sums of a progress, and into a window of its own.

    Args:
        progress: whose sums survive a restart.
        feed: knows how long it kept training waiting.
        clip_norm: gradients above it were cut.
    """

    def __init__(self, progress: Progress, feed: Feed, clip_norm: float) -> None:
        self.progress = progress
        self.feed = feed
        self.clip_norm = clip_norm
        self.window: dict[str, float] = {}
        self.clock = time.perf_counter()
        self.waited = feed.waited

    def add(self, step: Step, num_pictures: int) -> None:
        """Count one step, and the time since the one before."""
        now, waited = time.perf_counter(), self.feed.waited
        amounts = {
            "steps": 1.0,
            "pictures": float(num_pictures),
            "loss": step.loss * num_pictures,
            "grad_norm": step.grad_norm if step.updated else 0.0,
            "updates": float(step.updated),
            "clipped": float(step.updated and step.grad_norm > self.clip_norm),
            "seconds": now - self.clock,
            "waited": waited - self.waited,
        }
        self.clock, self.waited = now, waited
        for sums in (self.progress.sums, self.window):
            for name, amount in amounts.items():
                sums[name] = sums.get(name, 0.0) + amount

    def skip_time(self) -> None:
        """What passed since the last step was not training."""
        self.clock, self.waited = time.perf_counter(), self.feed.waited

    def read_window(self) -> dict[str, float]:
        """The numbers of the steps since the last call."""
        window, self.window = self.window, {}
        return _average(window)

    def read_epoch(self) -> dict[str, float]:
        """The numbers of the epoch so far."""
        return _average(self.progress.sums)


def _average(sums: dict[str, float]) -> dict[str, float]:
    """Mean loss and gradient norm, shares of clipped and skipped steps and of waiting, and rate."""
    updates = max(sums["updates"], 1.0)
    return {
        "loss": sums["loss"] / sums["pictures"],
        "images_per_s": sums["pictures"] / sums["seconds"],
        "grad_norm": sums["grad_norm"] / updates,
        "clipped": sums["clipped"] / updates,
        "skipped": 1 - sums["updates"] / sums["steps"],
        "data_wait": sums["waited"] / sums["seconds"],
    }


def read_memory(device: torch.device) -> dict[str, float]:
    """Peak memory of the device in MiB, and its share of the whole; {} on a CPU."""
    import torch

    if device.type != "cuda":
        return {}
    peak = torch.cuda.max_memory_allocated(device)
    total = torch.cuda.get_device_properties(device).total_memory
    return {"memory_mib": peak / 2**20, "memory_share": peak / total}
