"""What validate leaves behind."""

from __future__ import annotations

from typing import ClassVar

from enginehouse.artifact import Record


class Validated(Record):
    """The verdict on a manifest.

    Reports: `data_docs/...`, the pages that Great Expectations writes.

    Attributes:
        manifest: identity of the manifest that was judged.
        num_expectations: how many were checked.
        failures: one sentence per failed critical expectation; empty means let through.
        warnings: one sentence per failed expectation that lets the data through.
    """

    kind: ClassVar[str] = "validated"

    manifest: str
    num_expectations: int
    failures: tuple[str, ...]
    warnings: tuple[str, ...]
