"""What ingest takes and leaves behind."""

from __future__ import annotations

from typing import ClassVar

from enginehouse.artifact import Record


class DataVersion(Record):
    """Which data: the MD5 that DVC gives (or would give) the folder. It has no bytes."""

    kind: ClassVar[str] = "data"

    digest: str


class Manifest(Record):
    """One row per usable picture, one per quarantined file.

    Files: `manifest.parquet` with the columns path (relative, its id), md5 (of the file), pixels
    (SHA-256 of the decoded RGB picture), width, height, mode, label, part, brightness, contrast,
    sharpness; `quarantine.parquet` with path, reason, detail.
    """

    kind: ClassVar[str] = "manifest"

    classes: tuple[str, ...]
    num_rows: int
    num_quarantined: int
