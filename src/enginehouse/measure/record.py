"""What measure is told, and what it leaves behind."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from enginehouse.artifact import Config, Record

EAGER = "pytorch eager fp32"


class MeasureConfig(Config):
    """How latency is taken."""

    batch: int = Field(1, ge=1, le=4096, description="Pictures per call.")
    rounds: int = Field(15, ge=3, le=1000, description="Alternating rounds; the median counts.")
    threads: int = Field(0, ge=0, le=256, description="Threads per side; 0: all physical cores.")


class Latency(Record):
    """Notes: `rows` (name, milliseconds: the median, p90: what nine of ten rounds stay below,
    pictures_per_second), `batch`, `threads`, `rounds`, `device`, `date`. The rows are called as
    the candidates are, and the last one `EAGER`.

    No key hashes a time. What was timed, and how, is the identity: whoever decides by these times
    decides again when that changes.

    Attributes:
        engines: identities of the engines by candidate.
        device: identity of the device.
    """

    kind: ClassVar[str] = "latency"
    schema_number: ClassVar[int] = 3

    engines: dict[str, str]
    device: str
    config: MeasureConfig
