"""Lists of pictures: one path per line, whatever stands in the names."""

from __future__ import annotations

from pathlib import Path

import pytest

from enginehouse.files import Files
from enginehouse.formats import file_list
from tests.unit.formats.lay_out import lay_out, quarantine, read_found, reasons

ODD = ("images/part (1).jpg", "images/part  two.jpg", "images/50% off, left.jpg", "images/a.jpg")


def test_names_may_hold_anything_but_a_line_break(tmp_path: Path) -> None:
    reading = read_found(file_list, lay_out(tmp_path, {"split.txt": "\n".join(ODD)}, ODD))
    assert set(reading.pictures) == set(ODD)
    assert not reading.left_out
    assert reasons(reading, "warning") == ["no labels"] and not reasons(reading, "error")


def test_lists_give_splits_and_folders_give_classes(tmp_path: Path) -> None:
    pictures = tuple(f"{c}/{n}.jpg" for c in ("cat", "dog") for n in range(3))
    texts = {
        "train.txt": "cat/0.jpg\r\ndog/0.jpg\r\n",
        "val_list.txt": "./cat/1.jpg\n\ndog\\1.jpg\n",
        "test.txt": "/home/me/set/cat/2.jpg\n",
    }
    reading = read_found(file_list, lay_out(tmp_path, texts, pictures))
    found = {path: (each.labels, each.split) for path, each in reading.pictures.items()}
    assert found == {
        "cat/0.jpg": (("cat",), "train"),
        "cat/1.jpg": (("cat",), "val"),
        "cat/2.jpg": (("cat",), "test"),
        "dog/0.jpg": (("dog",), "train"),
        "dog/1.jpg": (("dog",), "val"),
    }
    assert reading.unlisted == "left out"
    assert reading.pictures["dog/1.jpg"].place == "line 3"
    assert reading.pictures["dog/1.jpg"].file == "val_list.txt"


def test_every_line_that_leads_nowhere_is_told(tmp_path: Path) -> None:
    lines = "a/1.jpg\na/gone.jpg\na/2.jpg\na/1.jpg\n../../etc/x.jpg\na/3.jpg\n"
    reading = read_found(
        file_list, lay_out(tmp_path, {"list.txt": lines}, ("a/1.jpg", "a/2.jpg", "a/3.jpg"))
    )
    assert quarantine(reading) == {("list.txt", "line 2", "missing file")}
    (duplicate,) = [f for f in reading.findings if f.reason == "duplicate line"]
    assert duplicate.place == "line 4" and "line 1" in duplicate.detail
    (escape,) = [f for f in reading.findings if f.severity == "error"]
    assert escape.place == "line 5" and escape.reason == "path outside the data"


def test_a_picture_in_two_splits_is_an_error(tmp_path: Path) -> None:
    texts = {"train.txt": "1.jpg\n2.jpg\n", "val.txt": "2.jpg\n3.jpg\n"}
    reading = read_found(file_list, lay_out(tmp_path, texts, ("1.jpg", "2.jpg", "3.jpg")))
    (error,) = [f for f in reading.findings if f.severity == "error"]
    assert "2.jpg" in error.detail and "train" in error.detail and "val" in error.detail


@pytest.mark.parametrize(
    "text",
    [
        "cat\ndog\n",  # names of classes
        "1\n2\n",  # names without suffix
        "cat/1.jpg 0\ncat/2.jpg 1\n",  # a table
        "cat/none.jpg\ncat/nothing.jpg\n",
        "0123456789abcdef0123456789abcdef  cat/1.jpg\n",  # checksums
        "",
        b"\xff\xfe\0\1\2",
    ],
)
def test_other_files_are_no_lists(tmp_path: Path, text: str | bytes) -> None:
    files: Files = lay_out(tmp_path, {"list.txt": text}, ("cat/1.jpg", "cat/2.jpg"))
    assert file_list.find(files) == []
