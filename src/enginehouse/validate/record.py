"""What validate leaves behind."""

from __future__ import annotations

from typing import ClassVar, cast

from enginehouse.artifact import Record


class Validated(Record):
    """The verdict on a manifest.

    Reports: `data_docs/...`, the pages that Great Expectations writes; `findings.parquet` with
    the columns of the manifest's table of that name, one row per thing that a person should know
    (what fails is an `error`); `near_duplicates.parquet` with a, b, distance (bits of 64),
    label_a, label_b, split_a, split_b.

    Attributes:
        manifest: identity of the manifest that was judged.
        num_expectations: how many were checked.
        failures: what stops a run, in sentences that name files; empty means let through.
    """

    kind: ClassVar[str] = "validated"
    schema_number: ClassVar[int] = 2

    manifest: str
    num_expectations: int
    failures: tuple[str, ...]

    @property
    def warnings(self) -> tuple[str, ...]:
        """What lets the data through and should still be looked at, in sentences.

        They stand among the notes: drift tells of the data before, on which nothing that is
        computed from this manifest depends.
        """
        return tuple(cast(list[str], self.notes.get("warnings", [])))
