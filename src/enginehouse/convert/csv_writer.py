"""CSV: one row per box (or per label of a picture), in UTF-8, with names below `images/`."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from enginehouse.convert.dataset import DataSet, WrittenBox, WrittenPicture

NEEDS_BOXES = False
FILE_PER_PICTURE = False


def write(data: DataSet, folder: Path) -> list[str]:
    """Write `labels.csv`: image, label, then the box, split and group where the data has any.

    A picture without boxes is a row whose cells for label and box are empty. `classes.txt` beside
    it has the labels in index order.
    """
    columns = ["image", "label", *(("x", "y", "width", "height") if data.has_boxes else ())]
    columns += [*(["split"] if data.has_splits else []), *(["group"] if data.has_groups else [])]
    with (folder / "labels.csv").open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, columns, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        for picture in data.pictures:
            writer.writerows(_list_rows(picture))
    if not data.broken_labels:
        names = "".join(f"{label}\n" for label in data.labels)
        (folder / "classes.txt").write_text(names, encoding="utf-8")
    return _say_lost(data)


def _list_rows(picture: WrittenPicture) -> Iterator[dict[str, str]]:
    common = {"image": picture.name, "split": picture.split, "group": picture.group}
    for box in picture.boxes:
        yield {**common, "label": box.label, **_spell(box)}
    for label in picture.labels:
        yield {**common, "label": label}
    if not picture.boxes and not picture.labels:
        yield common


def _spell(box: WrittenBox) -> dict[str, str]:
    sides = {"x": box.x, "y": box.y, "width": box.width, "height": box.height}
    return {name: f"{number:.15g}" for name, number in sides.items()}


def _say_lost(data: DataSet) -> list[str]:
    lost = []
    if count := data.num_polygons:
        lost.append(f"CSV has no polygons: {count} are written as their boxes.")
    if data.ids:
        lost.append("CSV has no label ids: labels are written by name.")
    if data.broken_labels:
        lost.append("A label holds a line break: the order of labels is not written.")
    return lost
