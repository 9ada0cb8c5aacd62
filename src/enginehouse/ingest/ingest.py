"""Ingest: any label format becomes one manifest; what cannot be used is quarantined by name."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, field_validator

from enginehouse.artifact import Config, Source, Workspace
from enginehouse.choices import Choice, load_choice
from enginehouse.errors import DataError, UnreadablePicture
from enginehouse.ingest.record import DataVersion, Manifest
from enginehouse.ingest.statistics import measure_picture
from enginehouse.picture import decode_picture

if TYPE_CHECKING:
    import pandas as pd

LIBRARIES = ("pillow", "numpy", "pandas", "pyarrow")

COLUMNS = ("path", "md5", "pixels", "width", "height", "mode", "label", "part")
STATISTICS = ("brightness", "contrast", "sharpness")


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

    @field_validator("group_pattern")
    @classmethod
    def _check_pattern(cls, text: str) -> str:
        try:
            groups = re.compile(text).groups
        except re.error as error:
            raise ValueError(f"group_pattern {text!r} is no regular expression: {error}") from error
        if text and groups < 1:
            raise ValueError(f"group_pattern {text!r} has no group; put the part id in (...)")
        return text


def ingest(data: DataVersion, config: IngestConfig, here: Workspace) -> Manifest:
    """Read, check and describe every file of a data version.

    Raises:
        DataError: no picture could be used, or a file changed since the version was taken.
    """
    source = here.source(data.digest)
    labels, rejected = load_choice("formats", config.format).read_labels(source.listing)
    rows: list[dict[str, Any]] = []
    with ThreadPoolExecutor() as pool:  # Pillow and hashlib let go of the interpreter lock
        described = pool.map(lambda path: describe_file(source, path), labels)
        for path, row in zip(labels, described, strict=True):
            if isinstance(row, UnreadablePicture):
                rejected[path] = (row.reason, row.message)
            else:
                part = _find_part(path, config.group_pattern)
                rows.append({"path": path, "label": labels[path], "part": part, **row})
            here.report("reading pictures", len(rows) + len(rejected), len(labels))
    if not rows:
        raise DataError(
            f"None of the {len(source.listing)} files can be used; the first: "
            + "; ".join(f"{path}: {why[0]}" for path, why in list(rejected.items())[:3]),
            "Point at a folder whose sub-folders are the classes and hold pictures.",
        )
    _write_table(here, "manifest.parquet", rows, [*COLUMNS, *STATISTICS])
    quarantine = [{"path": p, "reason": r, "detail": d} for p, (r, d) in sorted(rejected.items())]
    _write_table(here, "quarantine.parquet", quarantine, ["path", "reason", "detail"])
    return Manifest(
        files=here.seal(["manifest.parquet", "quarantine.parquet"]),
        classes=tuple(sorted(set(labels.values()))),
        num_rows=len(rows),
        num_quarantined=len(rejected),
    )


def describe_file(source: Source, path: str) -> dict[str, Any] | UnreadablePicture:
    """One row of the manifest, or why the file cannot be used.

    Raises:
        DataError: its content is no longer what the data version says.
    """
    content = (source.folder / path).read_bytes()
    md5 = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if md5 != source.listing[path]:
        raise DataError(
            f"{path} changed while the run was reading it (MD5 {md5}, the data version has "
            f"{source.listing[path]}).",
            "Run again when nothing writes into the data folder.",
        )
    try:
        picture = decode_picture(BytesIO(content), path)
    except UnreadablePicture as error:
        return error
    shape = f"{picture.array.shape}".encode()
    return {
        "md5": md5,
        "pixels": hashlib.sha256(shape + picture.array.tobytes()).hexdigest(),
        "width": picture.width,
        "height": picture.height,
        "mode": picture.mode,
        **measure_picture(picture.array),
    }


def _find_part(path: str, pattern: str) -> str:
    found = re.search(pattern, Path(path).name) if pattern else None
    return found.group(1) if found and found.group(1) else path


def _write_table(
    here: Workspace, name: str, rows: Iterable[dict[str, Any]], columns: list[str]
) -> None:
    import pandas as pd

    table: pd.DataFrame = pd.DataFrame(list(rows), columns=columns)
    table.to_parquet(here.scratch / name, index=False)
