"""COCO: pictures, boxes and categories in one JSON file, or one per split."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

from enginehouse.files import Files
from enginehouse.formats._coco_file import (
    CocoFile,
    CocoImage,
    check_duplicate_ids,
    id_of,
    name_entry,
    note_not_a_number,
    open_coco,
    shorten,
)
from enginehouse.formats._coco_regions import Problem, read_region
from enginehouse.formats._json import is_blank, list_json, peek_json
from enginehouse.formats._numbers import size_of
from enginehouse.formats._pairs import Pairs
from enginehouse.formats._splits import split_of
from enginehouse.labels import Box, Labelled, LabelOptions, LeftOut, Reading

LIBRARIES = ("numpy", "opencv-python-headless", "pycocotools")

_MARKS = (r'"images"\s*:\s*\[', r'"annotations"\s*:\s*\[', r'"categories"\s*:\s*\[')
_ROW = r'"(image_id|category_id|bbox|file_name)"\s*:'
_USUAL_NAME = re.compile(r"annotations|instances|coco", re.IGNORECASE)


def find(files: Files) -> list[str]:
    """JSON files with the lists of COCO; an empty one can be told by its name only."""
    found = []
    for path in list_json(files):
        text = peek_json(files, path)
        marks = sum(bool(re.search(mark, text)) for mark in _MARKS)
        captions = '"caption"' in text and '"category_id"' not in text
        empty = bool(_USUAL_NAME.search(PurePosixPath(path).name)) and is_blank(files, path)
        if ((marks >= 2 or (marks == 1 and re.search(_ROW, text))) and not captions) or empty:
            found.append(path)
    return found


def read(files: Files, label_files: Sequence[str], options: LabelOptions) -> Reading:
    """Read COCO files; of several, each gives the split that its name or folder says."""
    reading = Reading()
    pairs = Pairs(files)
    opened = []
    owners: dict[str, CocoFile] = {}
    for path in label_files:
        file = open_coco(files, path, reading)
        if file is not None:
            _read_images(file, pairs)
            _read_annotations(file)
            _put_pictures(file, owners)
            file.tables.clear()  # one file's JSON at a time is enough in memory
            file.images.clear()
            opened.append(file)
    _put_classes(opened, reading)
    return reading


def _read_images(file: CocoFile, pairs: Pairs) -> None:
    check_duplicate_ids(file, "images")
    if not file.tables["images"]:
        remedy = "Export the labels again, with their pictures."
        file.find("error", "no images", "the list images is empty (0 pictures).", remedy)
    for index, entry in enumerate(file.tables["images"]):
        place = name_entry("images", index, entry)
        identity = id_of(entry, "id") if isinstance(entry, dict) else ""
        name = entry.get("file_name") if isinstance(entry, dict) else None
        if not identity or not isinstance(name, str) or not name.strip():
            detail = f"an image needs an `id` and a `file_name`, found {str(entry)[:80]}"
            file.leave_out("missing key", detail, place)
            continue
        image = file.images.setdefault(identity, CocoImage(identity, name))
        image.size = _read_size(file, entry, place)
        found = pairs.by_given_name(name, file.path, file.split)
        if isinstance(found, str):
            image.path = found
        elif found.reason == "path outside the data":
            remedy = "Write file names from the data folder; put the picture inside it."
            file.find("error", found.reason, f"{found.detail}.", remedy, place)
        else:
            image.problem = found.reason, found.detail


def _read_size(file: CocoFile, entry: dict[str, Any], place: str) -> tuple[int, int] | None:
    width, height = entry.get("width"), entry.get("height")
    size = size_of(width, height)
    if size is None and not (width is None and height is None):
        detail = f"{entry['file_name']} is said to be {width!r} by {height!r} pixels, which is no "
        remedy = "Correct width and height in the file, or remove them."
        file.find("warning", "bad size", f"{detail}size; its real size is used.", remedy, place)
    return size


def _read_annotations(file: CocoFile) -> None:
    check_duplicate_ids(file, "annotations")
    unnumbered, crowds, masks = 0, 0, 0
    for index, entry in enumerate(file.tables["annotations"]):
        place = name_entry("annotations", index, entry)
        if not isinstance(entry, dict):
            file.leave_out("bad annotation", f"it is no object: {str(entry)[:80]}", place)
            continue
        unnumbered += not id_of(entry, "id")
        crowds += entry.get("iscrowd") in (1, True, "1")
        image = file.images.get(id_of(entry, "image_id"))
        if image is None:
            shown = repr(entry.get("image_id"))
            file.leave_out("unknown image_id", f"no image has the image_id {shown}", place)
            continue
        masks += _read_annotation(file, image, entry, place)
    shown = shorten(file.placeholders)
    for count, reason, detail in (
        (unnumbered, "annotations without id", "annotations have no id; they are named by index"),
        (crowds, "crowd regions", "annotations are crowds (iscrowd); each is taken as one region"),
        (len(file.placeholders), "placeholder boxes", f"boxes of zeros mean no object: {shown}"),
        (masks, "masks as outlines", "masks are kept as outlines of their parts, without holes"),
    ):
        if count:
            file.find("info", reason, f"{count} {detail}.")


def _read_annotation(file: CocoFile, image: CocoImage, entry: dict[str, Any], place: str) -> bool:
    """Put one annotation to its picture; returns whether it is a mask."""
    image.num_annotations += 1
    region = read_region(entry)
    label = file.categories.get(id_of(entry, "category_id"), "")
    if not isinstance(region, Problem) and not label and region.xywh is not None:
        shown = repr(entry.get("category_id"))
        known = shorten([f"{number} ({name})" for number, name in file.categories.items()])
        region = Problem("unknown category_id", f"no category has the id {shown}; known: {known}")
    if isinstance(region, Problem):
        file.used.add(label)
        image.num_left_out += 1
        if region.reason == "not a number":
            note_not_a_number(file, place, region.detail)
        else:
            file.leave_out(region.reason, region.detail, place)
        return False
    for reason, detail in region.notes:
        file.find("warning", reason, f"{detail}.", "Correct it where the labels are made.", place)
    if region.xywh is None:
        file.placeholders.append(place)
        return False
    file.used.add(label)
    image.boxes.append(Box(label, region.xywh, region.polygons, place))
    return region.is_mask


def _put_pictures(file: CocoFile, owners: dict[str, CocoFile]) -> None:
    """Each image with its boxes goes to its picture, unless another entry has it already."""
    names: dict[str, str] = {}
    shared: dict[str, list[str]] = {}
    for image in file.images.values():
        place = f"image {image.id}"
        if not image.path:
            _leave_out_image(file, image, place)
        elif image.path in names:
            detail = f"{image.path} is a duplicate: it is listed as image {names[image.path]}, too."
            remedy = "List each picture once, and give its annotations that image_id."
            file.find("error", "duplicate image", detail, remedy, place)
        elif image.path in owners:
            shared.setdefault(owners[image.path].path, []).append(image.path)
        else:
            names[image.path] = image.id
            _put_picture(file, image, place)
    owners.update(dict.fromkeys(names, file))
    for other, paths in shared.items():
        detail = f"{len(paths)} pictures are labelled in {other}, too: {shorten(paths)}."
        remedy = "Keep each picture in one label file, or name the one that counts."
        file.find("error", "picture in several label files", detail, remedy)


def _leave_out_image(file: CocoFile, image: CocoImage, place: str) -> None:
    reason, why = image.problem
    if reason:
        count = image.num_annotations
        loss = "its annotation is" if count == 1 else f"its {count} annotations are"
        file.leave_out(reason, f"{why}; {loss} not used", place)


def _put_picture(file: CocoFile, image: CocoImage, place: str) -> None:
    if image.num_left_out and not image.boxes:
        detail = f"{image.path}: none of its {image.num_annotations} annotations in {file.path} "
        file.reading.left_out.append(
            LeftOut(image.path, "no usable label", f"{detail}({place}) is usable.")
        )
        return
    file.reading.pictures[image.path] = Labelled(
        boxes=tuple(image.boxes),
        split=file.split or split_of(image.path),
        file=file.path,
        place=place,
        size=image.size,
    )


def _put_classes(opened: Sequence[CocoFile], reading: Reading) -> None:
    """The categories of all files, in the order of their ids."""
    owners: dict[int, str] = {}
    used = {name for file in opened for name in file.used}
    above = {name for file in opened for name in file.supercategories}
    for file in opened:
        for name, number in file.ids.items():
            if reading.class_ids.setdefault(name, number) != number:
                detail = f"{name!r} has the id {number}, in {opened[0].path} or another file "
                detail += f"{reading.class_ids[name]}; classes are matched by name."
                file.find(
                    "warning", "category ids differ", detail, "Use the same ids in all files."
                )
            elif owners.setdefault(number, name) != name:
                detail = f"id {number} is {name!r} here and {owners[number]!r} in another file."
                remedy = "Use the same categories in all files."
                file.find("error", "categories differ", detail, remedy, f"category {number}")
    for name in [name for name in reading.class_ids if name not in used]:
        first = next(file for file in opened if name in file.ids)
        place = f"category {reading.class_ids[name]}"
        if name in above:
            del reading.class_ids[name]
            detail = f"{name!r} only groups other categories; it is no class."
            first.find("warning", "unused category", detail, "Remove it from categories.", place)
        else:
            detail = f"no annotation has the category {name!r}."
            remedy = "Remove it from categories if nothing will ever have it."
            first.find("warning", "unused category", detail, remedy, place)
    reading.class_ids = dict(sorted(reading.class_ids.items(), key=lambda item: item[1]))
    reading.classes = tuple(reading.class_ids)
