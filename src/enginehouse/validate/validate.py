"""Validate: Great Expectations over the manifest; a failed critical one stops the run."""

from __future__ import annotations

from typing import ClassVar

from enginehouse.artifact import Record


class Validated(Record):
    """Proof that a manifest met its expectations."""

    kind: ClassVar[str] = "validated"

    manifest: str
    num_expectations: int
