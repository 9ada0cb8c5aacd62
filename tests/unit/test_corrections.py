"""Corrections: what a sheet in the data folder does to labels, and how it may not fit."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Sequence
from pathlib import Path

import openpyxl
import pytest

from enginehouse.correction_sheet import REMOVE, is_corrections
from tests.unit.ingesting import Data, Ingested

HEADER = ("path", "given", "label", "md5")
Row = tuple[str, str, str]


@pytest.fixture
def data(tmp_path: Path) -> Data:
    made = Data(tmp_path)
    made.put_classes("good", "pit", count=3)
    return made


def hash_of(data: Data, path: str) -> str:
    file = data.folder / path
    return hashlib.md5(file.read_bytes()).hexdigest() if file.is_file() else "0" * 32


def put_sheet(data: Data, name: str, rows: Sequence[Row], header: Sequence[str] = HEADER) -> None:
    """A workbook; each row is path, given and new label."""
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.title = "labels"
    sheet.append(list(header))
    for path, given, label in rows:
        sheet.append([path, given, label, hash_of(data, path)])
    stream = io.BytesIO()
    book.save(stream)
    data.put(name, stream.getvalue())


def put_text(data: Data, name: str, rows: Sequence[Row], delimiter: str) -> None:
    stream = io.StringIO()
    writer = csv.writer(stream, delimiter=delimiter)
    writer.writerows([HEADER, *((*row, hash_of(data, row[0])) for row in rows)])
    data.put(name, stream.getvalue())


def list_errors(made: Ingested) -> list[tuple[str, str, str, str]]:
    rows = made.findings[made.findings["severity"] == "error"]
    return list(rows[["reason", "file", "place", "detail"]].itertuples(index=False, name=None))


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("corrections.xlsx", True),
        ("deep/Corrections-2.CSV", True),
        ("corrections of May.xlsx", True),
        ("my corrections.xlsx", False),
        ("corrections.txt", False),
        ("corrections.xlsx/a.png", False),
    ],
)
def test_sheets_are_known_by_their_names(name: str, known: bool) -> None:
    assert is_corrections(name) == known


def test_a_corrected_label_counts_and_is_told(data: Data) -> None:
    before = data.ingest()
    unchanged: list[Row] = [("good/0.png", "good", "good"), ("pit/1.png", "pit", "pit")]
    put_sheet(data, "corrections.xlsx", [*unchanged, ("pit/0.png", "pit", "good")])
    made = data.ingest()
    assert made.labels == {**before.labels, "pit/0.png": "good"}
    assert made.record.format == "class_folders"
    assert made.record.num_errors == 0
    row = made.pictures.set_index("path").loc["pit/0.png"]
    assert (row["source"], row["place"]) == ("corrections.xlsx", "labels!row 4")
    said = made.find("labels corrected", "info")
    assert "corrects 1 labels: pit/0.png pit -> good (labels!row 4)" in said
    assert "other files" not in set(made.findings["reason"])


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_a_sheet_may_be_text(data: Data, delimiter: str) -> None:
    put_text(data, "deep/corrections-2.csv", [("pit/0.png", "pit", "good")], delimiter)
    made = data.ingest()
    assert made.labels["pit/0.png"] == "good"
    assert made.pictures.set_index("path").loc["pit/0.png", "place"] == "line 2"


def test_labels_of_a_table_are_corrected(tmp_path: Path) -> None:
    data = Data(tmp_path)
    for number in range(4):
        data.put(f"{number}.png")
    data.put("labels.csv", "file,label\n" + "".join(f"{n}.png,{'ab'[n % 2]}\n" for n in range(4)))
    put_sheet(data, "corrections.xlsx", [("1.png", "b", "a")])
    made = data.ingest()
    assert made.record.format == "csv"
    assert made.labels == {"0.png": "a", "1.png": "a", "2.png": "a", "3.png": "b"}
    alone = data.ingest(label_file="labels.csv")
    assert alone.labels == made.labels


def test_a_picture_is_taken_out(data: Data) -> None:
    put_sheet(data, "corrections.xlsx", [("pit/0.png", "pit", REMOVE)])
    made = data.ingest()
    assert "pit/0.png" not in made.labels
    assert made.reasons["pit/0.png"] == "taken out by hand"
    assert "corrections.xlsx, labels!row 2" in made.quarantine["detail"][0]
    assert made.record.num_errors == 0


def test_taking_a_copy_out_settles_a_conflict(data: Data) -> None:
    data.put("good/copy.png", (data.folder / "pit/0.png").read_bytes())
    assert data.ingest().reasons == dict.fromkeys(["good/copy.png", "pit/0.png"], "label conflict")
    put_sheet(data, "corrections.xlsx", [("good/copy.png", "good", REMOVE)])
    made = data.ingest()
    assert made.reasons == {"good/copy.png": "taken out by hand"}
    assert made.labels["pit/0.png"] == "pit"


def test_sheets_build_on_each_other_whatever_their_names(data: Data) -> None:
    data.put_classes("rust")
    put_sheet(data, "corrections-b.xlsx", [("pit/0.png", "pit", "good")])
    put_sheet(
        data, "corrections-a.xlsx", [("pit/0.png", "good", "rust"), ("pit/1.png", "pit", "pit")]
    )
    made = data.ingest()
    assert made.record.num_errors == 0
    assert made.labels["pit/0.png"] == "rust"
    put_sheet(data, "corrections-c.xlsx", [("pit/0.png", "rust", "pit")])  # and back again
    back = data.ingest()
    assert (back.record.num_errors, back.labels["pit/0.png"]) == (0, "pit")


def test_two_people_may_share_a_sheet(data: Data) -> None:
    put_sheet(
        data, "corrections-1.xlsx", [("pit/0.png", "pit", "good"), ("pit/1.png", "pit", "pit")]
    )
    put_sheet(
        data, "corrections-2.xlsx", [("pit/0.png", "pit", "pit"), ("pit/1.png", "pit", "good")]
    )
    made = data.ingest()
    assert made.record.num_errors == 0
    assert (made.labels["pit/0.png"], made.labels["pit/1.png"]) == ("good", "good")


def test_several_labels_are_joined_with_plus(tmp_path: Path) -> None:
    data = Data(tmp_path)
    labels = ["ok", "pit", "scratch", "pit+scratch"]
    lines = []
    for number, label in enumerate(labels * 2):
        data.put(f"{number}.png")
        lines += [f"{number}.png,{each}\n" for each in label.split("+")]
    data.put("labels.csv", "file,label\n" + "".join(lines))
    before = data.ingest(problem="multi_label", good_label="ok")
    assert sorted(before.pictures["labels"][3]) == ["pit", "scratch"]
    rows = [("3.png", "pit+scratch", "pit"), ("1.png", "pit", "scratch+pit")]
    put_sheet(data, "corrections.xlsx", rows)
    made = data.ingest(problem="multi_label", good_label="ok")
    assert list_errors(made) == []
    found = {
        path: sorted(each)
        for path, each in zip(made.pictures["path"], made.pictures["labels"], strict=True)
    }
    assert found["3.png"] == ["pit"]
    assert found["1.png"] == ["pit", "scratch"]


def test_labels_may_be_joined_in_any_order(tmp_path: Path) -> None:
    data = Data(tmp_path)
    for number in range(2):
        data.put(f"{number}.png")
    data.put("labels.csv", "file,label\n0.png,pit\n1.png,scratch\n")
    put_sheet(data, "corrections-1.xlsx", [("0.png", "pit", "scratch+pit")])
    again = [("0.png", "pit+scratch", "pit+scratch"), ("1.png", "scratch", "scratch")]
    put_sheet(data, "corrections-2.xlsx", again)  # as it is made of the corrected data
    made = data.ingest(problem="multi_label")
    assert list_errors(made) == []
    assert made.pictures["labels"][0].tolist() == ["pit", "scratch"]
    put_sheet(data, "corrections-3.xlsx", [("0.png", "pit+scratch", "scratch")])
    made = data.ingest(problem="multi_label")
    assert list_errors(made) == []
    assert made.pictures["labels"][0].tolist() == ["scratch"]


def test_a_corrected_copy_is_not_joined_with_the_folder_of_another(tmp_path: Path) -> None:
    data = Data(tmp_path)
    data.put_classes("pit", "scratch")
    copies = ["pit/twice.png", "scratch/twice.png"]
    for path in copies:
        data.put(path, (data.folder / "pit/0.png").read_bytes() + b"\0")
    (data.folder / "pit/0.png").unlink()
    both = "pit+scratch"
    put_sheet(data, "corrections.xlsx", [(copies[0], both, "pit"), (copies[1], both, both)])
    alone = data.ingest(problem="multi_label")
    assert list_errors(alone) == []
    assert alone.reasons == dict.fromkeys(copies, "label conflict")
    put_sheet(data, "corrections.xlsx", [(path, both, "pit") for path in copies])
    alike = data.ingest(problem="multi_label")
    assert alike.record.num_errors == alike.record.num_quarantined == 0
    found = dict(zip(alike.pictures["path"], alike.pictures["labels"], strict=True))
    assert [found[path].tolist() for path in copies] == [["pit"], ["pit"]]


def test_every_sheet_of_a_workbook_counts(data: Data) -> None:
    put_sheet(data, "corrections.xlsx", [("pit/0.png", "pit", "good")])
    book = openpyxl.load_workbook(data.folder / "corrections.xlsx")
    more = book.create_sheet("by the night shift")
    more.append(list(HEADER))
    more.append(["pit/1.png", "pit", "good", hash_of(data, "pit/1.png")])
    stream = io.BytesIO()
    book.save(stream)
    data.put("corrections.xlsx", stream.getvalue())
    made = data.ingest()
    assert (made.labels["pit/0.png"], made.labels["pit/1.png"]) == ("good", "good")


def test_the_same_answer_before_and_after_its_contrary_is_an_error(data: Data) -> None:
    for number, (given, label) in enumerate([("pit", "good"), ("good", "pit"), ("pit", "good")]):
        put_sheet(data, f"corrections-{number}.xlsx", [("pit/0.png", given, label)])
    ((reason, file, _, detail),) = list_errors(data.ingest())
    assert (reason, file) == ("correction in a circle", "corrections-1.xlsx")
    assert "which came last cannot be told" in detail


@pytest.mark.parametrize(
    ("rows", "reason", "place", "words"),
    [
        ([("pit/9.png", "pit", "good")], "unknown picture", 2, "not among the pictures"),
        ([("pit/0.png", "pit", "god")], "unknown class", 2, "'god' for pit/0.png is none of"),
        ([("pit/0.png", "pit", "good+pit")], "unknown class", 2, "good+pit"),
        ([("pit/0.png", "pit", "")], "no label", 2, "The label of pit/0.png is empty"),
        ([("pit/0.png", "good", "pit")], "correction out of date", 2, "the data says pit"),
        ([("pit/0.png", "good", "good")], "correction out of date", 2, "the data says pit"),
        (
            [("pit/0.png", "pit", "good"), ("pit/0.png", "pit", REMOVE)],
            *("two answers", 3, "good in corrections.xlsx, labels!row 2, and (remove) here"),
        ),
        (
            [("pit/0.png", "pit", "good"), ("pit/0.png", "pit", "pit")],
            *("two answers", 3, "good in corrections.xlsx, labels!row 2, and pit here"),
        ),
    ],
)
def test_a_row_that_does_not_fit_is_an_error(
    data: Data, rows: list[Row], reason: str, place: int, words: str
) -> None:
    before = data.ingest().labels
    put_sheet(data, "corrections.xlsx", rows)
    made = data.ingest()
    ((found, file, where, detail),) = list_errors(made)
    assert (found, file, where) == (reason, "corrections.xlsx", f"labels!row {place}")
    assert words in detail
    assert f"corrections.xlsx, labels!row {place}: " in detail
    assert made.labels == before


def test_different_answers_in_two_sheets_are_an_error(data: Data) -> None:
    data.put_classes("rust")
    put_sheet(data, "corrections-1.xlsx", [("pit/0.png", "pit", "good")])
    put_text(data, "corrections-2.csv", [("pit/0.png", "pit", "rust")], ",")
    ((reason, file, place, detail),) = list_errors(data.ingest())
    assert (reason, file, place) == ("two answers", "corrections-2.csv", "line 2")
    assert "good in corrections-1.xlsx, labels!row 2, and rust here" in detail


def test_a_picture_that_is_another_now_is_not_corrected(data: Data) -> None:
    put_sheet(
        data, "corrections.xlsx", [("pit/0.png", "pit", "good"), ("pit/1.png", "pit", "good")]
    )
    data.put("pit/0.png")
    (data.folder / "pit/1.png").rename(data.folder / "good/moved.png")
    made = data.ingest()
    errors = {reason: detail for reason, _, _, detail in list_errors(made)}
    assert set(errors) == {"corrected picture changed", "unknown picture"}
    assert "it is now good/moved.png" in errors["unknown picture"]
    assert made.labels["pit/0.png"] == "pit"


def test_boxes_are_corrected_where_they_are_written(tmp_path: Path) -> None:
    data = Data(tmp_path)
    for number in range(3):
        data.put(f"{number}.png")
    data.put("boxes.csv", "file,label,x,y,width,height\n0.png,pit,1,1,9,9\n1.png,pit,2,2,9,9\n")
    assert data.ingest().labels == {"0.png": "defect", "1.png": "defect", "2.png": "normal"}
    put_sheet(
        data,
        "corrections.xlsx",
        [("0.png", "defect", "normal"), ("1.png", "defect", REMOVE), ("2.png", "normal", "normal")],
    )
    made = data.ingest()
    ((reason, _, place, detail),) = list_errors(made)
    assert (reason, place) == ("correction of boxes", "labels!row 2")
    assert "0.png has its class from boxes, in boxes.csv, line 2" in detail
    assert made.reasons["1.png"] == "taken out by hand"
    assert set(made.boxes["path"]) == {"0.png"}


def test_a_file_that_is_no_sheet_of_corrections_is_an_error(data: Data) -> None:
    put_sheet(data, "corrections.xlsx", [], header=("file", "class"))
    data.put("corrections-2.xlsx", b"PK\x03\x04 and no more")
    errors = list_errors(data.ingest())
    assert {(reason, file) for reason, file, _, _ in errors} == {
        ("unreadable corrections", "corrections.xlsx"),
        ("unreadable corrections", "corrections-2.xlsx"),
    }
    assert "no header with the columns path, given, label, md5" in errors[1][3]


def test_a_formula_is_no_label(data: Data) -> None:
    put_sheet(data, "corrections.xlsx", [("pit/0.png", "pit", "=UPPER(A1)")])
    ((_, file, place, _),) = list_errors(data.ingest())
    assert (file, place) == ("corrections.xlsx", "labels!row 2")


def test_of_many_errors_each_row_is_named(data: Data) -> None:
    put_sheet(data, "corrections.xlsx", [(f"pit/{n}.png", "pit", "good") for n in range(10, 50)])
    errors = list_errors(data.ingest())
    assert len(errors) == 21
    assert "in 20 more places: labels!row 22, " in errors[-1][3]
    assert errors[-1][3].endswith("labels!row 41.")


def test_one_that_is_named_as_the_label_file_is_one(tmp_path: Path) -> None:
    data = Data(tmp_path)
    for number in range(2):
        data.put(f"{number}.png")
    data.put("corrections.csv", "file,label\n0.png,a\n1.png,b\n")
    made = data.ingest(label_file="corrections.csv")
    assert made.labels == {"0.png": "a", "1.png": "b"}
