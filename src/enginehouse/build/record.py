"""What build leaves behind."""

from __future__ import annotations

from typing import ClassVar

from enginehouse.artifact import Record
from enginehouse.engine import Sidecar, Target


class Engine(Record):
    """The files that the backend wrote, and what they were built for."""

    kind: ClassVar[str] = "engine"
    schema_number: ClassVar[int] = 2

    target: Target
    sidecar: Sidecar
