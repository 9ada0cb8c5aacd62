"""Writing a manifest out as COCO, YOLO and CSV: what the files say, and what is refused."""

from __future__ import annotations

import csv
import hashlib
import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from PIL import Image

from enginehouse.convert.convert import convert
from enginehouse.errors import DataError
from enginehouse.files import Files
from enginehouse.ingest.record import Manifest

SIZE = (60, 40)
SQUARE = (10.0, 5.0, 30.0, 5.0, 30.0, 25.0, 10.0, 25.0)  # 20 x 20


@dataclass
class Maker:
    """A data set made by hand: pictures on disk, and the tables that ingest would write."""

    folder: Path
    pictures: list[dict[str, Any]] = field(default_factory=list)
    boxes: list[dict[str, Any]] = field(default_factory=list)

    def add(self, path: str, *boxes: tuple[Any, ...], exif: int = 0, **row: Any) -> None:
        """A picture with boxes (label, x, y, width, height[, polygons])."""
        target = self.folder / "data" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        image = Image.new("RGB", SIZE, (len(self.pictures), 60, 120))
        tags = Image.Exif()
        if exif:
            tags[0x0112] = exif
        image.save(target, exif=tags)
        turned = SIZE[::-1] if exif >= 5 else SIZE
        common = {
            "width": turned[0],
            "height": turned[1],
            "split": "",
            "part": path,
            "pixels": path,
        }
        labels = sorted({box[0] for box in boxes})
        self.pictures.append({"path": path, **common, "labels": labels, **row})
        for label, x, y, width, height, *polygons in boxes:
            numbers = {"x": float(x), "y": float(y), "width": float(width), "height": float(height)}
            self.boxes.append({"path": path, "label": label, **numbers, "polygons": polygons})

    def convert(self, to: str, good: str = "good", **options: Any) -> dict[str, Any]:
        labels = sorted({label for row in self.pictures for label in row["labels"]})
        ids = options.pop("ids", {})
        tables = {name: self.folder / name for name in ("manifest.parquet", "boxes.parquet")}
        pd.DataFrame(self.pictures).to_parquet(tables["manifest.parquet"])
        columns = ["path", "label", "x", "y", "width", "height", "polygons"]
        pd.DataFrame(self.boxes, columns=columns).to_parquet(tables["boxes.parquet"])
        manifest = Manifest(
            format="by hand",
            classes=(),
            labels=options.pop("labels", tuple(labels)),
            label_ids=ids,
            good=good,
            defect=options.pop("defect", ""),
            num_rows=len(self.pictures),
            num_boxes=len(self.boxes),
            num_quarantined=0,
            num_errors=0,
        )
        data = self.folder / "data"
        listing = {
            row["path"]: hashlib.md5((data / row["path"]).read_bytes()).hexdigest()
            for row in self.pictures
        }
        return convert(
            manifest, tables, Files(data, listing), to, self.out, {"source": "data"}, **options
        )

    @property
    def out(self) -> Path:
        return self.folder / "out"


@pytest.fixture
def maker(tmp_path: Path) -> Maker:
    return Maker(tmp_path)


def test_coco_is_read_by_pycocotools(maker: Maker) -> None:
    from pycocotools.coco import COCO

    maker.add("images/a.png", ("dent", 10, 5, 20, 20, SQUARE), ("rust", 1.5, 2, 3, 4))
    maker.add("images/b.png")
    report = maker.convert("coco", labels=("rust", "dent", "good"))
    assert (report["images"], report["boxes"], report["labels"]) == (2, 2, ["rust", "dent"])
    coco = COCO(maker.out / "annotations.json")
    assert {c["id"]: c["name"] for c in coco.loadCats(coco.getCatIds())} == {1: "rust", 2: "dent"}
    dent, rust = coco.loadAnns(coco.getAnnIds(imgIds=[1]))
    assert (dent["category_id"], dent["bbox"], dent["area"]) == (2, [10, 5, 20, 20], 400)
    assert coco.annToMask(dent).sum() == 400
    assert (rust["bbox"], rust["area"], rust["segmentation"]) == ([1.5, 2, 3, 4], 12, [])
    assert coco.getAnnIds(imgIds=[2]) == []
    for image in coco.loadImgs(coco.getImgIds()):
        with Image.open(maker.out / "images" / image["file_name"]) as found:
            assert found.size == (image["width"], image["height"])


def test_coco_categories_keep_the_ids_they_had(maker: Maker) -> None:
    maker.add("a.png", ("nut", 1, 1, 5, 5), ("bolt", 1, 1, 5, 5), ("gear", 1, 1, 5, 5))
    maker.convert("coco", labels=("bolt", "nut", "washer", "gear"), ids={"bolt": 1, "nut": 90})
    content = json.loads((maker.out / "annotations.json").read_text())
    ids = {category["name"]: category["id"] for category in content["categories"]}
    assert ids == {"bolt": 1, "nut": 90, "washer": 91, "gear": 92}
    assert [a["category_id"] for a in content["annotations"]] == [90, 1, 92]


def test_coco_has_a_file_per_split_and_ids_that_never_repeat(maker: Maker) -> None:
    maker.add("train/a.png", ("dent", 1, 1, 5, 5), ("dent", 9, 9, 5, 5), split="train")
    maker.add("valid/b.png", ("dent", 2, 2, 5, 5), split="val")
    maker.add("c.png", ("dent", 3, 3, 5, 5))
    report = maker.convert("coco")
    assert report["label_files"] == [f"annotations/{s}.json" for s in ("rest", "train", "val")]
    parts = [json.loads((maker.out / name).read_text()) for name in report["label_files"]]
    assert sorted(a["id"] for part in parts for a in part["annotations"]) == [1, 2, 3, 4]
    assert sorted(i["id"] for part in parts for i in part["images"]) == [1, 2, 3]
    assert len({json.dumps(part["categories"]) for part in parts}) == 1


def test_yolo_lies_in_folders_by_split_as_ultralytics_looks_for_them(maker: Maker) -> None:
    maker.add("train/images/a.png", ("rust", 15, 10, 30, 20), split="train")
    maker.add("valid/images/b.png", split="val")
    maker.add("valid/images/deep/c.png", ("错位 b", 0, 0, 60, 40), split="val")
    report = maker.convert("yolo", labels=("rust", "错位 b"))
    settings = yaml.safe_load((maker.out / "data.yaml").read_text(encoding="utf-8"))
    assert settings["names"] == {0: "rust", 1: "错位 b"}
    assert (settings["train"], settings["val"]) == ("images/train", "images/val")
    assert (maker.out / "labels/train/a.txt").read_text() == "0 0.5 0.5 0.5 0.5\n"
    assert (maker.out / "labels/val/b.txt").read_text() == ""
    assert (maker.out / "labels/val/deep/c.txt").read_text() == "1 0.5 0.5 1 1\n"
    for picture in (maker.out / "images").rglob("*.png"):
        label = "labels".join(str(picture).rsplit("images", 1))  # how Ultralytics finds it
        assert Path(label).with_suffix(".txt").is_file()
    assert report["renamed"] == []


def test_yolo_without_splits_names_none(maker: Maker) -> None:
    maker.add("a.png", ("rust", 15, 10, 30, 20))
    maker.convert("yolo")
    text = (maker.out / "data.yaml").read_text()
    assert yaml.safe_load(text) == {"path": ".", "names": {0: "rust"}}
    assert "train:" in text  # what to add, as a comment


def test_yolo_tells_pictures_of_one_stem_apart(maker: Maker) -> None:
    maker.add("left/images/a.png", ("rust", 0, 0, 6, 4))
    maker.add("left/a.jpg", ("rust", 0, 0, 12, 8))
    report = maker.convert("yolo")
    assert (maker.out / "labels/left/a.txt").read_text() == "0 0.05 0.05 0.1 0.1\n"
    assert (maker.out / "labels/left/a_2.txt").read_text() == "0 0.1 0.1 0.2 0.2\n"
    assert [(r["file"], r["name"]) for r in report["renamed"]] == [
        ("left/a.jpg", "images/left/a_2.jpg")
    ]


def test_yolo_refuses_a_label_with_a_line_break_and_writes_nothing(maker: Maker) -> None:
    maker.add("a.png", ("two\nlines", 1, 1, 5, 5))
    with pytest.raises(DataError, match=r"two\\nlines"):
        maker.convert("yolo")
    assert not maker.out.exists()
    assert not list(maker.folder.glob(".out*"))


def test_csv_has_a_row_per_box_and_one_for_a_picture_without(maker: Maker) -> None:
    maker.add('a, "b".png', ("划伤", 1.25, 2, 3, 4), ("rust", 5, 6, 7, 8), split="train", part="p1")
    maker.add("c.png", split="val", part="p2")
    report = maker.convert("csv")
    with (maker.out / "labels.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [list(row.values()) for row in rows] == [
        ['a, "b".png', "划伤", "1.25", "2", "3", "4", "train", "p1"],
        ['a, "b".png', "rust", "5", "6", "7", "8", "train", "p1"],
        ["c.png", "", "", "", "", "", "val", "p2"],
    ]
    assert report["changed"] == []


def test_csv_takes_labels_of_whole_pictures_and_the_box_formats_refuse(maker: Maker) -> None:
    maker.add("ok/a.png", labels=["ok"])
    maker.add("bad/b.png", labels=["bad", "worse"])
    for to in ("coco", "yolo"):
        with pytest.raises(DataError, match="labels of whole pictures") as caught:
            maker.convert(to, good="")
        assert "--to csv" in caught.value.remedy
    maker.convert("csv", good="")
    lines = (maker.out / "labels.csv").read_text().splitlines()
    assert lines == ["image,label", "ok/a.png,ok", "bad/b.png,bad", "bad/b.png,worse"]


def test_what_a_format_cannot_hold_is_said(maker: Maker) -> None:
    maker.add("a.png", ("dent", 10, 5, 20, 20, SQUARE), labels=["dent", "wet"], part="p1")
    lost = maker.convert("yolo", ids={"dent": 5})["changed"]
    for words in ("polygons: 1", "whole pictures: those of 1", "groups", "numbers labels from 0"):
        assert any(words in sentence for sentence in lost), words


@pytest.mark.parametrize("to", ["coco", "yolo", "csv"])
def test_boxes_without_a_label_get_the_word_for_defects(maker: Maker, to: str) -> None:
    maker.add("a.png", ("", 1, 1, 5, 5), ("", 9, 9, 5, 5), labels=["defect"])
    report = maker.convert(to, labels=("good", "defect"), defect="defect")
    assert report["labels"] == ["defect"]
    assert report["changed"] == ["2 boxes bear no label: written as 'defect'."]


@pytest.mark.parametrize("to", ["coco", "yolo"])
def test_a_picture_that_exif_turns_is_written_upright(maker: Maker, to: str) -> None:
    maker.add("a.jpg", ("dent", 0, 0, 40, 60), exif=6)
    maker.add("b.jpg", ("dent", 0, 0, 60, 40), exif=1)
    report = maker.convert(to)
    assert [(r["file"], r["name"]) for r in report["renamed"]] == [("a.jpg", "images/a.png")]
    with Image.open(maker.out / "images/a.png") as image:
        assert image.size == (40, 60)
        assert image.getexif().get(0x0112) in (None, 1)
        stored = np.asarray(Image.open(maker.folder / "data/a.jpg").convert("RGB"))
        assert (np.asarray(image) == np.rot90(stored, -1)).all()
    assert (maker.out / "images/b.jpg").read_bytes() == (maker.folder / "data/b.jpg").read_bytes()


def test_pictures_are_copies_and_can_be_left_out(maker: Maker) -> None:
    maker.add("a.png", ("dent", 1, 1, 5, 5))
    maker.convert("coco", with_pictures=False)
    assert sorted(p.name for p in maker.out.iterdir()) == ["annotations.json", "report.json"]
    shutil.rmtree(maker.out)
    report = maker.convert("coco")
    assert json.loads((maker.out / "report.json").read_text()) == {"source": "data", **report}
    source = maker.folder / "data/a.png"
    assert not (maker.out / "images/a.png").samefile(source)


def test_the_same_manifest_gives_the_same_bytes(maker: Maker, tmp_path: Path) -> None:
    maker.add("a.png", ("dent", 1 / 3, 1, 5, 5))
    for to in ("coco", "yolo", "csv"):
        maker.out.mkdir(exist_ok=True)
        maker.convert(to)
        first = {p: p.read_bytes() for p in maker.out.rglob("*") if p.is_file()}
        maker.out.rename(tmp_path / f"first-{to}")
        maker.convert(to)
        assert {p: p.read_bytes() for p in maker.out.rglob("*") if p.is_file()} == first
        maker.out.rename(tmp_path / f"second-{to}")
