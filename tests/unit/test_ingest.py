"""Ingest: every file of a data set ends in the manifest, in the quarantine or in a finding."""

from __future__ import annotations

import json
import struct
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from pydantic import ValidationError

from enginehouse.errors import DataError
from enginehouse.ingest.ingest import IngestConfig
from tests.unit.ingesting import Data, draw, encode

COLUMNS = {  # as docs/manifest.md has them
    "pictures": "path md5 bytes format pixels phash width height mode handling label labels part "
    "time split source place brightness contrast sharpness",
    "boxes": "path label x y width height polygons source place",
    "quarantine": "path place reason detail",
    "findings": "severity reason file place detail remedy",
}


@pytest.fixture
def data(tmp_path: Path) -> Data:
    return Data(tmp_path)


def make_coco(data: Data, boxes: dict[str, list[list[float]]], **size: int) -> None:
    """Pictures and a COCO file with a category `nick` for all boxes."""
    images, annotations = [], []
    for number, (name, given) in enumerate(boxes.items(), 1):
        data.put(f"images/{name}")
        images.append({"id": number, "file_name": name, "width": 32, "height": 24, **size})
        for box in given:
            annotation = {"id": len(annotations) + 1, "image_id": number, "category_id": 1}
            annotations.append({**annotation, "bbox": box, "area": 1, "iscrowd": 0})
    categories = [{"id": 1, "name": "nick"}]
    document = {"images": images, "annotations": annotations, "categories": categories}
    data.put("annotations.json", json.dumps(document))


def test_tables_and_record_are_as_documented(data: Data) -> None:
    data.put_classes("good", "bad", count=2)
    data.put(".DS_Store", b"x")
    done = data.ingest()
    for name, columns in COLUMNS.items():
        assert list(getattr(done, name).columns) == columns.split()
    assert done.record.classes == done.record.labels == ("bad", "good")
    assert (done.record.format, done.record.good) == ("class_folders", "")
    assert (done.record.num_rows, done.record.num_quarantined, done.record.num_errors) == (4, 1, 0)
    assert done.pictures["path"].tolist() == ["bad/0.png", "bad/1.png", "good/0.png", "good/1.png"]
    row = done.pictures.iloc[0]
    assert (row["width"], row["height"], row["mode"], row["format"]) == (32, 24, "RGB", "PNG")
    assert row["labels"].tolist() == ["bad"] and row["part"] == row["pixels"]
    assert len(row["phash"]) == 16 and 0 < row["brightness"] < 255 and row["sharpness"] > 0


def test_unusable_files_are_quarantined_by_name_and_the_rest_is_used(data: Data) -> None:
    data.put_classes("good", "bad")
    whole = encode(draw(99, 200, 100), "JPEG")
    data.put("bad/cut.jpg", whole[: len(whole) // 2])
    data.put("bad/empty.jpg", b"")
    data.put("good/page.jpg", "<html>404</html>")
    data.put("good/photo.heic", b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(40))
    done = data.ingest()
    assert done.record.num_rows == 6
    assert done.reasons == {
        "bad/cut.jpg": "truncated or corrupt",
        "bad/empty.jpg": "empty file",
        "good/page.jpg": "not an image",
        "good/photo.heic": "unsupported format",
    }
    details = dict(zip(done.quarantine["path"], done.quarantine["detail"], strict=True))
    assert all(path in detail for path, detail in details.items())
    assert "JPEG or PNG" in details["good/photo.heic"]


def test_without_any_usable_picture_there_is_an_error_and_an_empty_manifest(data: Data) -> None:
    data.put("good/a.png", b"")
    data.put("bad/notes.txt", "nothing")
    done = data.ingest()
    assert done.record.num_rows == 0 and len(done.pictures) == 0
    assert "good/a.png: empty file" in done.find("no usable picture", "error")
    for path in list(data.folder.rglob("*.*")):
        path.unlink()
    data.put("notes.txt", "nothing")
    assert "suffix" in data.ingest().find("no usable picture", "error")


def test_what_decoding_did_is_told_in_the_row_and_as_a_warning(data: Data) -> None:
    data.put_classes("good", "bad")
    frames = [draw(n) for n in (1, 2, 3)]
    data.put("bad/moving.gif", encode(frames[0], "GIF", save_all=True, append_images=frames[1:]))
    data.put("bad/huge.png", encode(Image.new("1", (9000, 6000)), "PNG"))
    dark = np.random.default_rng(0).integers(0, 4095, (20, 20)).astype(np.uint16)
    data.put("bad/dark.png", encode(Image.fromarray(dark), "PNG"))
    data.put("bad/ink.jpg", encode(draw(5).convert("CMYK"), "JPEG"))
    data.put("bad/phone.mpo", encode(draw(6), "MPO", save_all=True, append_images=[draw(7)]))
    data.put("bad/wrong.jpg", encode(draw(8), "PNG"))
    done = data.ingest()
    handling = dict(zip(done.pictures["path"], done.pictures["handling"], strict=True))
    assert handling["bad/moving.gif"] == "first of 3 frames"
    assert handling["bad/huge.png"] == "halved: 54 million pixels"
    assert handling["bad/dark.png"] == "16 bits scaled to 8; only 12 of 16 bits used"
    assert handling["bad/ink.jpg"] == "CMYK converted"
    assert handling["bad/phone.mpo"] == handling["bad/0.png"] == ""
    assert (
        dict(zip(done.pictures["path"], done.pictures["format"], strict=True))["bad/phone.mpo"]
        == "JPEG"
    )
    assert "bad/moving.gif" in done.find("several frames", "warning")
    assert "bad/huge.png" in done.find("very large picture", "warning")
    assert "bad/dark.png" in done.find("dark 16-bit picture", "warning")
    told = done.find("mislabelled", "warning")
    assert "bad/wrong.jpg" in told and "JPEG" in told and "PNG" in told
    assert done.record.num_errors == 0 and done.reasons == {}


def test_a_finding_of_very_many_pictures_names_the_first_and_counts_all(data: Data) -> None:
    for number in range(25):
        data.put(f"good/{number:02}.jpg", encode(draw(number), "PNG"))
    done = data.ingest()
    named = done.findings[done.findings["reason"] == "mislabelled"]
    assert len(named) == 20
    assert "25 pictures" in done.find("mislabelled: total", "warning")


def test_the_same_pixels_under_two_labels_are_quarantined_both(data: Data) -> None:
    data.put_classes("cat", "dog")
    twin = encode(draw(50), "PNG")
    data.put("cat/twin_a.png", twin)
    data.put("dog/twin_b.bmp", encode(draw(50), "BMP"))  # other bytes, same pixels
    data.put("cat/copy_1.png", encode(draw(51)))
    data.put("cat/copy_2.png", encode(draw(51)))
    done = data.ingest()
    assert done.reasons == dict.fromkeys(("cat/twin_a.png", "dog/twin_b.bmp"), "label conflict")
    for detail in done.quarantine["detail"]:
        assert all(word in detail for word in ("twin_a.png", "twin_b.bmp", "cat", "dog"))
    parts = dict(zip(done.pictures["path"], done.pictures["part"], strict=True))
    assert parts["cat/copy_1.png"] == parts["cat/copy_2.png"] != parts["cat/0.png"]


def test_part_and_time_are_read_from_the_path(data: Data) -> None:
    data.put_classes("line1/cat", "line1/dog")
    data.put("line1/cat/2020-08-29_P7_a.png")
    data.put("line1/dog/2020-09-01_P7_b.png")
    done = data.ingest(group_pattern=r"^(line\d+)/.*_(P\d+)_", time_pattern=r"(\d{4}-\d\d-\d\d)_")
    rows = done.pictures.set_index("path")
    assert rows.loc["line1/cat/2020-08-29_P7_a.png", "part"] == "line1_P7"
    assert rows.loc["line1/dog/2020-09-01_P7_b.png", "time"] == "2020-09-01"
    assert rows.loc["line1/cat/0.png", "part"] == rows.loc["line1/cat/0.png", "pixels"]
    assert rows.loc["line1/cat/0.png", "time"] == ""
    missed = done.findings[done.findings["reason"] == "pattern does not match"]
    assert len(missed) == 2
    assert all("6 paths" in text and "line1/cat/0.png" in text for text in missed["detail"])


@pytest.mark.parametrize("field", ["group_pattern", "time_pattern"])
@pytest.mark.parametrize("text", ["P(", "P"])
def test_a_pattern_that_cannot_work_is_refused_at_once(field: str, text: str) -> None:
    with pytest.raises(ValidationError, match=field):
        IngestConfig.model_validate({field: text})


def test_a_file_that_changes_while_being_read_stops_the_run(data: Data) -> None:
    data.put_classes("good", "bad")
    with pytest.raises(DataError, match=r"good/1\.png changed"):
        data.ingest(change=lambda listing: listing.update({"good/1.png": "0" * 32}))
    with pytest.raises(DataError, match=r"good/2\.png can no longer be read"):
        data.ingest(change=lambda listing: (data.folder / "good/2.png").unlink())


def test_junk_hidden_folders_links_and_strange_files_are_told(data: Data) -> None:
    data.put_classes("cat", "dog")
    data.put("cat/.ipynb_checkpoints/0-checkpoint.png")
    data.put("__MACOSX/cat/._0.png", b"\0\5\x16\7")
    data.put("dog/Thumbs.db", b"x")
    data.put("dog/0042", encode(draw(7), "JPEG"))
    data.put("README.md", "# cats")
    data.put("more.zip", b"PK\3\4")
    (data.folder / "cat" / "again").symlink_to("..")
    done = data.ingest()
    assert done.record.num_rows == 6 and done.record.classes == ("cat", "dog")
    assert set(done.reasons.values()) == {"junk"} and len(done.reasons) == 3
    assert "cat/.ipynb_checkpoints" in done.find("hidden folder", "warning")
    assert "cat/again" in done.find("linked folder", "warning")
    assert "dog/0042.jpeg" in done.find("picture without a picture's name", "warning")
    assert "README.md" in done.find("other files", "info")
    assert "more.zip" in done.find("archive", "warning")


@pytest.mark.skipif(sys.platform != "linux", reason="file names are bytes only there")
def test_a_name_that_is_not_unicode_is_quarantined(data: Data) -> None:
    data.put_classes("cat", "dog")
    (data.folder / "cat" / b"caf\xe9.png".decode("utf-8", "surrogateescape")).write_bytes(
        encode(draw(9))
    )
    done = data.ingest()
    assert done.reasons == {r"cat/caf\xe9.png": "name is not Unicode"}
    assert done.record.num_rows == 6


def test_many_files_in_processes_and_few_in_threads_give_the_same_bytes(
    data: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    data.put_classes("good", "bad", count=20)
    data.put("bad/cut.png", b"\x89PNG")
    monkeypatch.setenv("ENGINEHOUSE_WORKERS", "2")
    alone = data.ingest().record.files
    monkeypatch.setattr("enginehouse.parallel.FEW", 10)
    data.store = type(data.store)(data.store.root.with_name("other"))
    assert data.ingest().record.files == alone


def count_decoded(data: Data, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Paths of the files that are decoded from now on."""
    from enginehouse.ingest import pictures

    decoded: list[str] = []
    plain = pictures.describe_file

    def describe(folder: Path, file: tuple[str, str]) -> Any:
        decoded.append(file[0])
        return plain(folder, file)

    monkeypatch.setattr(pictures, "describe_file", describe)
    return decoded


def test_only_new_contents_are_decoded_and_the_result_is_the_same_without_the_memo(
    data: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    data.put_classes("good", "bad")
    data.put("bad/empty.png", b"")
    decoded = count_decoded(data, monkeypatch)
    first = data.ingest()
    assert len(decoded) == 7
    decoded.clear()
    assert data.ingest().record == first.record
    assert decoded == []
    (data.folder / "bad/empty.png").rename(data.folder / "bad/nothing.png")
    (data.folder / "good/0.png").rename(data.folder / "good/renamed.png")
    data.put("good/new.png")
    with_memo = data.ingest()
    assert decoded == ["good/new.png"]
    assert with_memo.reasons == {"bad/nothing.png": "empty file"}
    assert "bad/nothing.png is empty" in with_memo.quarantine["detail"][0]
    for path in (data.store.root / "memo").iterdir():
        path.unlink()
    assert data.ingest().record == with_memo.record


@pytest.mark.parametrize("kind", ["garbage", "truncated", "wrong values"])
def test_a_damaged_memo_changes_nothing_and_is_rebuilt(
    data: Data, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sqlite3

    data.put_classes("good", "bad")
    whole = data.ingest().record
    (path,) = (data.store.root / "memo").iterdir()
    if kind == "garbage":
        path.write_bytes(b"no database at all" * 500)
    elif kind == "truncated":
        path.write_bytes(path.read_bytes()[:5000])
    else:
        with sqlite3.connect(path) as database:
            database.execute("UPDATE memo SET value = replace(value, '32', '33')")
    decoded = count_decoded(data, monkeypatch)
    assert data.ingest().record == whole
    assert len(decoded) == 6
    decoded.clear()
    assert data.ingest().record == whole
    assert decoded == []


def test_progress_counts_every_picture(data: Data) -> None:
    told: list[tuple[str, int, int]] = []
    data.report = lambda message, done=0, total=0, **more: told.append((message, done, total))
    data.put_classes("good", "bad")
    data.ingest()
    assert told == [("reading pictures", done, 6) for done in range(1, 7)]


def test_the_class_of_a_picture_with_boxes_follows_the_rule(data: Data) -> None:
    rows = "image,x,y,width,height,label\n"
    rows += "0.png,1,1,3,3,pit\n0.png,5,5,3,3,pit\n0.png,9,9,10,10,scratch\n"
    rows += "1.png,1,1,3,3,pit\n1.png,5,5,9,9,scratch\n"
    data.put_classes("images", count=2)
    data.put("boxes.csv", rows)
    data.put("images/2.png")
    done = data.ingest(unlisted="good")
    assert done.labels == {
        "images/0.png": "defect",
        "images/1.png": "defect",
        "images/2.png": "normal",
    }
    assert done.record.classes == ("normal", "defect") and done.record.good == "normal"
    assert done.record.labels == ("pit", "scratch")
    done = data.ingest(unlisted="good", image_class="majority", good_label="fine")
    assert list(done.labels.values()) == ["pit", "scratch", "fine"]
    assert done.record.classes == ("fine", "pit", "scratch")
    done = data.ingest(unlisted="left out", image_class="per_label")
    assert list(done.labels.values()) == ["pit+scratch", "pit+scratch"]
    assert done.reasons == {"images/2.png": "no label"}


def test_unlisted_pictures_can_be_good_also_where_pictures_have_labels(data: Data) -> None:
    data.put_classes("images", count=3)
    data.put("labels.csv", "file,label\n0.png,bad\n")
    assert data.ingest(unlisted="good").labels == {
        "images/0.png": "bad",
        "images/1.png": "normal",
        "images/2.png": "normal",
    }
    assert set(data.ingest(unlisted="left out").reasons) == {"images/1.png", "images/2.png"}


def test_labels_beside_a_declared_list_are_an_error(data: Data) -> None:
    data.put_classes("cat", "dog", "fox")
    done = data.ingest(labels={"classes": ["dog", "cat"]})
    told = done.find("undeclared label", "error")
    assert "fox" in told and "dog, cat" in told
    done = data.ingest(labels={"classes": ["dog", "cat", "fox"]})
    assert done.record.classes == ("dog", "cat", "fox") and done.record.num_errors == 0


def test_a_broken_picture_takes_its_boxes_along_and_says_so(data: Data) -> None:
    make_coco(data, {"a.png": [[1, 1, 5, 5], [9, 9, 4, 4]], "b.png": [[2, 2, 6, 6]]})
    data.put("images/a.png", b"\x89PNG")
    done = data.ingest()
    assert done.boxes["path"].tolist() == ["images/b.png"]
    assert "2 boxes in annotations.json" in done.quarantine["detail"][0]


def test_formats_that_agree_are_read_once_and_the_richest_is_used(data: Data) -> None:
    make_coco(data, {"a.png": [[1, 1, 5, 5], [9, 9, 4, 4]], "b.png": [[2.3, 2, 6, 6]]})
    sheet = "image,x,y,width,height,label\na,9,9,4,4,Nick\na,1,1,5,5,Nick\nb,2,2,6,6,Nick\n"
    data.put("boxes.csv", sheet)
    done = data.ingest()
    assert done.record.num_errors == 0 and len(done.boxes) == 3
    assert "boxes.csv" in done.find("label files agree", "info")


@pytest.mark.parametrize("row", ["b,2,2,9,6,nick", "b,2,2,6,6,dent", "a,2,2,6,6,nick"])
def test_formats_that_disagree_stop_the_run_unless_one_is_named(data: Data, row: str) -> None:
    make_coco(data, {"a.png": [], "b.png": [[2, 2, 6, 6]]})
    data.put("boxes.csv", f"image,x,y,width,height,label\n{row}\n")
    told = data.ingest().find("label files disagree", "error")
    assert "annotations.json" in told and "boxes.csv" in told and "--format" in told
    assert ".png" in told
    assert data.ingest(format="coco").record.num_errors == 0
    assert data.ingest(format="csv", unlisted="left out").record.format == "csv"


def test_one_label_file_can_be_named(data: Data) -> None:
    make_coco(data, {"a.png": [[1, 1, 5, 5]]})
    data.put("other.csv", "image,label\na.png,fine\n")
    assert data.ingest(label_file="other.csv").labels == {"images/a.png": "fine"}
    told = data.ingest(label_file="none.csv").find("no such label file", "error")
    assert "none.csv" in told and "other.csv" in told
    data.put("notes.md", "nothing of use")
    told = data.ingest(label_file="notes.md").find("unknown label file", "error")
    assert "notes.md" in told and "coco" in told


def test_a_named_format_that_is_not_there_is_an_error(data: Data) -> None:
    data.put_classes("cat", "dog")
    told = data.ingest(format="coco").find("no label file", "error")
    assert "coco" in told and "--format" in told


def test_sixteen_bit_colour_is_noted(data: Data) -> None:
    rows = b"".join(b"\0" + bytes(range(48)) for _ in range(4))
    head = struct.pack(">IIBBBBB", 8, 4, 16, 2, 0, 0, 0)
    chunks = [(b"IHDR", head), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    content = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        for name, body in chunks
    )
    data.put("good/deep.png", content)
    assert data.ingest().pictures["handling"].tolist() == ["16 bits scaled to 8"]
