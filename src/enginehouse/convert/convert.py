"""Convert: a manifest is written out in another format, with a report of what became of what."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from enginehouse.artifact import Report, silent
from enginehouse.choices import load_choice
from enginehouse.convert.dataset import PICTURES, DataSet, read_data_set
from enginehouse.convert.pictures import UPRIGHT_SUFFIX, copy_picture, find_turned
from enginehouse.errors import DataError
from enginehouse.files import Files
from enginehouse.ingest.record import Manifest
from enginehouse.store import no_room

REPORT = "report.json"


def convert(
    manifest: Manifest,
    tables: Mapping[str, Path],
    files: Files,
    to: str,
    out: Path,
    about: Mapping[str, Any],
    with_pictures: bool = True,
    report: Report = silent,
) -> dict[str, Any]:
    """Write a manifest as `to` into a new folder, with a `report.json`; all of it, or nothing.

    Args:
        manifest: of data without errors.
        tables: file name to path, of the manifest's files.
        files: where the pictures lie.
        out: a folder that is empty or not there.
        about: what else the report says: where the data is from, what was dropped on the way.
        with_pictures: copy the pictures to `out/images`, too.

    Returns:
        the report: `about`, and what was written, renamed and changed; plain data.

    Raises:
        DataError: the data has no boxes and the format nothing else, a label cannot be spelled,
            or a picture changed meanwhile.
        RecipeError: there is no such format.
    """
    writer = load_choice("convert", to)
    assert not manifest.num_errors, "data with errors is refused before"
    import pandas as pd

    paths = pd.read_parquet(tables["manifest.parquet"], columns=["path"])["path"]
    turned = {path: UPRIGHT_SUFFIX for path in paths if find_turned(files, path)}
    data = read_data_set(manifest, tables, turned, writer.FILE_PER_PICTURE)
    if writer.NEEDS_BOXES and not data.has_boxes:
        raise DataError(
            f"{to} holds boxes, and this data ({manifest.format}) has labels of whole pictures.",
            "Write it as csv: --to csv",
        )
    with no_room(out.parent), _all_or_nothing(out) as draft:
        changed = writer.write(data, draft)
        if data.num_unnamed:
            changed.append(f"{data.num_unnamed} boxes bear no label: written as {data.unnamed!r}.")
        label_files = [p.relative_to(draft).as_posix() for p in draft.rglob("*") if p.is_file()]
        told = {
            **about,
            "to": to,
            "images": len(data.pictures),
            "boxes": data.num_boxes,
            "labels": list(data.labels),
            "label_files": sorted(label_files),
            "renamed": list(_list_renamed(data, turned)),
            "changed": changed,
        }
        text = json.dumps(told, indent=1, ensure_ascii=False)
        (draft / REPORT).write_text(text + "\n", encoding="utf-8")
        for done, picture in enumerate(data.pictures if with_pictures else (), start=1):
            target = draft / PICTURES / picture.name
            copy_picture(files, picture.path, target, picture.path in turned)
            report("copying pictures", done, len(data.pictures))
    return told


@contextmanager
def _all_or_nothing(out: Path) -> Iterator[Path]:
    """A folder beside `out` that becomes `out` if all goes well."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as scratch:
        draft = Path(scratch) / out.name
        draft.mkdir()
        yield draft
        draft.replace(out)  # an empty folder of that name is replaced, a full one never


def _list_renamed(data: DataSet, turned: Mapping[str, str]) -> Iterator[dict[str, str]]:
    for picture in data.pictures:
        if PurePosixPath(picture.name).name != PurePosixPath(picture.path).name:
            reason = "another picture has that name"
            if picture.path in turned:
                reason = "written upright as PNG: EXIF turns it, which many readers ignore"
            yield {"file": picture.path, "name": f"{PICTURES}/{picture.name}", "reason": reason}
