"""COCO: what is read, what is left out by id, and what makes the whole set untrustworthy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from enginehouse.formats import coco
from enginehouse.labels import LabelOptions, Reading
from tests.unit.formats.lay_out import lay_out, quarantine, read_found, reasons

PICTURES = ("images/part_1.jpg", "images/part_2.jpg", "images/part_3.jpg")


def make_coco() -> dict[str, Any]:
    """Three pictures of 64 x 48 pixels with a box each."""
    boxes = [(1, 1, [4, 4, 20, 16]), (2, 2, [8, 6, 24, 20]), (3, 1, [10, 10, 16, 16])]
    return {
        "images": [
            {"id": n, "file_name": f"part_{n}.jpg", "width": 64, "height": 48} for n in (1, 2, 3)
        ],
        "annotations": [
            {"id": n, "image_id": n, "category_id": c, "bbox": box, "area": 100, "iscrowd": 0}
            for n, c, box in boxes
        ],
        "categories": [{"id": 1, "name": "bolt"}, {"id": 2, "name": "nut"}],
    }


def read_coco(folder: Path, content: Any, pictures: tuple[str, ...] = PICTURES) -> Reading:
    text = content if isinstance(content, str | bytes) else json.dumps(content, indent=1)
    return read_found(coco, lay_out(folder, {"annotations.json": text}, pictures))


def num_boxes(reading: Reading) -> int:
    return sum(len(labelled.boxes) for labelled in reading.pictures.values())


def test_reads_boxes_sizes_and_places(tmp_path: Path) -> None:
    reading = read_coco(tmp_path, make_coco())
    second = reading.pictures["images/part_2.jpg"]
    assert (second.size, second.file, second.place) == ((64, 48), "annotations.json", "image 2")
    box = second.boxes[0]
    assert (box.label, box.xywh, box.place) == ("nut", (8, 6, 24, 20), "annotation 2")
    assert reading.classes == ("bolt", "nut")
    assert reading.unlisted == "left out"
    assert not reading.findings
    assert not reading.left_out


def test_boxes_that_leave_the_picture_are_passed_on(tmp_path: Path) -> None:
    content = make_coco()
    content["annotations"][1]["bbox"] = [-3.5, 6, 70, 0]
    reading = read_coco(tmp_path, content)
    assert reading.pictures["images/part_2.jpg"].boxes[0].xywh == (-3.5, 6, 70, 0)


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_number_that_is_none_is_an_error_by_id(tmp_path: Path, constant: str) -> None:
    text = json.dumps(make_coco()).replace("[8, 6, 24, 20]", f"[8, 6, {constant}, 20]")
    reading = read_coco(tmp_path, text)
    (error,) = [finding for finding in reading.findings if finding.severity == "error"]
    assert (error.file, error.place) == ("annotations.json", "annotation 2")
    assert "NaN" in error.detail
    assert "images/part_2.jpg" not in reading.pictures  # never taken as a good one


def test_nan_in_a_field_that_nobody_reads_is_still_no_json(tmp_path: Path) -> None:
    text = json.dumps(make_coco()).replace('"area": 100', '"area": NaN', 1)
    reading = read_coco(tmp_path, text)
    (error,) = reading.findings
    assert (error.severity, error.place) == ("error", "annotation 1")
    assert num_boxes(reading) == 3


def test_gapped_category_ids_are_kept_beside_the_classes(tmp_path: Path) -> None:
    content = make_coco()
    content["categories"] = [
        {"id": 90, "name": "washer"},
        {"id": 1, "name": "bolt"},
        {"id": 3, "name": "nut"},
    ]
    for annotation, category in zip(content["annotations"], (1, 3, "90"), strict=True):
        annotation["category_id"] = category
    reading = read_coco(tmp_path, content)
    assert reading.classes == ("bolt", "nut", "washer")
    assert reading.class_ids == {"bolt": 1, "nut": 3, "washer": 90}
    assert reading.pictures["images/part_3.jpg"].boxes[0].label == "washer"


def test_ids_compare_as_text(tmp_path: Path) -> None:
    content = make_coco()
    for image in content["images"]:
        image["id"] = str(image["id"])
    content["annotations"][0]["image_id"] = 1.0
    reading = read_coco(tmp_path, content)
    assert num_boxes(reading) == 3
    assert not reading.findings


def test_a_missing_picture_is_left_out_with_its_annotations(tmp_path: Path) -> None:
    reading = read_coco(tmp_path, make_coco(), (PICTURES[0], PICTURES[2]))
    (row,) = reading.left_out
    assert (row.file, row.place, row.reason) == ("annotations.json", "image 2", "missing file")
    assert "part_2.jpg" in row.detail
    assert "its annotation is not used" in row.detail
    assert set(reading.pictures) == {PICTURES[0], PICTURES[2]}


@pytest.mark.parametrize("table", ["annotations", "images", "categories"])
def test_duplicate_ids_are_an_error_that_names_them(tmp_path: Path, table: str) -> None:
    content = make_coco()
    content[table][0]["id"] = content[table][1]["id"] = 7
    reading = read_coco(tmp_path, content)
    errors = [finding for finding in reading.findings if finding.severity == "error"]
    assert any("duplicate" in error.reason and "7" in error.detail for error in errors)


def test_one_picture_under_two_ids_is_an_error(tmp_path: Path) -> None:
    content = make_coco()
    content["images"][2]["file_name"] = "images/part_1.jpg"
    reading = read_coco(tmp_path, content)
    assert reasons(reading, "error") == ["duplicate image"]
    assert "images/part_1.jpg" in reading.findings[0].detail


def test_two_categories_of_one_name_are_an_error(tmp_path: Path) -> None:
    content = make_coco()
    content["categories"][1]["name"] = " bolt"
    reading = read_coco(tmp_path, content)
    assert reasons(reading, "error") == ["duplicate category name"]


def test_negatives_stay(tmp_path: Path) -> None:
    content = make_coco()
    del content["annotations"][1]
    content["annotations"][1]["bbox"] = [0, 0, 0, 0]
    content["annotations"][1]["category_id"] = None
    reading = read_coco(tmp_path, content)
    assert set(reading.pictures) == set(PICTURES)
    assert num_boxes(reading) == 1
    assert reasons(reading, "info") == ["placeholder boxes"]
    assert not reading.left_out


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"image_id": 99}, "unknown image_id"),
        ({"image_id": None}, "unknown image_id"),
        ({"category_id": 99}, "unknown category_id"),
        ({"bbox": [1, 2, 3]}, "bad box"),
        ({"bbox": [1, 2, "wide", 4]}, "bad number"),
        ({"bbox": [1, 2, True, 4]}, "bad number"),
        ({"bbox": None}, "no box"),
        ({"bbox": [], "segmentation": [[1, 2, 3, 4]]}, "bad polygon"),
        ({"bbox": [], "segmentation": {"size": [48, 64], "counts": "~"}}, "bad mask"),
    ],
)
def test_what_cannot_be_used_is_left_out_by_id(
    tmp_path: Path, change: dict[str, Any], reason: str
) -> None:
    content = make_coco()
    content["annotations"].append({**content["annotations"][1], "id": 4, **change})
    reading = read_coco(tmp_path, content)
    assert ("annotations.json", "annotation 4", reason) in quarantine(reading)
    assert num_boxes(reading) == 3


def test_a_picture_whose_only_annotation_is_not_usable_is_no_negative(tmp_path: Path) -> None:
    content = make_coco()
    content["annotations"][1]["category_id"] = 5
    reading = read_coco(tmp_path, content)
    assert ("images/part_2.jpg", "", "no usable label") in quarantine(reading)
    assert "images/part_2.jpg" not in reading.pictures


def test_numbers_as_text_are_taken_with_a_warning(tmp_path: Path) -> None:
    content = make_coco()
    content["annotations"][0]["bbox"] = ["4", 4, " 20.5", 16]
    reading = read_coco(tmp_path, content)
    assert reading.pictures["images/part_1.jpg"].boxes[0].xywh == (4, 4, 20.5, 16)
    assert reasons(reading, "warning") == ["numbers as text"]


def test_polygons_give_box_and_outline(tmp_path: Path) -> None:
    content = make_coco()
    outline = [2, 3, 12, 3, 12, 13.5]
    content["annotations"][0] |= {"bbox": [], "segmentation": [outline]}
    content["annotations"][1] |= {"segmentation": [outline, [20, 20, 30, 20, 25, 30]]}
    content["annotations"][2] |= {"segmentation": [[1, 2, 3]]}
    reading = read_coco(tmp_path, content)
    first, second, third = (reading.pictures[path].boxes[0] for path in PICTURES)
    assert (first.xywh, first.polygons) == ((2, 3, 10, 10.5), (tuple(outline),))
    assert (second.xywh, len(second.polygons)) == ((8, 6, 24, 20), 2)
    assert (third.xywh, third.polygons) == ((10, 10, 16, 16), ())
    assert reasons(reading, "warning") == ["box from segmentation", "bad polygon"]


def test_masks_compressed_or_not_give_the_same_box(tmp_path: Path) -> None:
    from pycocotools import mask as coco_mask

    mask = np.zeros((48, 64), np.uint8)
    mask[10:20, 30:45] = 1
    packed = coco_mask.encode(np.asfortranarray(mask))
    flat = mask.ravel(order="F")
    edges = np.flatnonzero(np.diff(flat)) + 1
    runs = np.diff([0, *edges, flat.size]).tolist()
    content = make_coco()
    for annotation, counts in zip(
        content["annotations"], (packed["counts"].decode(), runs, runs[:-1]), strict=True
    ):
        annotation |= {
            "bbox": [],
            "iscrowd": 1,
            "segmentation": {"size": [48, 64], "counts": counts},
        }
    reading = read_coco(tmp_path, content)
    one, other = (reading.pictures[path].boxes[0] for path in PICTURES[:2])
    assert one.xywh == other.xywh == (30, 10, 15, 10)
    assert one.polygons == other.polygons
    assert {*one.polygons[0][0::2]} == {30.5, 44.5}
    assert ("annotations.json", "annotation 3", "bad mask") in quarantine(reading)
    assert reasons(reading, "info") == ["crowd regions", "masks as outlines"]


@pytest.mark.parametrize("key", ["images", "annotations", "categories"])
def test_a_missing_list_is_an_error(tmp_path: Path, key: str) -> None:
    content = make_coco()
    del content[key]
    reading = read_coco(tmp_path, content)
    assert reasons(reading, "error") == ["missing key"]
    assert key in reading.findings[0].detail.partition("missing here")[2]


def test_entries_without_their_keys_are_left_out(tmp_path: Path) -> None:
    content = make_coco()
    del content["images"][0]["file_name"]
    content["images"].append("part_4.jpg")
    content["annotations"].append(None)
    del content["annotations"][2]["id"]
    reading = read_coco(tmp_path, content)
    assert quarantine(reading) == {
        ("annotations.json", "image 1", "missing key"),
        ("annotations.json", "images[3]", "missing key"),
        ("annotations.json", "annotation 1", "unknown image_id"),
        ("annotations.json", "annotations[3]", "bad annotation"),
    }
    assert reading.pictures["images/part_3.jpg"].boxes[0].place == "annotations[2]"
    assert reasons(reading, "info") == ["annotations without id"]


def test_a_file_that_is_cut_off_is_an_error_with_line_and_column(tmp_path: Path) -> None:
    text = json.dumps(make_coco(), indent=1)
    reading = read_coco(tmp_path, text[: len(text) // 2])
    (error,) = reading.findings
    assert error.severity == "error"
    assert "annotations.json" in error.detail
    assert "line 33, column 16" in error.detail
    assert not reading.pictures


@pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf \n"])
def test_an_empty_file_is_known_by_its_name(tmp_path: Path, content: bytes) -> None:
    reading = read_coco(tmp_path, content)
    assert reasons(reading, "error") == ["broken label file"]
    assert "empty" in reading.findings[0].detail


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "gb18030"])
def test_other_encodings(tmp_path: Path, encoding: str) -> None:
    content = make_coco()
    content["categories"][0]["name"], content["categories"][1]["name"] = "合格", "划伤"
    text = json.dumps(content, ensure_ascii=False)
    reading = read_coco(tmp_path, text.encode(encoding))
    assert reading.classes == ("合格", "划伤")
    assert num_boxes(reading) == 3


def test_a_key_that_stands_twice_is_an_error(tmp_path: Path) -> None:
    text = json.dumps(make_coco())
    reading = read_coco(tmp_path, text[:-1] + ', "annotations": []}')
    assert reasons(reading, "error") == ["duplicate key"]


def test_sizes_of_zero_are_told_and_absent_ones_are_not(tmp_path: Path) -> None:
    content = make_coco()
    content["images"][0] |= {"width": 0, "height": 0}
    content["images"][1] |= {"width": "64", "height": "48"}
    del content["images"][2]["width"], content["images"][2]["height"]
    reading = read_coco(tmp_path, content)
    assert [reading.pictures[path].size for path in PICTURES] == [None, (64, 48), None]
    (warning,) = reading.findings
    assert (warning.severity, warning.place) == ("warning", "image 1")


def test_a_path_out_of_the_data_is_an_error(tmp_path: Path) -> None:
    content = make_coco()
    content["images"][1]["file_name"] = "../../etc/part_2.jpg"
    reading = read_coco(tmp_path, content)
    assert reasons(reading, "error") == ["path outside the data"]
    assert num_boxes(reading) == 2


def test_windows_separators_and_folders(tmp_path: Path) -> None:
    content = make_coco()
    content["images"][0]["file_name"] = ".\\images\\part_1.jpg"
    content["images"][1]["file_name"] = "C:\\set\\images\\part_2.jpg"
    assert num_boxes(read_coco(tmp_path, content)) == 3


def test_one_file_per_split_with_the_same_names(tmp_path: Path) -> None:
    """Names and ids repeat from split to split, and an empty super-category stands first."""
    texts, pictures = {}, []
    for split in ("train", "valid", "test"):
        content = make_coco()
        content["categories"].insert(0, {"id": 0, "name": "parts", "supercategory": "none"})
        for category in content["categories"][1:]:
            category["supercategory"] = "parts"
        texts[f"{split}/_annotations.coco.json"] = json.dumps(content)
        pictures += [f"{split}/part_{number}.jpg" for number in (1, 2, 3)]
    reading = read_found(coco, lay_out(tmp_path, texts, tuple(pictures)))
    assert {path: labelled.split for path, labelled in reading.pictures.items()} == {
        path: path.partition("/")[0].replace("valid", "val") for path in pictures
    }
    assert reading.classes == ("bolt", "nut")
    assert reasons(reading, "warning") == ["unused category"]
    assert not reading.left_out


def test_split_files_beside_each_other_find_pictures_of_their_split(tmp_path: Path) -> None:
    text = json.dumps(make_coco())
    texts = {f"annotations/instances_{split}2017.json": text for split in ("train", "val")}
    pictures = [f"{split}2017/part_{n}.jpg" for split in ("train", "val") for n in (1, 2)]
    reading = read_found(coco, lay_out(tmp_path, texts, tuple(pictures)))
    assert {path: labelled.split for path, labelled in reading.pictures.items()} == {
        path: path.partition("2017")[0] for path in pictures
    }
    missing = {(row.file, row.place) for row in reading.left_out}
    assert missing == {(path, "image 3") for path in texts}


def test_a_picture_of_another_split_is_not_taken_for_a_missing_one(tmp_path: Path) -> None:
    text = json.dumps(make_coco())
    pictures = ("train/part_1.jpg", "val/part_2.jpg", "val/part_3.jpg")
    reading = read_found(coco, lay_out(tmp_path, {"val.json": text}, pictures))
    assert ("val.json", "image 1", "missing file") in quarantine(reading)
    assert set(reading.pictures) == set(pictures[1:])


def test_a_picture_in_two_files_is_an_error(tmp_path: Path) -> None:
    text = json.dumps(make_coco())
    reading = read_found(coco, lay_out(tmp_path, {"a.json": text, "b.json": text}, PICTURES))
    assert reasons(reading, "error") == ["picture in several label files"]
    assert num_boxes(reading) == 3


def test_files_that_disagree_on_categories_are_told(tmp_path: Path) -> None:
    other = make_coco()
    other["categories"] = [{"id": 1, "name": "nut"}, {"id": 2, "name": "gear"}]
    for image in other["images"]:
        image["file_name"] = f"more_{image['id']}.jpg"
    texts = {"a.json": json.dumps(make_coco()), "b.json": json.dumps(other)}
    more = tuple(f"images/more_{number}.jpg" for number in (1, 2, 3))
    reading = read_found(coco, lay_out(tmp_path, texts, PICTURES + more))
    assert reasons(reading, "warning") == ["category ids differ"]
    assert reasons(reading, "error") == ["categories differ"]


def test_unused_categories_are_told_and_stay_classes(tmp_path: Path) -> None:
    content = make_coco()
    content["categories"].append({"id": 3, "name": "gear"})
    reading = read_coco(tmp_path, content)
    assert reading.classes == ("bolt", "nut", "gear")
    (warning,) = reading.findings
    assert (warning.reason, warning.place) == ("unused category", "category 3")


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "package", "images": ["a.jpg"]}',
        '[{"image_id": 1, "bbox": [1, 2, 3, 4], "score": 0.5}]',
        '{"images": [{"id": 1}], "annotations": [{"image_id": 1, "caption": "a cat"}]}',
        '{"shapes": [], "imagePath": "part_1.jpg"}',
        "images: annotations",
        "",
    ],
)
def test_other_files_are_not_taken_for_coco(tmp_path: Path, text: str) -> None:
    assert not coco.find(lay_out(tmp_path, {"other.json": text}, PICTURES))


def test_a_large_file_is_found_by_its_ends(tmp_path: Path) -> None:
    content = make_coco()
    content["images"] *= 3000
    content["annotations"] *= 3000
    files = lay_out(tmp_path, {"labels.json": json.dumps(content)}, PICTURES)
    assert coco.find(files) == ["labels.json"]


def test_a_file_that_is_no_coco_but_named_by_the_user_is_an_error(tmp_path: Path) -> None:
    files = lay_out(tmp_path, {"labels.csv": "file,label\na.jpg,bolt\n"}, PICTURES)
    reading = coco.read(files, ["labels.csv"], LabelOptions())
    assert reasons(reading, "error") == ["broken label file"]
