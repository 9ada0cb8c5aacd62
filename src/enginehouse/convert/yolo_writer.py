"""YOLO for detection: one text file per picture under `labels/`, and data.yaml."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from enginehouse.convert.dataset import NO_SPLIT, PICTURES, DataSet, WrittenBox, WrittenPicture
from enginehouse.errors import DataError

NEEDS_BOXES = True
FILE_PER_PICTURE = True
HINT = """\
# The data says nothing of splits, so none is named here. Ultralytics wants two:
# train: images/train
# val: images/val
"""


def write(data: DataSet, folder: Path) -> list[str]:
    """Write `labels/` beside `images/`, and data.yaml; a picture without boxes has an empty file.

    Raises:
        DataError: a label holds a line break.
    """
    import yaml

    if data.broken_labels:
        raise DataError(
            f"The label {data.broken_labels[0]!r} holds a line break, which no tool that reads "
            "YOLO expects.",
            "Rename it in the data.",
        )
    indices = {label: index for index, label in enumerate(data.labels)}
    for picture in data.pictures:
        path = folder / "labels" / PurePosixPath(picture.name).with_suffix(".txt")
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [_spell(box, picture, indices) + "\n" for box in picture.boxes]
        path.write_text("".join(lines), encoding="utf-8")
    splits = {s: f"{PICTURES}/{s}" for s in data.by_split() if s}
    content = {"path": ".", **splits, "names": dict(enumerate(data.labels))}
    text = yaml.safe_dump(content, allow_unicode=True, sort_keys=False, width=10_000)
    (folder / "data.yaml").write_text(("" if splits else HINT) + text, encoding="utf-8")
    return _say_lost(data)


def _spell(box: WrittenBox, picture: WrittenPicture, indices: dict[str, int]) -> str:
    """Index, then centre and size as shares of the picture's sides."""
    shares = (
        (box.x + box.width / 2) / picture.width,
        (box.y + box.height / 2) / picture.height,
        box.width / picture.width,
        box.height / picture.height,
    )
    return f"{indices[box.label]} " + " ".join(f"{share:.12g}" for share in shares)


def _say_lost(data: DataSet) -> list[str]:
    lost = []
    if count := data.num_polygons:
        lost.append(f"YOLO for detection has no polygons: {count} are written as their boxes.")
    if count := data.num_labelled:
        lost.append(f"YOLO has no labels of whole pictures: those of {count} are not written.")
    if data.has_groups:
        lost.append("YOLO has no groups: which pictures belong together is not written.")
    if data.has_splits and (rest := data.by_split().get("")):
        lost.append(
            f"{len(rest)} pictures have no split: they are in images/{NO_SPLIT}, which data.yaml "
            "does not name."
        )
    if any(data.ids.get(label, index) != index for index, label in enumerate(data.labels)):
        lost.append("YOLO numbers labels from 0: the ids that they had are not written.")
    return lost
