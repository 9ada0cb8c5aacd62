"""Small data sets for the tests of label formats: names and bytes, pictures that nobody decodes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

from enginehouse.files import Files
from enginehouse.labels import LabelOptions, Reading, Severity


def lay_out(
    folder: Path, texts: Mapping[str, str | bytes], pictures: tuple[str, ...] = ()
) -> Files:
    """Write label files and pictures below `folder`."""
    content: dict[str, str | bytes] = {**texts, **dict.fromkeys(pictures, b"no real picture")}
    listing: dict[str, str] = {}
    for name, written in content.items():
        data = written if isinstance(written, bytes) else written.encode()
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        listing[name] = hashlib.md5(data).hexdigest()
    return Files(folder, listing)


def read_found(choice: ModuleType, files: Files, options: LabelOptions | None = None) -> Reading:
    """Find the label files, and read them."""
    found = choice.find(files)
    assert found
    reading: Reading = choice.read(files, found, options or LabelOptions())
    return reading


def reasons(reading: Reading, severity: Severity) -> list[str]:
    """The reasons of all findings of one severity."""
    return [finding.reason for finding in reading.findings if finding.severity == severity]


def quarantine(reading: Reading) -> set[tuple[str, str, str]]:
    """File, place and reason of all that is left out."""
    return {(row.file, row.place, row.reason) for row in reading.left_out}
