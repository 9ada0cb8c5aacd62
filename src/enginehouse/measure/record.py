"""What measure leaves behind."""

from __future__ import annotations

from typing import ClassVar

from enginehouse.artifact import Record


class Latency(Record):
    """Notes: `rows` (name, milliseconds: the median, pictures_per_second), `batch`, `threads`,
    `rounds`, `device`, `date`.

    Nothing hashes a latency: it is shown with its device and date.
    """

    kind: ClassVar[str] = "latency"
