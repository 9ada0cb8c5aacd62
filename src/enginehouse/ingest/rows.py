"""The second pass: described pictures and their labels become the rows of the manifest."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from enginehouse.ingest.account import Account
from enginehouse.ingest.boxes import settle_boxes
from enginehouse.ingest.describe import Described
from enginehouse.ingest.frames import Frame
from enginehouse.ingest.patterns import PathPattern
from enginehouse.ingest.selection import Selection
from enginehouse.ingest.systematic import find_systematic
from enginehouse.ingest.tables import BOXES, DESCRIBED, MANIFEST, TableWriter, iter_rows
from enginehouse.labels import Labelled


def write_rows(
    described: Path,
    selection: Selection,
    unsure: Collection[str],
    patterns: Sequence[PathPattern],
    account: Account,
    folder: Path,
) -> tuple[int, int]:
    """Write `manifest.parquet` and `boxes.parquet` into a folder.

    Args:
        described: the table of the first pass.
        unsure: pictures that are not used although they can be decoded.
        patterns: for part and time.

    Returns:
        How many pictures and boxes there are.
    """
    wrong = find_systematic(_iter_frames(described, selection))
    account.findings += wrong
    wrong_files = {finding.file for finding in wrong}
    with (
        TableWriter(folder / "manifest.parquet", MANIFEST) as pictures,
        TableWriter(folder / "boxes.parquet", BOXES, box=True) as boxes,
    ):
        for path, md5, *values in iter_rows(described, list(DESCRIBED)):
            if path in unsure:
                continue
            found, labelled = Described(*values), selection[path]
            part, time = _read_paths(path, found, labelled, patterns)
            row = {**_describe_labels(selection, path), "part": part, "time": time}
            row |= {"path": path, "md5": md5, **found._asdict()}
            pictures.add(tuple(row[name] for name in MANIFEST))
            if labelled.boxes and labelled.file not in wrong_files:
                frame = Frame(found.width, found.height, found.orientation)
                _write_boxes(path, labelled, frame, boxes, account)
    for pattern in patterns:
        account.findings += pattern.say_missed()
    return pictures.num_rows, boxes.num_rows


def _iter_frames(described: Path, selection: Selection) -> Iterator[tuple[Labelled, Frame]]:
    if not selection.rule.boxed:
        return
    columns = ["path", "width", "height", "orientation"]
    for path, width, height, orientation in iter_rows(described, columns):
        yield selection[path], Frame(width, height, orientation)


def _read_paths(
    path: str, found: Described, labelled: Labelled, patterns: Sequence[PathPattern]
) -> tuple[str, str]:
    """Part and time. By default copies share a part, and a new name changes nothing."""
    group, time = patterns
    return (
        labelled.group or group.read(path) or found.pixels,
        labelled.time or time.read(path),
    )


def _describe_labels(selection: Selection, path: str) -> dict[str, Any]:
    labelled = selection[path]
    return {
        "label": selection.label(path),
        "labels": list(selection.list_labels(path)),
        "split": labelled.split,
        "source": labelled.file,
        "place": labelled.place,
    }


def _write_boxes(
    path: str, labelled: Labelled, frame: Frame, boxes: TableWriter, account: Account
) -> None:
    settled = settle_boxes(path, labelled, frame)
    account.left_out += settled.left_out
    account.findings += settled.findings
    for box in settled.boxes:
        shape = (box.x, box.y, box.width, box.height)
        boxes.add((path, box.label, *shape, box.polygons, labelled.file, box.place))
