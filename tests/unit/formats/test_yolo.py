"""YOLO: rows by line, pictures left out as a whole, classes and splits from what stands beside."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from enginehouse.formats import yolo
from enginehouse.labels import LabelOptions, Reading
from tests.unit.formats.lay_out import lay_out, quarantine, read_found, reasons

ROW = "0 0.3 0.3 0.2 0.2\n"
YAML = "train: images\nnc: 2\nnames: [bolt, nut]\n"


def read_yolo(folder: Path, yaml: str = YAML, **rows: str | bytes) -> Reading:
    """Label files by stem, each with a picture of that stem."""
    texts: dict[str, str | bytes] = {f"labels/{stem}.txt": text for stem, text in rows.items()}
    texts |= {"data.yaml": yaml} if yaml else {}
    pictures = tuple(f"images/{stem}.jpg" for stem in rows)
    return read_found(yolo, lay_out(folder, texts, pictures))


def test_reads_boxes_as_shares(tmp_path: Path) -> None:
    rows = "\ufeff1 0.3 0.3 0.2 0.2 \r\n\r\n0.0 .5 5e-1 1 1.000001\t\r\n"
    reading = read_yolo(tmp_path, a=rows, b="", c=" \n")
    labelled = reading.pictures["images/a.jpg"]
    nut, bolt = labelled.boxes
    assert (nut.label, nut.place, nut.relative) == ("nut", "line 1", True)
    assert nut.xywh == pytest.approx((0.2, 0.2, 0.2, 0.2))
    assert (bolt.label, bolt.place) == ("bolt", "line 3")
    assert bolt.xywh == pytest.approx((0, 0, 1, 1), abs=1e-5)
    assert (labelled.file, labelled.size) == ("labels/a.txt", None)
    assert reading.pictures["images/b.jpg"].boxes == ()
    assert reading.pictures["images/c.jpg"].boxes == ()
    assert reading.classes == ("bolt", "nut")
    assert reading.class_ids == {"bolt": 0, "nut": 1}
    assert not reading.left_out
    assert not reading.findings


def test_segments_give_box_and_polygon(tmp_path: Path) -> None:
    reading = read_yolo(tmp_path, a="0 0.1 0.1 0.5 0.1 0.3 0.4\n")
    box = reading.pictures["images/a.jpg"].boxes[0]
    assert box.xywh == pytest.approx((0.1, 0.1, 0.4, 0.3))
    assert box.polygons == ((0.1, 0.1, 0.5, 0.1, 0.3, 0.4),)


@pytest.mark.parametrize(
    ("row", "reason", "said"),
    [
        ("1 1.12 0.41 0.5 0.31", "values outside 0..1", "1.12"),
        ("1 0.5 0.5 0.2 -0.2", "values outside 0..1", "-0.2"),
        ("0 32 24 20 16", "values outside 0..1", "32"),
        ("0 0.1 0.1 0.5 0.1 0.3 1.4", "values outside 0..1", "1.4"),
        ("0 nan 0.5 0.2 0.2", "not a number", "nan"),
        ("0 0.5 0.5 0.2 inf", "not a number", "inf"),
        ("0 0,5 0,5 0,2 0,2", "not a number", "0,5"),
        ("bolt 0.5 0.5 0.2 0.2", "not a number", "bolt"),
        ("0 0.5 0.5 0.2", "wrong number of columns", "4 columns"),
        ("0 0.1 0.1 0.5 0.1 0.3 0.4 0.2", "wrong number of columns", "8 columns"),
        ("0 0.5 0.5 0.2 0.2 7", "wrong number of columns", "6 columns"),
    ],
)
def test_a_faulty_row_leaves_the_whole_picture_out(
    tmp_path: Path, row: str, reason: str, said: str
) -> None:
    reading = read_yolo(tmp_path, a=ROW, b=f"{ROW}{row}\n")
    assert quarantine(reading) == {
        ("labels/b.txt", "line 2", reason),
        ("images/b.jpg", "", "label file not usable"),
    }
    assert said in reading.left_out[0].detail
    assert all("whole image" in row.detail for row in reading.left_out)
    assert set(reading.pictures) == {"images/a.jpg"}


@pytest.mark.parametrize("index", ["2", "-1", "0.5"])
def test_a_class_index_out_of_range_is_an_error(tmp_path: Path, index: str) -> None:
    reading = read_yolo(tmp_path, a=f"{ROW}{index} 0.5 0.5 0.2 0.2\n")
    (error,) = [finding for finding in reading.findings if finding.severity == "error"]
    assert (error.file, error.place) == ("labels/a.txt", "line 2")
    assert f"{index} is out of range" in error.detail
    assert not reading.pictures


def test_duplicate_rows_count_once(tmp_path: Path) -> None:
    reading = read_yolo(tmp_path, a=f"{ROW}0 0.30 0.30 0.20 0.2\n1 0.7 0.6 0.2 0.2\n")
    assert len(reading.pictures["images/a.jpg"].boxes) == 2
    (warning,) = reading.findings
    assert (warning.severity, warning.file, warning.place) == ("warning", "labels/a.txt", "line 2")
    assert "duplicate" in warning.detail


def test_a_confidence_is_dropped_and_told_once(tmp_path: Path) -> None:
    reading = read_yolo(tmp_path, a="0 0.3 0.3 0.2 0.2 0.87\n" * 2, b="1 0.3 0.3 0.2 0.2 1\n")
    assert len(reading.pictures["images/b.jpg"].boxes) == 1
    assert reasons(reading, "warning") == ["duplicate row", "confidence column"]


def test_keypoints_are_passed_over(tmp_path: Path) -> None:
    yaml = f"{YAML}kpt_shape: [2, 3]\n"
    reading = read_yolo(tmp_path, yaml, a="0 0.3 0.3 0.2 0.2 0.1 0.1 2 0.2 0.2 2\n")
    assert reading.pictures["images/a.jpg"].boxes[0].xywh == pytest.approx((0.2,) * 4)
    assert reasons(reading, "info") == ["keypoints"]


def test_without_names_classes_are_called_by_index(tmp_path: Path) -> None:
    reading = read_yolo(tmp_path, "", a=ROW, b="10 0.3 0.3 0.2 0.2\n2 0.3 0.3 0.2 0.2\n")
    assert reading.classes == ("0", "2", "10")
    assert reading.class_ids == {"0": 0, "2": 2, "10": 10}
    assert reasons(reading, "info") == ["no class names"]


def test_names_may_come_from_the_recipe(tmp_path: Path) -> None:
    files = lay_out(tmp_path, {"labels/a.txt": ROW}, ("images/a.jpg",))
    reading = read_found(yolo, files, LabelOptions(classes=("bolt", "nut")))
    assert reading.pictures["images/a.jpg"].boxes[0].label == "bolt"
    assert not reading.findings


@pytest.mark.parametrize("name", ["classes.txt", "labels/classes.txt", "data/obj.names"])
def test_names_from_a_text_file(tmp_path: Path, name: str) -> None:
    files = lay_out(tmp_path, {"labels/a.txt": ROW, name: "bolt\r\nnut\n"}, ("images/a.jpg",))
    reading = read_found(yolo, files)
    assert reading.classes == ("bolt", "nut")
    assert not reading.findings


def test_names_as_mapping_with_gaps(tmp_path: Path) -> None:
    yaml = "path: .\ntrain: images\nnames:\n  3: no\n  0: 1.0\n"
    reading = read_yolo(tmp_path, yaml, a="3 0.3 0.3 0.2 0.2\n")
    assert reading.class_ids == {"1.0": 0, "no": 3}
    assert reading.pictures["images/a.jpg"].boxes[0].label == "no"


@pytest.mark.parametrize(
    ("yaml", "reason"),
    [
        ("train: images\nnc: 3\nnames: [bolt, nut]\n", "class count differs"),
        ("train: images\nnc: 2\nnames: [bolt, bolt]\n", "duplicate class name"),
        ("train: images\nnames: [bolt, '']\n", "bad class name"),
        ("train: images\nnames: {bolt: 0}\n", "bad class name"),
        ("train: images\nnames: []\n", "no class names"),
        ("train: images\nnames: [bolt\n", "broken label file"),
    ],
)
def test_a_faulty_declaration_is_an_error(tmp_path: Path, yaml: str, reason: str) -> None:
    reading = read_yolo(tmp_path, yaml, a=ROW)
    assert reason in reasons(reading, "error")
    assert all("data.yaml" in finding.detail for finding in reading.findings if finding.file)


def test_declarations_that_disagree_are_an_error(tmp_path: Path) -> None:
    texts = {"labels/a.txt": ROW, "data.yaml": YAML, "classes.txt": "nut\nbolt\n"}
    reading = read_found(yolo, lay_out(tmp_path, texts, ("images/a.jpg",)))
    (error,) = reading.findings
    assert (error.reason, error.file) == ("class names differ", "classes.txt")
    assert "'nut'" in error.detail
    assert "data.yaml" in error.detail


def test_a_picture_without_label_file_is_background(tmp_path: Path) -> None:
    files = lay_out(
        tmp_path, {"labels/train/a.txt": ROW}, ("images/train/a.jpg", "images/train/b.jpg")
    )
    reading = read_found(yolo, files)
    assert reading.unlisted == "good"
    assert reading.pictures["images/train/b.jpg"].split == "train"
    assert "no label file" in reasons(reading, "info")


def test_a_label_file_without_picture_is_left_out(tmp_path: Path) -> None:
    texts = {"labels/a.txt": ROW, "labels/ghost.txt": ROW * 2}
    reading = read_found(yolo, lay_out(tmp_path, texts, ("images/a.jpg",)))
    (row,) = reading.left_out
    assert (row.file, row.reason) == ("labels/ghost.txt", "missing file")
    assert "ghost" in row.detail


def test_labels_beside_their_pictures(tmp_path: Path) -> None:
    files = lay_out(tmp_path, {"set/a.txt": ROW, "set/b.txt": ROW}, ("set/a.JPG", "set/b.png"))
    reading = read_found(yolo, files)
    assert all(len(labelled.boxes) == 1 for labelled in reading.pictures.values())


def test_two_pictures_of_one_stem_are_both_left_out(tmp_path: Path) -> None:
    files = lay_out(tmp_path, {"labels/a.txt": ROW}, ("images/a.jpg", "images/a.png"))
    reading = read_found(yolo, files)
    assert ("labels/a.txt", "", "ambiguous name") in quarantine(reading)
    assert not reading.pictures


@pytest.mark.parametrize("folders", ["{kind}/{split}", "{split}/{kind}"])
def test_folders_give_the_splits_and_tell_namesakes_apart(tmp_path: Path, folders: str) -> None:
    texts, pictures = {}, []
    for split in ("train", "valid"):
        row = ROW if split == "train" else ROW * 1 + "1 0.5 0.5 0.1 0.1\n"
        texts[f"{folders.format(kind='labels', split=split)}/a.txt"] = row
        pictures.append(f"{folders.format(kind='images', split=split)}/a.jpg")
    texts["labels/train/b.txt"] = ROW  # its picture is only in the other split
    pictures.append("images/valid/b.jpg")
    reading = read_found(yolo, lay_out(tmp_path, texts, tuple(pictures)))
    said = {path: (each.split, len(each.boxes)) for path, each in reading.pictures.items()}
    assert said == {pictures[0]: ("train", 1), pictures[1]: ("val", 2)}
    assert quarantine(reading) == {
        ("labels/train/b.txt", "", "missing file"),
        ("images/valid/b.jpg", "", "label file not usable"),
    }


@pytest.mark.parametrize(
    "paths",
    [
        "train: images/one\nval: images/two\n",
        "path: /content/set\ntrain: images/one\nval: /content/set/images/two\n",
        "train: ../images/one\nval: ..\\images\\two\n",
        "path: ../set\ntrain: ./images/one/\nval: [images/two]\n",
        "train: one.txt\nval: lists/two.txt\n",
    ],
)
def test_data_yaml_gives_the_splits(tmp_path: Path, paths: str) -> None:
    texts = {
        "labels/one/a.txt": ROW,
        "labels/two/b.txt": ROW,
        "one.txt": "./images/one/a.jpg\n",
        "lists/two.txt": "C:\\x\\images\\two\\b.jpg\r\n",
        "data.yaml": f"{paths}test:\nnames: [bolt]\n",
    }
    reading = read_found(yolo, lay_out(tmp_path, texts, ("images/one/a.jpg", "images/two/b.jpg")))
    splits = {path[-5]: labelled.split for path, labelled in reading.pictures.items()}
    assert splits == {"a": "train", "b": "val"}
    assert not reading.findings


def test_splits_that_share_pictures_are_an_error(tmp_path: Path) -> None:
    reading = read_yolo(tmp_path, "train: images\nval: images\nnames: [bolt]\n", a=ROW)
    assert reasons(reading, "error") == ["leak between splits"]


def test_a_split_that_is_not_here_is_told_or_refused(tmp_path: Path) -> None:
    yaml = "train: images\nval: other\ntest: ../../elsewhere\nnames: [bolt]\n"
    reading = read_yolo(tmp_path, yaml, a=ROW)
    assert reasons(reading, "warning") == ["split not found"]
    assert reasons(reading, "error") == ["path outside the data"]


def test_lists_give_the_splits_without_yaml(tmp_path: Path) -> None:
    texts = {"labels/a.txt": ROW, "labels/b.txt": ROW}
    texts |= {"train.txt": "images/a.jpg\nimages/c.jpg\n", "val.txt": "images/b.jpg\n"}
    reading = read_found(yolo, lay_out(tmp_path, texts, ("images/a.jpg", "images/b.jpg")))
    assert reading.pictures["images/b.jpg"].split == "val"
    assert quarantine(reading) == {("train.txt", "line 2", "missing file")}


def test_only_empty_label_files_beside_a_data_yaml(tmp_path: Path) -> None:
    reading = read_yolo(tmp_path, a="", b="")
    assert set(reading.pictures) == {"images/a.jpg", "images/b.jpg"}
    assert reading.classes == ("bolt", "nut")


def test_a_single_file_with_a_fault_is_still_found(tmp_path: Path) -> None:
    reading = read_yolo(tmp_path, "", a="0 0.5 0.5 0.2\n")
    assert ("labels/a.txt", "line 1", "wrong number of columns") in quarantine(reading)


def test_a_data_yaml_that_the_user_names_stands_for_its_labels(tmp_path: Path) -> None:
    texts = {"labels/a.txt": ROW, "data.yaml": YAML}
    files = replace(lay_out(tmp_path, texts, ("images/a.jpg",)), only="data.yaml")
    assert yolo.find(files) == ["labels/a.txt"]
    reading = yolo.read(files, ["data.yaml"], LabelOptions())
    assert len(reading.pictures["images/a.jpg"].boxes) == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("classes.txt", "0\n1\n"),
        ("readme.txt", "Version 1 2 3 4 5\n"),
        ("requirements.txt", "numpy==2.0\ntorch\n"),
        ("train.txt", "images/a.jpg\n"),
        ("numbers.txt", ROW),
        ("images/a.txt", "a bolt on a table\n"),
        ("images/a.txt", ""),
        ("images/a.txt", "10 20 30 40 50 60 70 80 plane 0\n"),
        ("labels/a.csv", ROW),
    ],
)
def test_other_text_files_are_not_taken_for_yolo(tmp_path: Path, name: str, text: str) -> None:
    assert not yolo.find(lay_out(tmp_path, {name: text}, ("images/a.jpg",)))
