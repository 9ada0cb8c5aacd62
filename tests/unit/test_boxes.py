"""Boxes meet the true size of their picture: what is kept, mended, dropped and refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from enginehouse.ingest.boxes import Settled, settle_boxes
from enginehouse.ingest.frames import Frame
from enginehouse.ingest.systematic import find_systematic
from enginehouse.labels import Box, Labelled
from tests.unit.ingesting import Data, encode

FRAME = Frame(64, 48, 1)


def settle(*boxes: Box, frame: Frame = FRAME, size: tuple[int, int] | None = None) -> Settled:
    labelled = Labelled(boxes=boxes, file="labels.json", size=size)
    return settle_boxes("images/a.png", labelled, frame)


def place(settled: Settled) -> list[tuple[float, ...]]:
    return [box[1:5] for box in settled.boxes]


def test_a_box_inside_stays_as_it_is_and_nothing_is_said() -> None:
    settled = settle(Box("nick", (4.5, 4, 20, 16), ((5, 5, 9, 5, 9, 9),), "annotation 1"))
    assert place(settled) == [(4.5, 4, 20, 16)]
    assert settled.boxes[0].polygons == ((5, 5, 9, 5, 9, 9),)
    assert settled.boxes[0].place == "annotation 1"
    assert not settled.findings and not settled.left_out


@pytest.mark.parametrize(
    ("xywh", "clipped"),
    [
        ((50, 6, 20, 20), (50, 6, 14, 20)),
        ((-5, -4, 20, 20), (0, 0, 15, 16)),
        ((-5, -5, 100, 100), (0, 0, 64, 48)),
    ],
)
def test_a_box_that_sticks_out_is_clipped_and_told(xywh: Any, clipped: tuple[float, ...]) -> None:
    settled = settle(Box("nick", xywh, place="annotation 2"))
    assert place(settled) == [clipped]
    (finding,) = settled.findings
    assert (finding.severity, finding.file, finding.place) == (
        "warning",
        "labels.json",
        "annotation 2",
    )
    assert "images/a.png" in finding.detail and "clipped" in finding.detail


def test_rounding_over_an_edge_is_clipped_without_a_word() -> None:
    settled = settle(Box("nick", (0.5, 0.5, 0.500004, 0.500004), relative=True))
    assert place(settled) == [(32, 24, 32, 24)]
    assert not settled.findings


@pytest.mark.parametrize("xywh", [(8, 6, 0, 20), (8, 6, 20, 0), (8, 6, -3, 20)])
def test_a_box_without_area_is_left_out(xywh: Any) -> None:
    settled = settle(Box("nick", xywh, place="annotation 2"), Box("nick", (1, 1, 2, 2)))
    assert place(settled) == [(1, 1, 2, 2)]
    (row,) = settled.left_out
    assert (row.file, row.place, row.reason) == ("labels.json", "annotation 2", "empty box")
    assert "area" in row.detail and "width" in row.detail


@pytest.mark.parametrize("xywh", [(70, 6, 5, 5), (4, 48, 5, 5), (-9, 4, 9, 5)])
def test_a_box_outside_is_left_out(xywh: Any) -> None:
    settled = settle(Box("nick", xywh))
    assert not settled.boxes
    assert settled.left_out[0].reason == "box outside the picture"


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_box_without_numbers_is_an_error(number: float) -> None:
    for box in (Box("a", (number, 1, 2, 3)), Box("a", (1, 1, 2, 3), ((1, 1, number, 2, 3, 3),))):
        (finding,) = settle(box).findings
        assert finding.severity == "error" and "nan" in finding.detail


def test_a_box_of_zeros_stands_for_no_box() -> None:
    settled = settle(Box("nick", (0, 0, 0, 0)))
    assert not settled.boxes and not settled.left_out
    assert settled.findings[0].severity == "info"


def test_exact_duplicates_count_once() -> None:
    twice = [Box("nick", (1, 1, 5, 5), place=f"line {n}") for n in (1, 2)]
    settled = settle(*twice, Box("dent", (1, 1, 5, 5), place="line 3"))
    assert [box.label for box in settled.boxes] == ["nick", "dent"]
    (finding,) = settled.findings
    assert finding.severity == "warning" and finding.place == "line 2"
    assert "duplicate" in finding.detail and "line 1" in finding.detail


def test_polygons_are_clipped_and_those_without_area_dropped() -> None:
    polygons = ((50, 5, 80, 5, 80, 20, 50, 20), (1, 1, 5, 1), (2, 2, 2, 5, 2, 9))
    settled = settle(Box("nick", (50, 5, 14, 15), polygons))
    assert settled.boxes[0].polygons == ((50, 5, 64, 5, 64, 20, 50, 20),)
    assert [f.reason for f in settled.findings] == ["polygon dropped"]


def test_a_claimed_size_must_be_the_true_one() -> None:
    assert not settle(Box("nick", (1, 1, 5, 5)), size=(64, 48)).findings
    settled = settle(Box("nick", (1, 1, 5, 5)), size=(48, 64))
    assert not settled.boxes
    (finding,) = settled.findings
    assert finding.severity == "error" and "exchanged" in finding.detail
    assert all(word in finding.detail for word in ("images/a.png", "64 x 48", "48 x 64"))
    (finding,) = settle(Box("nick", (1, 1, 5, 5)), size=(128, 96)).findings
    assert finding.severity == "error" and "128 x 96" in finding.detail


def test_a_wrong_size_without_boxes_in_pixels_is_a_warning() -> None:
    for boxes in ((), (Box("nick", (0.1, 0.1, 0.5, 0.5), relative=True),)):
        settled = settle(*boxes, size=(128, 96))
        assert [f.severity for f in settled.findings] == ["warning"]
        assert len(settled.boxes) == len(boxes)
    (finding,) = settle(Box("nick", (1, 1, 5, 5)), size=(0, 0)).findings
    assert finding.severity == "warning"


@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize("orientation", [5, 6, 7, 8])
def test_boxes_of_the_stored_frame_are_turned_as_the_picture_is(
    data: Data, orientation: int, relative: bool
) -> None:
    stored = Image.new("RGB", (64, 48), "black")
    stored.paste("white", (4, 8, 20, 14))
    exif = Image.Exif()
    exif[0x0112] = orientation
    data.put("a.jpg", encode(stored, "JPEG", exif=exif, quality=95))
    frame = Frame(48, 64, orientation)
    box = Box("nick", (4, 8, 16, 6), ((4, 8, 20, 8, 20, 14, 4, 14),))
    if relative:
        box = Box("nick", (4 / 64, 8 / 48, 16 / 64, 6 / 48), relative=True)
    settled = settle(box, frame=frame, size=(64, 48))
    x, y, width, height = place(settled)[0]
    assert (width, height) == (6, 16)
    from enginehouse.picture import decode_picture

    array = decode_picture(data.folder / "a.jpg").array
    inside = array[int(y) : int(y + height), int(x) : int(x + width)]
    assert inside.min() > 150 and array.astype(int).sum() < inside.astype(int).sum() * 1.5
    assert [f.severity for f in settled.findings] == ["info"]
    if not relative:
        assert min(settled.boxes[0].polygons[0][::2]) == x


def test_boxes_of_the_upright_frame_are_not_turned() -> None:
    frame = Frame(48, 64, 6)
    for size in (None, (48, 64)):
        settled = settle(Box("nick", (4, 8, 16, 6)), frame=frame, size=size)
        assert place(settled) == [(4, 8, 16, 6)]


def find(*boxes: tuple[float, float, float, float]) -> list[str]:
    pictures = [(Labelled(boxes=(Box("a", xywh),), file="a.json"), FRAME) for xywh in boxes]
    return [finding.reason for finding in find_systematic(pictures)]


def test_boxes_that_are_all_corners_are_one_error() -> None:
    corners = ((30, 20, 60, 44), (34, 26, 62, 46), (2, 3, 9, 9))
    assert find(*corners) == ["boxes are xyxy"]
    assert find((50, 6, 20, 20), (4, 4, 20, 16), (10, 10, 16, 16)) == []
    assert find((2, 1, 70, 40), (3, 2, 50, 40), (1, 1, 60, 44)) == []  # large, one sticks out
    assert find((30, 20, 60, 44)) == []  # one box is no system


def test_boxes_that_are_all_shares_are_one_error() -> None:
    assert find((0.1, 0.2, 0.3, 0.3), (0.5, 0.5, 0.2, 0.1)) == ["boxes are normalised"]
    assert find((0, 0, 1, 1)) == []
    assert find((0.1, 0.2, 0.3, 0.3), (5, 5, 2, 1)) == []


@pytest.fixture
def data(tmp_path: Path) -> Data:
    return Data(tmp_path)


def test_the_whole_way_from_a_label_file_to_the_tables(data: Data) -> None:
    boxes = [[4, 4, 20, 16], [50, 6, 20, 20], [8, 6, 0, 20], [4, 4, 20, 16]]
    pixels = np.random.default_rng(0).integers(0, 255, (48, 64, 3), np.uint8)
    data.put("images/part.png", encode(Image.fromarray(pixels)))
    annotations = [
        {"id": n, "image_id": 1, "category_id": 1, "bbox": box, "area": 9, "iscrowd": 0}
        for n, box in enumerate(boxes, 1)
    ]
    document = {
        "images": [{"id": 1, "file_name": "part.png", "width": 64, "height": 48}],
        "annotations": annotations,
        "categories": [{"id": 1, "name": "nick"}],
    }
    data.put("annotations.json", json.dumps(document))
    done = data.ingest()
    rows = done.boxes[["x", "y", "width", "height"]].to_numpy().tolist()
    assert rows == [[4, 4, 20, 16], [50, 6, 14, 20]]
    assert done.record.num_boxes == 2 and done.labels == {"images/part.png": "defect"}
    assert done.reasons["annotations.json"] == "empty box"
    assert "annotation 2" in done.find("box clipped", "warning")


def test_a_picture_whose_only_box_is_broken_is_not_taken_as_good(data: Data) -> None:
    data.put_classes("images", count=2)
    data.put("boxes.csv", "image,x,y,width,height,label\n0.png,3,3,0,5,nick\n1.png,1,1,5,5,nick\n")
    done = data.ingest()
    assert "normal" not in done.labels.values()
