"""COCO: one JSON file, or one per split, with file names that start from `images/`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from enginehouse.convert.dataset import NO_SPLIT, DataSet, WrittenBox, WrittenPicture

NEEDS_BOXES = True
FILE_PER_PICTURE = False


def write(data: DataSet, folder: Path) -> list[str]:
    """Write `annotations.json`, or `annotations/<split>.json`; ids are unique across them.

    A category keeps the id it had; the others are numbered on, from 1.
    """
    ids = number_categories(data)
    categories = [{"id": ids[label], "name": label} for label in data.labels]
    image_ids = {picture.name: number for number, picture in enumerate(data.pictures, start=1)}
    first = 1
    for split, pictures in data.by_split().items() if data.has_splits else [("", data.pictures)]:
        annotations = list(_list_annotations(pictures, image_ids, ids, first))
        first += len(annotations)
        content = {
            "info": {"description": "Written by enginehouse convert."},
            "licenses": [],
            "images": [_describe(picture, image_ids[picture.name]) for picture in pictures],
            "annotations": annotations,
            "categories": categories,
        }
        path = folder / "annotations.json"
        if data.has_splits:
            path = folder / "annotations" / f"{split or NO_SPLIT}.json"
            path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8")
    return _say_lost(data)


def number_categories(data: DataSet) -> dict[str, int]:
    """Label to category id: the one it had, else the next free one."""
    known = {label: data.ids[label] for label in data.labels if label in data.ids}
    free = max(known.values(), default=0)
    ids = {}
    for label in data.labels:
        if label not in known:
            free += 1
        ids[label] = known.get(label, free)
    return ids


def _describe(picture: WrittenPicture, number: int) -> dict[str, Any]:
    size = {"width": picture.width, "height": picture.height}
    return {"id": number, "file_name": picture.name, **size}


def _list_annotations(
    pictures: Iterable[WrittenPicture], image_ids: dict[str, int], ids: dict[str, int], first: int
) -> Iterable[dict[str, Any]]:
    boxes = ((picture, box) for picture in pictures for box in picture.boxes)
    for number, (picture, box) in enumerate(boxes, start=first):
        yield {
            "id": number,
            "image_id": image_ids[picture.name],
            "category_id": ids[box.label],
            "bbox": [box.x, box.y, box.width, box.height],
            "area": box.area,
            "segmentation": _segmentation(box),
            "iscrowd": 0,
        }


def _segmentation(box: WrittenBox) -> list[list[float]]:
    return [list(polygon) for polygon in box.polygons]


def _say_lost(data: DataSet) -> list[str]:
    lost = []
    if count := data.num_labelled:
        lost.append(f"COCO has no labels of whole pictures: those of {count} are not written.")
    if data.has_groups:
        lost.append("COCO has no groups: which pictures belong together is not written.")
    return lost
