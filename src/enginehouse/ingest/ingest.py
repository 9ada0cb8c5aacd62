"""Ingest: any label format becomes one manifest; what cannot be used is quarantined by name."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from enginehouse.artifact import Config, Record
from enginehouse.choices import Choice

LIBRARIES = ("pillow", "numpy", "pandas", "pyarrow")


class DataVersion(Record):
    """Which data: the MD5 that DVC gives (or would give) the folder. It has no bytes."""

    kind: ClassVar[str] = "data"

    digest: str


class IngestConfig(Config):
    """How labels and parts are read."""

    format: Annotated[str, Choice("formats")] = Field(
        "class_folders", description="Label format of the data set."
    )
    group_pattern: str = Field(
        "",
        max_length=200,
        description="Regular expression on the file name whose first group is the part id; "
        "pictures of one part stay in one split. Empty: every picture is its own part.",
    )


class Manifest(Record):
    """One row per usable picture, one per quarantined file."""

    kind: ClassVar[str] = "manifest"

    classes: tuple[str, ...]
    num_rows: int
    num_quarantined: int
