"""labelme: shapes by number, pictures found by any spelling of their path."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from enginehouse.formats import labelme
from enginehouse.labels import Reading
from tests.unit.formats.lay_out import lay_out, quarantine, read_found, reasons


def make_shape(label: Any = "bolt", kind: str | None = "rectangle", points: Any = None) -> Any:
    points = [[24, 4], [4, 20]] if points is None else points
    return {"label": label, "points": points, "shape_type": kind, "flags": {}, "group_id": None}


def make_json(path: str, *shapes: Any, **more: Any) -> str:
    top = {"version": "5.3.1", "flags": {}, "shapes": list(shapes), "imagePath": path}
    top |= {"imageData": None, "imageHeight": 48, "imageWidth": 64}
    return json.dumps({**top, **more}, ensure_ascii=False)


def read_labelme(folder: Path, **jsons: str | bytes) -> Reading:
    """JSON by stem, each with a picture of that stem."""
    texts = {f"annotations/{stem}.json": text for stem, text in jsons.items()}
    pictures = tuple(f"images/{stem}.jpg" for stem in jsons)
    return read_found(labelme, lay_out(folder, texts, pictures))


@pytest.mark.parametrize(
    "path",
    ["..\\images\\a.jpg", "../images/a.jpg", "a.jpg", "D:\\set\\images\\a.jpg", "/home/x/a.jpg"],
)
def test_reads_shapes_of_a_picture_however_its_path_is_spelled(tmp_path: Path, path: str) -> None:
    reading = read_labelme(tmp_path, a=make_json(path, make_shape()), b=make_json("b.jpg"))
    labelled = reading.pictures["images/a.jpg"]
    box = labelled.boxes[0]
    assert (box.label, box.xywh, box.place) == ("bolt", (4, 4, 20, 16), "shape 1")
    assert (labelled.size, labelled.file) == ((64, 48), "annotations/a.json")
    assert reading.pictures["images/b.jpg"].boxes == ()  # a negative
    assert reading.unlisted == "left out"
    assert not reading.findings
    assert not reading.left_out


@pytest.mark.parametrize(
    ("kind", "points", "xywh", "num_polygons"),
    [
        ("polygon", [[1, 2], [11, 2], [5, 9]], (1, 2, 10, 7), 1),
        (None, [[1, 2], [11, 2], [5, 9]], (1, 2, 10, 7), 1),
        ("oriented_rectangle", [[5, 1], [9, 5], [5, 9], [1, 5]], (1, 1, 8, 8), 1),
        ("circle", [[20, 20], [23, 24]], (15, 15, 10, 10), 0),
        ("line", [[30, 5], [10, 25]], (10, 5, 20, 20), 0),
        ("linestrip", [[1, 1], [5, 9], [9, 3]], (1, 1, 8, 8), 0),
        ("mask", [[3, 4], [10, 12]], (3, 4, 7, 8), 0),
    ],
)
def test_every_shape_with_an_area_becomes_a_box(
    tmp_path: Path, kind: str | None, points: Any, xywh: Any, num_polygons: int
) -> None:
    reading = read_labelme(tmp_path, a=make_json("a.jpg", make_shape("bolt", kind, points)))
    box = reading.pictures["images/a.jpg"].boxes[0]
    assert (box.xywh, len(box.polygons)) == (xywh, num_polygons)


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        (make_shape(kind="point", points=[[3, 4]]), "empty box"),
        (make_shape(kind="line", points=[[3, 4], [9, 4]]), "empty box"),
        (make_shape(kind="polygon", points=[[3, 4], [9, 4]]), "bad points"),
        (make_shape(points=[[3, 4]]), "bad points"),
        (make_shape(points=[[3, 4], [9, "far"]]), "bad points"),
        (make_shape(points=[[3, 4], [9, float("nan")]]), "bad points"),
        (make_shape(points="3 4"), "bad points"),
        (make_shape(kind="star"), "unknown shape"),
        (make_shape(kind=["star"]), "unknown shape"),  # type: ignore[arg-type]
        (make_shape(label=" "), "no label"),
        (make_shape(label=None), "no label"),
        ("bolt", "bad shape"),
    ],
)
def test_a_faulty_shape_is_left_out_by_number(tmp_path: Path, shape: Any, reason: str) -> None:
    reading = read_labelme(tmp_path, a=make_json("a.jpg", make_shape(), shape))
    assert quarantine(reading) == {("annotations/a.json", "shape 2", reason)}
    assert len(reading.pictures["images/a.jpg"].boxes) == 1


def test_a_picture_without_any_usable_shape_is_no_negative(tmp_path: Path) -> None:
    reading = read_labelme(tmp_path, a=make_json("a.jpg", make_shape(kind="star")))
    assert ("images/a.jpg", "", "no usable label") in quarantine(reading)
    assert not reading.pictures


def test_a_name_that_is_not_here_yields_to_the_files_own(tmp_path: Path) -> None:
    reading = read_labelme(tmp_path, a=make_json("/data/IMG_7.jpg", make_shape()))
    assert set(reading.pictures) == {"images/a.jpg"}
    assert reading.findings[0].severity == "warning"
    assert "IMG_7.jpg" in reading.findings[0].detail


def test_a_path_out_of_the_data_is_an_error(tmp_path: Path) -> None:
    reading = read_labelme(tmp_path, a=make_json("../../etc/a.jpg", make_shape()))
    assert reasons(reading, "error") == ["path outside the data"]


@pytest.mark.parametrize(
    "broken",
    [make_json("b.jpg", make_shape())[:70], make_json("b.jpg")[:20], "", '{"shapes": 3, "x": 1'],
)
def test_broken_json_leaves_its_picture_out(tmp_path: Path, broken: str) -> None:
    reading = read_labelme(tmp_path, a=make_json("a.jpg", make_shape()), b=broken)
    assert quarantine(reading) == {
        ("annotations/b.json", "", "broken JSON"),
        ("images/b.jpg", "", "label file not usable"),
    }
    assert set(reading.pictures) == {"images/a.jpg"}


def test_flags_that_are_set_are_labels_of_the_picture(tmp_path: Path) -> None:
    flags = {"scratched": True, "clean": False}
    reading = read_labelme(tmp_path, a=make_json("a.jpg", flags=flags))
    assert reading.pictures["images/a.jpg"].labels == ("scratched",)


def test_embedded_pictures_are_passed_over(tmp_path: Path) -> None:
    """imageData may be far longer than what is looked at to find the file."""
    text = make_json("a.jpg", make_shape(), imageData="!" * 300_000)
    reading = read_labelme(tmp_path, a=text)
    assert reading.pictures["images/a.jpg"].size == (64, 48)


def test_a_size_of_zero_is_told(tmp_path: Path) -> None:
    reading = read_labelme(tmp_path, a=make_json("a.jpg", imageWidth=0))
    assert reasons(reading, "warning") == ["bad size"]
    assert reading.pictures["images/a.jpg"].size is None


def test_labels_in_another_encoding(tmp_path: Path) -> None:
    text = make_json("a.jpg", make_shape("划伤"), make_shape("合格"))
    reading = read_labelme(tmp_path, a=text.encode("gbk"))
    labels = [box.label for box in reading.pictures["images/a.jpg"].boxes]
    assert labels == ["划伤", "合格"]
    assert reasons(reading, "info") == ["text encoding"]


def test_names_with_two_suffixes(tmp_path: Path) -> None:
    files = lay_out(tmp_path, {"a.jpg.json": make_json("old.jpg", make_shape())}, ("a.jpg",))
    assert set(read_found(labelme, files).pictures) == {"a.jpg"}


def test_other_json_is_not_taken_for_labelme(tmp_path: Path) -> None:
    texts = {"a.json": '{"shapes": [1, 2]}', "b.json": '{"imagePath": "a.jpg"}', "c.json": ""}
    assert not labelme.find(lay_out(tmp_path, texts, ("a.jpg", "c.jpg")))
