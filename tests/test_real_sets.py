"""Real data sets, where they are at hand: right counts, and every trap that is known of them."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from flows.cli import main
from tests.conftest import SHARED_DATA
from tests.judge import Judged

Judge = Callable[..., Judged]


def needs(name: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not (SHARED_DATA / name).is_dir(), reason=f"{name} is not here")


def of_reason(entries: Iterable[dict[str, str]], word: str) -> list[dict[str, str]]:
    return [entry for entry in entries if word in entry["reason"]]


@needs("xsdd")
def test_xsdd_has_copies_and_a_class_that_its_file_format_tells(judge: Judge) -> None:
    judged = judge(SHARED_DATA / "xsdd" / "images")
    judged.assert_ended("warn")
    verdict = judged.verdict
    assert verdict["images"] == 1360
    assert not verdict["quarantine"]
    assert verdict["picture_classes"] == {
        "red iron": 397,
        "slag inclusion": 238,
        "finishing roll printing": 203,
        "oxide scale of temperature system": 203,
        "surface scratch": 134,
        "iron sheet ash": 122,
        "oxide scale of plate system": 63,
    }
    pairs = {(2078, 2082), (2079, 2083), (2080, 2084), (2081, 2085), (2205, 2210)}
    pairs |= {(2206, 2211), (2207, 2212), (2208, 2213), (2209, 2214)}
    copies = of_reason(verdict["warnings"], "duplicate pictures")
    assert len(copies) == len(pairs)
    for first, second in pairs:
        judged.assert_mentions(rf"{first}\.jpg and red iron/{second}\.jpg")
    (leak,) = of_reason(verdict["warnings"], "leak")
    assert "PNG" in leak["detail"]
    assert "finishing roll printing" in leak["detail"]
    judged.assert_mentions(r"3048\.jpg has width 122", r"2041\.jpg has width 130")


@needs("bsdata")
def test_bsdata_agrees_with_itself_and_has_near_identical_frames(judge: Judge) -> None:
    judged = judge(SHARED_DATA / "bsdata")
    judged.assert_ended("warn")
    verdict = judged.verdict
    assert (verdict["images"], verdict["boxes"]) == (394, 485)
    assert not verdict["quarantine"]
    assert max(verdict["sizes"].items(), key=lambda item: item[1])[0] == "1130x460"
    agreeing = " ".join(e["detail"] for e in of_reason(verdict["infos"], "agree"))
    assert "boxes.xlsx" in agreeing
    assert "labelme" in agreeing
    assert of_reason(verdict["warnings"], "near duplicates")


@needs("bsdata")
def test_the_sheet_and_the_coco_file_of_bsdata_agree_box_for_box(
    in_check_state: None, tmp_path: Path
) -> None:
    rows = []
    for name in ("boxes.xlsx", "annotations.coco.json"):
        out = tmp_path / name
        source = str(SHARED_DATA / "bsdata" / name)
        assert main(["convert", source, "--to", "csv", "--out", str(out), "--no-pictures"]) == 0
        with (out / "labels.csv").open(encoding="utf-8", newline="") as stream:
            rows.append(list(csv.DictReader(stream)))
    sheet, coco = rows
    assert len(sheet) == len(coco) == 485
    sides = ("x", "y", "width", "height")
    for ours, theirs in zip(sheet, coco, strict=True):
        assert (ours["image"], ours["label"]) == (theirs["image"], theirs["label"])
        assert [float(ours[s]) for s in sides] == pytest.approx([float(theirs[s]) for s in sides])


@needs("bccd_coco")
def test_bccd_has_an_empty_category_and_unequal_labels(judge: Judge) -> None:
    judged = judge(SHARED_DATA / "bccd_coco")
    judged.assert_ended("warn")
    verdict = judged.verdict
    assert (verdict["images"], verdict["boxes"]) == (240, 5638)
    assert {e["name"]: e["boxes"] for e in verdict["classes"]} == {"rbc": 5387, "wbc": 251}
    assert verdict["label_ids"] == {"rbc": 1, "wbc": 2}
    assert verdict["splits"] == {"train": 210, "val": 20, "test": 10}
    assert not verdict["quarantine"]
    judged.assert_mentions("RBC-WBC", "unequal", r"rbc has 5387 boxes, wbc 251: 21\.5 times")


@needs("clothing10")
def test_clothing_has_no_split_to_train_on(judge: Judge) -> None:
    judged = judge(SHARED_DATA / "clothing10")
    judged.assert_ended("warn")
    verdict = judged.verdict
    assert verdict["images"] == 713
    assert not verdict["quarantine"]
    assert len(verdict["picture_classes"]) == 10
    assert verdict["picture_classes"]["t-shirt"] == 133
    assert verdict["picture_classes"]["skirt"] == 24
    assert verdict["splits"] == {"test": 372, "val": 341}
    assert len(verdict["sizes"]) == 126
    judged.assert_mentions("leave nothing to train on")


@needs("cifar10_jpg")
def test_cifar_has_6000_pictures_and_no_copies(judge: Judge) -> None:
    judged = judge(SHARED_DATA / "cifar10_jpg")
    judged.assert_ended("accept")
    verdict = judged.verdict
    assert verdict["images"] == 6000
    assert set(verdict["picture_classes"].values()) == {600}
    assert verdict["splits"] == {"train": 5000, "test": 1000}
    assert verdict["sizes"] == {"32x32": 6000}
    assert not verdict["quarantine"]
    assert not of_reason(verdict["warnings"], "duplicate pictures")
