"""What a writer takes: a manifest as plain pictures and boxes, each with the name it gets.

Knows the tables of docs/manifest.md, and nothing of any format.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

from enginehouse.ingest.record import Manifest
from enginehouse.labels import SPLIT_NAMES

PICTURES = "images"  # the folder that the names of pictures start from
UNNAMED = "object"  # what a box without a label becomes where the recipe has no word for it
NO_SPLIT = "rest"  # the folder of pictures without a split, where others have one


@dataclass(frozen=True, slots=True)
class WrittenBox:
    """One labelled region, in pixels of the upright picture, inside it."""

    label: str
    x: float
    y: float
    width: float
    height: float
    polygons: tuple[tuple[float, ...], ...] = ()

    @property
    def area(self) -> float:
        """Pixels that the polygons cover (shoelace formula), or the box if there are none."""
        if not self.polygons:
            return self.width * self.height
        return sum(_shoelace(polygon) for polygon in self.polygons)


@dataclass(frozen=True, slots=True)
class WrittenPicture:
    """One picture.

    Attributes:
        path: below the folder that it comes from.
        name: below `images/` of the folder that is written.
        labels: of the picture as a whole; those of its boxes are not repeated.
        group: what must stay in one split; "" if that is the picture alone.
    """

    path: str
    name: str
    width: int
    height: int
    labels: tuple[str, ...]
    split: str
    group: str
    boxes: tuple[WrittenBox, ...]


@dataclass(frozen=True)
class DataSet:
    """All that is written.

    Attributes:
        labels: of the boxes (or of the pictures, where there are no boxes), in index order.
        ids: label to the id that it had, where it had one.
        has_boxes: whether labels are those of boxes; a picture without any shows nothing.
        num_unnamed: boxes that bear no label.
        unnamed: the label that they get.
    """

    labels: tuple[str, ...]
    ids: Mapping[str, int]
    has_boxes: bool
    pictures: tuple[WrittenPicture, ...]
    num_unnamed: int
    unnamed: str

    @property
    def has_splits(self) -> bool:
        """Whether the data itself says which picture is for what."""
        return any(picture.split for picture in self.pictures)

    @property
    def has_groups(self) -> bool:
        """Whether some pictures belong together."""
        return any(picture.group for picture in self.pictures)

    @property
    def num_boxes(self) -> int:
        """Boxes of all pictures."""
        return sum(len(picture.boxes) for picture in self.pictures)

    @property
    def num_polygons(self) -> int:
        """Boxes that have polygons."""
        return sum(bool(box.polygons) for picture in self.pictures for box in picture.boxes)

    @property
    def num_labelled(self) -> int:
        """Pictures with labels of the whole picture."""
        return sum(bool(picture.labels) for picture in self.pictures)

    @property
    def broken_labels(self) -> list[str]:
        """Labels that hold a line break, which files of one name per line cannot have."""
        return [label for label in self.labels if len(f"{label}.".splitlines()) > 1]

    def by_split(self) -> dict[str, list[WrittenPicture]]:
        """Pictures by split; under "" those that have none."""
        groups: dict[str, list[WrittenPicture]] = {}
        for picture in self.pictures:
            groups.setdefault(picture.split, []).append(picture)
        return {split: groups[split] for split in ("train", "val", "test", "") if split in groups}


class Writer(Protocol):
    """The names in a module that is listed as a writer."""

    NEEDS_BOXES: bool  # whether it can write nothing else
    FILE_PER_PICTURE: bool  # whether each picture has a label file, in a folder of its split

    def write(self, data: DataSet, folder: Path) -> list[str]:
        """Write the label files; returns one sentence per thing that this format cannot hold.

        Raises:
            DataError: a label that this format cannot spell.
        """


def read_data_set(
    manifest: Manifest, tables: Mapping[str, Path], upright: Mapping[str, str], per_picture: bool
) -> DataSet:
    """Read the tables of a manifest, and give every picture the name it will have.

    Args:
        tables: file name to path, of the manifest's files.
        upright: path of each picture that is written anew, to the suffix that it then has.
        per_picture: each picture gets a label file of its name in a folder of its split; so names
            must differ without their suffix, too.
    """
    rows = _read_rows(tables["manifest.parquet"])
    unnamed = manifest.defect or UNNAMED
    boxes: dict[str, list[WrittenBox]] = {}
    num_unnamed = 0
    for box in _read_rows(tables["boxes.parquet"]):
        num_unnamed += not box["label"]
        boxes.setdefault(box["path"], []).append(_make_box(box, unnamed))
    derived = {manifest.good, manifest.defect}  # classes that follow from boxes
    by_split = per_picture and any(row["split"] for row in rows)
    paths = [_shorten(row, by_split, upright.get(row["path"])) for row in rows]
    names = _tell_apart(paths, by_stem=per_picture)
    pictures = tuple(
        _make_picture(row, name, tuple(boxes.get(row["path"], ())), derived)
        for row, name in zip(rows, names, strict=True)
    )
    has_boxes = bool(manifest.good) or manifest.num_boxes > 0
    labels = _list_labels(manifest, pictures, has_boxes)
    return DataSet(labels, manifest.label_ids, has_boxes, pictures, num_unnamed, unnamed)


def _read_rows(path: Path) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

    rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return rows


def _make_box(row: Mapping[str, Any], unnamed: str) -> WrittenBox:
    polygons = tuple(tuple(polygon) for polygon in row["polygons"])
    sides = row["x"], row["y"], row["width"], row["height"]
    return WrittenBox(row["label"] or unnamed, *sides, polygons)


def _make_picture(
    row: Mapping[str, Any], name: str, boxes: tuple[WrittenBox, ...], derived: Set[str]
) -> WrittenPicture:
    of_boxes = {*derived, *(box.label for box in boxes)}
    return WrittenPicture(
        path=row["path"],
        name=name,
        width=row["width"],
        height=row["height"],
        labels=tuple(label for label in row["labels"] if label not in of_boxes),
        split=row["split"],
        group="" if row["part"] == row["pixels"] else row["part"],
        boxes=boxes,
    )


def _list_labels(
    manifest: Manifest, pictures: Iterable[WrittenPicture], has_boxes: bool
) -> tuple[str, ...]:
    """The labels in index order; without classes that follow from boxes and are no box's label."""
    if not has_boxes:
        return manifest.labels
    used = {box.label for picture in pictures for box in picture.boxes}
    dropped = {"", manifest.good, manifest.defect} - used - manifest.label_ids.keys()
    known = dict.fromkeys((*manifest.labels, *sorted(used)))
    return tuple(label for label in known if label not in dropped)


def _shorten(row: Mapping[str, Any], by_split: bool, suffix: str | None) -> str:
    """A picture's path below `images/`: folders of that name, which add nothing, are left out."""
    pure, split = PurePosixPath(row["path"]), row["split"]
    folders = [part for part in pure.parent.parts if part.lower() != PICTURES]
    if by_split:
        rest = [part for part in folders if SPLIT_NAMES.get(part.lower()) != (split or None)]
        folders = [split or NO_SPLIT, *rest]
    return PurePosixPath(*folders, pure.stem + (suffix or pure.suffix)).as_posix()


def _tell_apart(paths: Iterable[str], by_stem: bool) -> list[str]:
    """The same paths, numbered where two would be one (also where letter case is ignored)."""
    taken: set[str] = set()
    names = []
    for path in paths:
        pure, number = PurePosixPath(path), 1
        name = path
        while (key := _fold(name, by_stem)) in taken:
            number += 1
            name = pure.with_name(f"{pure.stem}_{number}{pure.suffix}").as_posix()
        taken.add(key)
        names.append(name)
    return names


def _fold(name: str, by_stem: bool) -> str:
    shown = PurePosixPath(name).with_suffix("").as_posix() if by_stem else name
    return unicodedata.normalize("NFC", shown).casefold()


def _shoelace(polygon: tuple[float, ...]) -> float:
    points = list(zip(polygon[::2], polygon[1::2], strict=True))
    pairs = zip(points, [*points[1:], points[0]], strict=True)
    return abs(sum(ax * by - bx * ay for (ax, ay), (bx, by) in pairs)) / 2
