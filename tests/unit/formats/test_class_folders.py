"""Class folders: which folder is the class, the split, or only in the way."""

from __future__ import annotations

import unicodedata
from dataclasses import replace
from pathlib import Path

import pytest

from enginehouse.files import Files
from enginehouse.formats import class_folders
from enginehouse.labels import Finding, LabelOptions, Reading
from tests.unit.formats.lay_out import lay_out, reasons


def read(files: Files, **options: object) -> Reading:
    assert class_folders.find(files) == []
    return class_folders.read(files, [], LabelOptions.model_validate(options))


def label(folder: Path, *pictures: str, **options: object) -> dict[str, tuple[str, str]]:
    """Path to label and split."""
    reading = read(lay_out(folder, {}, pictures), **options)
    assert not reading.left_out
    return {path: (*(each.labels or ("",)), each.split) for path, each in reading.pictures.items()}


@pytest.mark.parametrize("around", ["", "all/", "data/images/"])
def test_the_folder_is_the_class_whatever_lies_around(tmp_path: Path, around: str) -> None:
    paths = (f"{around}cat/1.jpg", f"{around}dog/1.jpg", f"{around}dog/2.PNG")
    labels = label(tmp_path, *paths)
    assert labels == dict(zip(paths, [("cat", ""), ("dog", ""), ("dog", "")], strict=True))


@pytest.mark.parametrize("around", ["", "data/"])
@pytest.mark.parametrize("within", ["", "images/"])
def test_given_splits_lie_above_the_classes(tmp_path: Path, around: str, within: str) -> None:
    labels = label(
        tmp_path,
        f"{around}train/{within}cat/1.jpg",
        f"{around}train/{within}dog/1.jpg",
        f"{around}Valid/{within}cat/1.jpg",
        f"{around}test/{within}dog/1.jpg",
    )
    assert list(labels.values()) == [
        ("cat", "val"),
        ("dog", "test"),
        ("cat", "train"),
        ("dog", "train"),
    ] or sorted(labels.values()) == [
        ("cat", "train"),
        ("cat", "val"),
        ("dog", "test"),
        ("dog", "train"),
    ]


def test_one_split_alone_is_a_split(tmp_path: Path) -> None:
    labels = label(tmp_path, "train/cat/1.jpg", "train/dog/1.jpg")
    assert sorted(labels.values()) == [("cat", "train"), ("dog", "train")]


def test_folders_without_pictures_do_not_disturb_the_splits(tmp_path: Path) -> None:
    texts = {"serving/readme.md": "x", "docs/a.txt": "b"}
    files = lay_out(tmp_path, texts, ("train/cat/1.jpg", "val/dog/1.jpg"))
    assert {each.split for each in read(files).pictures.values()} == {"train", "val"}


def test_splits_beside_other_folders_with_pictures_are_an_error(tmp_path: Path) -> None:
    pictures = ("train/cat/1.jpg", "val/cat/1.jpg", "docs/setup.png")
    (finding,) = read(lay_out(tmp_path, {}, pictures)).findings
    assert finding.severity == "error" and "docs" in finding.detail and "train" in finding.detail


def test_splits_within_classes_are_no_splits(tmp_path: Path) -> None:
    labels = label(tmp_path, "cat/train/1.jpg", "cat/val/1.jpg", "dog/train/1.jpg")
    assert sorted(labels.values()) == [("cat", ""), ("cat", ""), ("dog", "")]


@pytest.mark.parametrize(
    ("which", "expected"),
    [
        ("first", ["metal", "metal", "wood"]),
        ("last", ["metal", "rust", "rot"]),
        ("path", ["metal", "metal/rust", "wood/rot"]),
    ],
)
def test_nested_folders_follow_the_option(tmp_path: Path, which: str, expected: list[str]) -> None:
    paths = ("metal/1.jpg", "metal/rust/1.jpg", "wood/rot/1.jpg")
    labels = label(tmp_path, *paths, folder_class=which)
    assert [name for name, _ in labels.values()] == expected


def test_pictures_beside_the_class_folders_are_left_out(tmp_path: Path) -> None:
    reading = read(lay_out(tmp_path, {}, ("cat/1.jpg", "dog/1.jpg", "logo.png")))
    assert [(row.file, row.reason) for row in reading.left_out] == [("logo.png", "no label")]
    reading = read(lay_out(tmp_path, {}, ("all/cat/1.jpg", "all/dog/1.jpg", "all/x.png")))
    assert [row.file for row in reading.left_out] == ["all/x.png"]
    reading = read(lay_out(tmp_path, {}, ("train/cat/1.jpg", "val/dog/1.jpg", "x.png")))
    assert [row.file for row in reading.left_out] == ["x.png"]
    assert reading.classes == ("cat", "dog")


@pytest.mark.parametrize("names", [("1.jpg", "2.jpg"), ("images/1.jpg",), ("a/JPEGImages/1.jpg",)])
def test_without_class_folders_there_are_pictures_without_labels(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    reading = read(lay_out(tmp_path, {}, names))
    assert {each.labels for each in reading.pictures.values()} == {()}
    assert reading.classes == () and not reading.left_out
    assert reasons(reading, "warning") == ["no labels"]


def test_unlabelled_pictures_keep_their_splits(tmp_path: Path) -> None:
    labels = label(tmp_path, "train/images/1.jpg", "val/images/1.jpg")
    assert sorted(labels.values()) == [("", "train"), ("", "val")]


def test_one_class_folder_is_a_class(tmp_path: Path) -> None:
    assert label(tmp_path, "cat/1.jpg", "cat/2.jpg")["cat/1.jpg"] == ("cat", "")


def test_the_order_of_classes_is_declared_or_sorted(tmp_path: Path) -> None:
    files = lay_out(tmp_path, {}, ("b/1.jpg", "a/1.jpg", "c/1.jpg"))
    assert read(files).classes == ("a", "b", "c")
    assert read(files, classes=("c", "a", "b")).classes == ("c", "a", "b")


def test_pictures_of_one_class_share_what_is_said_of_them(tmp_path: Path) -> None:
    reading = read(lay_out(tmp_path, {}, tuple(f"{c}/{n}.jpg" for c in "ab" for n in range(9))))
    assert len({id(each) for each in reading.pictures.values()}) == 2


def find_empty(folder: Path, *empty: str, pictures: tuple[str, ...] = ()) -> list[Finding]:
    pictures = pictures or ("train/cat/1.jpg", "train/dog/1.jpg", "val/cat/1.jpg")
    return read(replace(lay_out(folder, {}, pictures), empty_folders=empty)).findings


def test_an_empty_class_folder_is_an_error(tmp_path: Path) -> None:
    for empty in ("train/emu", "val/emu", "val/dog"):
        (finding,) = find_empty(tmp_path, empty)
        assert finding.severity == "error" and finding.file == empty
        assert "0 images" in finding.detail and empty in finding.detail
    (finding,) = find_empty(tmp_path / "b", "emu", pictures=("cat/1.jpg", "dog/1.jpg"))
    assert finding.severity == "error"
    (finding,) = find_empty(tmp_path / "c", "all/emu", pictures=("all/cat/1.jpg", "all/dog/1.jpg"))
    assert finding.severity == "error"


def test_other_empty_folders_are_not_classes(tmp_path: Path) -> None:
    assert find_empty(tmp_path, "docs", "train/cat/sub", "train/.cache") == []
    (finding,) = find_empty(tmp_path, "test")
    assert finding.severity == "warning"


def test_a_class_folder_with_nothing_but_junk_is_empty(tmp_path: Path) -> None:
    texts = {"emu/Thumbs.db": "x", "cat/.DS_Store": "x"}
    (finding,) = read(lay_out(tmp_path, texts, ("cat/1.jpg", "dog/1.jpg"))).findings
    assert (finding.severity, finding.file) == ("error", "emu")


def compare_names(folder: Path, names: str, **options: object) -> list[Finding]:
    pictures = ("train/1/a.jpg", "train/2/a.jpg", "train/10/a.jpg")
    return read(lay_out(folder, {"serving/labels.txt": names}, pictures), **options).findings


def test_a_list_of_names_in_another_order_is_an_error(tmp_path: Path) -> None:
    (finding,) = compare_names(tmp_path, "1\n2\n10\n")
    assert finding.severity == "error" and finding.file == "serving/labels.txt"
    assert "order" in finding.detail and "index 1" in finding.detail
    assert "ingest.labels.classes" in finding.remedy and "'1', '2', '10'" in finding.remedy
    assert compare_names(tmp_path, "1\n10\n2\n") == []
    assert compare_names(tmp_path, "1\n2\n10\n", classes=("1", "2", "10")) == []


def test_a_list_of_other_names_is_told(tmp_path: Path) -> None:
    (finding,) = compare_names(tmp_path, "1\n2\n")
    assert finding.severity == "error" and "10" in finding.detail
    (finding,) = compare_names(tmp_path, "1\n10\n2\n20\n")
    assert finding.severity == "warning" and "20" in finding.detail
    (finding,) = compare_names(tmp_path, "background\n1\n10\n2\n")
    assert finding.severity == "error" and finding.reason == "order mismatch"
    (finding,) = compare_names(tmp_path, "apple\npear\n")
    assert finding.severity == "warning"


@pytest.mark.parametrize("other", ["Cat", "cat ", "ｃａｔ"])
def test_names_that_look_alike_are_told(tmp_path: Path, other: str) -> None:
    (finding,) = read(lay_out(tmp_path, {}, ("cat/1.jpg", f"{other}/1.jpg"))).findings
    assert finding.severity == "warning" and repr(other) in finding.detail


def test_two_unicode_forms_of_a_name_are_one_class(tmp_path: Path) -> None:
    forms = [unicodedata.normalize(form, "fällig") for form in ("NFC", "NFD")]
    reading = read(lay_out(tmp_path, {}, (*(f"{name}/1.jpg" for name in forms), "gut/1.jpg")))
    assert reading.classes == (forms[0], "gut")
    assert reasons(reading, "warning") == ["class names alike"]
