"""Measure: latency of the engine, of its fp32 twin and of PyTorch eager, in one run."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from enginehouse.artifact import Config, Record


class MeasureConfig(Config):
    """How latency is taken."""

    batch: int = Field(1, ge=1, le=4096, description="Pictures per call.")
    rounds: int = Field(15, ge=3, le=1000, description="Alternating rounds; the median counts.")
    threads: int = Field(0, ge=0, le=256, description="Threads per side; 0: all physical cores.")


class Latency(Record):
    """Notes: `rows` (name, median milliseconds, pictures per second), `device`, `date`.

    Nothing hashes a latency: it is shown with its device and date.
    """

    kind: ClassVar[str] = "latency"
