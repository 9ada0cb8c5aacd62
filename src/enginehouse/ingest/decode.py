"""The first pass: every picture is described, once, and those that cannot be used are told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from enginehouse.artifact import Workspace
from enginehouse.files import Files
from enginehouse.ingest.account import Account
from enginehouse.ingest.describe import ITS_NAME, Described
from enginehouse.ingest.pictures import describe_pictures
from enginehouse.ingest.selection import Selection
from enginehouse.ingest.tables import DESCRIBED, TableWriter
from enginehouse.labels import Finding, Labelled, LeftOut

DESCRIBE = "enginehouse.ingest.describe"


def decode_pictures(
    files: Files, selection: Selection, account: Account, path: Path, here: Workspace
) -> int:
    """Describe the selected pictures in a table at `path`; returns how many can be used."""
    memo = here.memo(DESCRIBE)
    described = describe_pictures(files.folder, files.listing, selection.paths, memo, here.report)
    with TableWriter(path, DESCRIBED) as writer:
        for picture, found in described:
            if isinstance(found, Described):
                writer.add((picture, files.listing[picture], *found))
                for finding in _say_handling(picture, found):
                    account.add_of_many(finding)
            else:
                detail = found.detail.replace(ITS_NAME, picture)
                boxes = _say_boxes(selection[picture])
                account.left_out.append(LeftOut(picture, found.reason, detail + boxes))
    if not writer.num_rows:
        account.findings.append(_say_none(account))
    return writer.num_rows


def _say_boxes(labelled: Labelled) -> str:
    if not labelled.boxes:
        return ""
    source = f" in {labelled.file}" if labelled.file else ""
    return f" Its {len(labelled.boxes)} boxes{source} are left out, too."


def _say_handling(path: str, found: Described) -> Iterator[Finding]:
    for note in found.handling.split("; "):
        if note.startswith("first of "):
            detail = f"{path} is animated or has several pages; only the first is used ({note})."
            remedy = "Save each frame as a picture of its own, if the others count."
            yield Finding("warning", "several frames", path, detail, remedy)
        elif note.startswith("halved"):
            detail = f"{path} is very large, {found.width} x {found.height} pixels; it is used at "
            yield Finding("warning", "very large picture", path, f"{detail}half its size.")
        elif note.startswith("only "):
            detail = f"{path}: {note}, so it comes out dark."
            remedy = "If the camera gives 12 bits, save its values times 16."
            yield Finding("warning", "dark 16-bit picture", path, detail, remedy)
    named = _name_format_of(path)
    if named != found.format:
        detail = f"{path} is mislabelled: it is named as {named} and holds {found.format}; it is "
        remedy = "Rename it, so that other programs can read it, too."
        yield Finding("warning", "mislabelled", path, f"{detail}used as that.", remedy)


def _name_format_of(path: str) -> str:
    """The format that a name speaks of."""
    from PIL import Image

    from enginehouse.picture import NAMES

    Image.init()
    suffix = PurePosixPath(path).suffix.lower()
    kind = Image.EXTENSION.get(suffix, suffix.removeprefix(".").upper())
    return NAMES.get(kind, kind)


def _say_none(account: Account) -> Finding:
    reasons = [f"{item.file}: {item.reason}" for item in account.left_out if item.reason != "junk"]
    first = "; ".join(reasons[:3]) or "there are no files with the suffix of a picture"
    return Finding(
        "error",
        "no usable picture",
        "",
        f"There is no usable picture; {first}.",
        "Name the folder that holds the pictures, and see the quarantine for each file.",
    )
