"""`enginehouse convert`: what is written is read again as the same, and what is refused."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from flows.cli import main
from tests.conftest import ROOT
from tests.judge import Judged
from tests.twins import boxes, pictures, tables
from tests.twins._draw import class_folders, coco, draw, save

Boxes = list[tuple[Any, ...]]
SQUARE = [10, 10, 40, 10, 40, 30, 10, 30]


@pytest.fixture
def convert(
    in_check_state: None, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    """Run `convert`; the exit code, and what it prints."""

    def run(source: Path, to: str, out: Path, *options: str) -> tuple[int, str]:
        capsys.readouterr()
        command = ["convert", str(source), "--to", to, "--out", str(out), *options]
        code = main(["--project", str(ROOT), *command])
        captured = capsys.readouterr()
        return code, captured.out or captured.err

    return run


Convert = Callable[..., tuple[int, str]]


def read_boxes(convert: Convert, source: Path, scratch: Path) -> Boxes:
    """Name of the picture, label, box; through the writer of CSV."""
    code, said = convert(source, "csv", scratch, "--no-pictures")
    assert code == 0, said
    with (scratch / "labels.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    sides = ("x", "y", "width", "height")
    return sorted(
        (Path(row["image"]).stem, row["label"], *(round(float(row[s] or 0), 4) for s in sides))
        for row in rows
    )


SOURCES = {
    "coco": lambda folder: coco(folder, boxes.PLAIN, ("a.jpg", "b.png", "c.jpg", "empty.jpg")),
    "excel": tables.build_negative_row,
    "csv": tables.build_csv_of_boxes,
    "voc": boxes.build_decimal_corners,
    "yolo": boxes.build_yolo_polygons,
    "labelme": boxes.build_labelme_polygon,
    "turned": boxes.build_turned_picture_with_box,
}


@pytest.mark.parametrize("to", ["coco", "yolo", "csv"])
@pytest.mark.parametrize("name", SOURCES)
def test_what_is_written_is_read_as_the_same(
    name: str, to: str, convert: Convert, glance: Callable[[Path], Judged], tmp_path: Path
) -> None:
    source, out = tmp_path / "source", tmp_path / "out"
    source.mkdir()
    SOURCES[name](source)
    before = glance(source)
    before.assert_ended("accept")
    code, said = convert(source, to, out)
    assert code == 0, said
    after = glance(out)
    after.assert_ended("accept")
    assert after.verdict["format"] == to
    for fact in ("images", "boxes", "picture_classes", "sizes"):
        assert after.verdict[fact] == before.verdict[fact], after.text
    assert after.labels == before.labels
    assert not after.verdict["quarantine"], after.text
    ours = read_boxes(convert, source, tmp_path / "before")
    assert read_boxes(convert, out, tmp_path / "after") == ours


def test_category_ids_come_back(
    convert: Convert, glance: Callable[[Path], Judged], tmp_path: Path
) -> None:
    boxes.build_category_ids_with_gaps(tmp_path / "source")
    code, said = convert(tmp_path / "source", "coco", tmp_path / "out")
    assert code == 0, said
    content = json.loads((tmp_path / "out/annotations.json").read_text())
    ids = {category["name"]: category["id"] for category in content["categories"]}
    assert ids == {"scratch": 2, "pit": 7, "crack": 44}
    assert glance(tmp_path / "out").verdict["label_ids"] == ids


def test_polygons_come_back(convert: Convert, tmp_path: Path) -> None:
    coco(tmp_path / "source", [{"bbox": [10, 10, 30, 20], "segmentation": [SQUARE]}])
    for source, out in (("source", "once"), ("once", "twice")):
        code, said = convert(tmp_path / source, "coco", tmp_path / out)
        assert code == 0, said
        (annotation,) = json.loads((tmp_path / out / "annotations.json").read_text())["annotations"]
        assert annotation["segmentation"] == [SQUARE]
        assert annotation["area"] == 600


@pytest.mark.parametrize("to", ["coco", "yolo", "csv"])
def test_splits_come_back(
    to: str, convert: Convert, glance: Callable[[Path], Judged], tmp_path: Path
) -> None:
    source = tmp_path / "source"
    for split in ("train", "valid", "test"):
        coco(source / split, [{}], (f"{split}.jpg",))
    before = glance(source)
    assert before.verdict["splits"] == {"train": 1, "val": 1, "test": 1}, before.text
    code, said = convert(source, to, tmp_path / "out")
    assert code == 0, said
    assert glance(tmp_path / "out").verdict["splits"] == before.verdict["splits"]


def test_labels_of_whole_pictures_come_back_from_csv(
    convert: Convert, glance: Callable[[Path], Judged], tmp_path: Path
) -> None:
    class_folders(tmp_path / "source")
    assert convert(tmp_path / "source", "csv", tmp_path / "out")[0] == 0
    before, after = glance(tmp_path / "source").verdict, glance(tmp_path / "out").verdict
    assert after["format"] == "csv"
    for fact in ("images", "picture_classes", "splits"):
        assert after[fact] == before[fact]


def test_a_turned_picture_is_written_as_it_is_displayed(convert: Convert, tmp_path: Path) -> None:
    source = tmp_path / "source"
    coco(source, [{"bbox": [5, 50, 20, 20]}], ("a.jpg",), width=60, height=80)
    upright = draw("turned", 60, 80).copy()
    upright[50:70, 5:25] = 255
    tags = Image.Exif()
    tags[0x0112] = 6  # stored lying on its side
    save(source / "shots/a.jpg", np.rot90(upright), exif=tags, quality=95)
    code, said = convert(source, "coco", tmp_path / "out")
    assert code == 0, said
    assert "shots/a.jpg -> images/shots/a.png" in said
    with Image.open(tmp_path / "out/images/shots/a.png") as image:
        assert np.asarray(image)[52:68, 7:23].mean() > 240


def test_the_report_names_what_was_clipped_and_dropped(convert: Convert, tmp_path: Path) -> None:
    source, out = tmp_path / "source", tmp_path / "out"
    annotations = [{}, {"bbox": [70, 50, 15, 20]}, {"bbox": [8, 6, 20, 0]}]
    coco(source, annotations)
    code, said = convert(source, "yolo", out, "--json")
    assert code == 0, said
    printed = json.loads(said)
    report = json.loads((out / "report.json").read_text())
    assert printed == {"out": str(out), **report}
    assert (report["images"], report["boxes"], report["read"]) == (3, 2, {"labels.json": 3})
    (clipped,), (dropped,) = report["clipped"], report["dropped"]
    assert (clipped["file"], clipped["place"]) == ("labels.json", "annotation 102")
    assert (dropped["file"], dropped["place"]) == ("labels.json", "annotation 103")
    text = convert(source, "csv", tmp_path / "again")[1]
    assert text.startswith(f"written  {tmp_path / 'again'} (csv)\n")
    assert "annotation 102" in text
    assert "annotation 103" in text


def test_data_with_errors_is_not_written(convert: Convert, tmp_path: Path) -> None:
    boxes.build_corners_instead_of_sizes(tmp_path / "source")
    code, said = convert(tmp_path / "source", "yolo", tmp_path / "out")
    assert code == 1
    assert said.startswith("rejected")
    assert "xyxy" in said
    assert not (tmp_path / "out").exists()


def test_labels_of_pictures_are_no_boxes(convert: Convert, tmp_path: Path) -> None:
    class_folders(tmp_path / "source")
    code, said = convert(tmp_path / "source", "coco", tmp_path / "out", "--json")
    assert code == 1
    assert json.loads(said)["errors"][0]["remedy"] == "Write it as csv: --to csv"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("place", ["source/out", "source", "full", "file"])
def test_a_place_where_nothing_may_be_written_is_wrong_usage(
    place: str, convert: Convert, tmp_path: Path
) -> None:
    pictures.build_upper_case_suffixes(tmp_path / "source")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("years of work")
    (tmp_path / "file").write_text("")
    code, said = convert(tmp_path / "source", "csv", tmp_path / place)
    assert code == 2
    assert str(tmp_path / place) in said
    assert [p.name for p in (tmp_path / "full").iterdir()] == ["thesis.tex"]
    assert not (tmp_path / "source" / "out").exists()


def test_an_empty_folder_may_be_written_into(convert: Convert, tmp_path: Path) -> None:
    class_folders(tmp_path / "source")
    (tmp_path / "out").mkdir()
    assert convert(tmp_path / "source", "csv", tmp_path / "out")[0] == 0
    assert (tmp_path / "out/labels.csv").is_file()
