"""Excel workbooks: what people do to sheets, read right or named by cell."""

from __future__ import annotations

import datetime
import re
import zipfile
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from openpyxl import Workbook
from openpyxl.chart import BarChart
from openpyxl.styles import PatternFill

from enginehouse.formats import excel
from enginehouse.labels import Finding, LabelOptions, Reading
from tests.unit.formats.lay_out import lay_out, quarantine, read_found, reasons

PICTURES = ("images/1.jpg", "images/2.jpg", "images/3.jpg")
HEADER = ["image_id", "x", "y", "width", "height"]
ROWS = [[1, 4, 4, 20, 16], [2, 8, 6, 24, 20], [3, 10, 10, 16, 16]]
XYWH = [tuple(row[1:]) for row in ROWS]
PART = "xl/worksheets/sheet1.xml"


def save(book: Workbook) -> bytes:
    stream = BytesIO()
    book.save(stream)
    return stream.getvalue()


def make_book(rows: Sequence[Sequence[Any]], change: Callable[[Any], None] | None = None) -> bytes:
    """One sheet `boxes` with these rows, then changed."""
    book = Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.title = "boxes"
    for row in rows:
        sheet.append(row)
    if change:
        change(sheet)
    return save(book)


def edit_part(content: bytes, name: str, edit: Callable[[bytes], bytes]) -> bytes:
    """The same zip with one part edited."""
    stream = BytesIO()
    with (
        zipfile.ZipFile(BytesIO(content)) as source,
        zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as target,
    ):
        for part in source.namelist():
            data = source.read(part)
            target.writestr(part, edit(data) if part == name else data)
    return stream.getvalue()


def read_excel(
    folder: Path,
    content: bytes,
    pictures: tuple[str, ...] = PICTURES,
    options: LabelOptions | None = None,
    name: str = "boxes.xlsx",
) -> Reading:
    return read_found(excel, lay_out(folder, {name: content}, pictures), options)


def boxes_of(reading: Reading) -> list[tuple[float, ...]]:
    return [box.xywh for labelled in reading.pictures.values() for box in labelled.boxes]


def the_error(reading: Reading) -> Finding:
    (finding,) = (finding for finding in reading.findings if finding.severity == "error")
    return finding


def test_a_box_per_row(tmp_path: Path) -> None:
    reading = read_excel(tmp_path, make_book([HEADER, *ROWS]))
    assert boxes_of(reading) == XYWH
    second = reading.pictures["images/2.jpg"]
    assert (second.file, second.place) == ("boxes.xlsx", "boxes!row 3")
    assert second.boxes[0].place == "boxes!row 3"
    assert reading.unlisted == "good"
    assert not reading.findings
    assert not reading.left_out


def test_a_label_per_picture(tmp_path: Path) -> None:
    rows = [["file", "label", "batch", "date"], ["1.jpg", True, 7, datetime.date(2026, 1, 31)]]
    labelled = read_excel(tmp_path, make_book(rows)).pictures["images/1.jpg"]
    assert labelled.labels == ("TRUE",)
    assert (labelled.group, labelled.time) == ("7", "2026-01-31")


@pytest.mark.parametrize(
    "rows",
    [
        [HEADER, ROWS[0], [None] * 5, *ROWS[1:]],
        [["Box list, line 7"], HEADER, *ROWS],
        [["Box list"], [], ["exported", datetime.date(2026, 1, 1)], HEADER, *ROWS],
        [["图像编号", "x坐标", "y坐标", "宽", "高"], *ROWS],
        [["Bildname", "X (px)", "Y (px)", "Breite", "Höhe"], *ROWS],
        [HEADER, *([float(row[0]), *row[1:]] for row in ROWS)],
        [HEADER, *([str(value) for value in row] for row in ROWS)],
        [HEADER, *([f" {row[0]}.jpg ", *row[1:]] for row in ROWS)],
        [HEADER, *([row[0], *(f"{value},0" for value in row[1:])] for row in ROWS)],
        [[None, *HEADER], *([None, *row] for row in ROWS)],
        [[*HEADER, "remark", None], *([*row, "=1+1", "#N/A"] for row in ROWS)],
        [[*HEADER, "checked"], *([*row, datetime.date(2026, 1, 1)] for row in ROWS)],
    ],
)
def test_the_same_table_in_other_dress(tmp_path: Path, rows: list[list[Any]]) -> None:
    reading = read_excel(tmp_path, make_book(rows))
    assert boxes_of(reading) == XYWH
    assert not reasons(reading, "error")
    assert not reasons(reading, "warning")
    assert not reading.left_out


@pytest.mark.parametrize("name", ["boxes.xls", "boxes.dat", "boxes", "boxes.XLSX", "boxes.csv"])
def test_workbooks_are_found_by_content(tmp_path: Path, name: str) -> None:
    assert boxes_of(read_excel(tmp_path, make_book([HEADER, *ROWS]), name=name)) == XYWH


@pytest.mark.parametrize("area", ["A2:A3", "A2:A1048576"])
def test_merged_cells_count_for_their_range(tmp_path: Path, area: str) -> None:
    rows = [HEADER, [1, 4, 4, 20, 16], [None, 30, 20, 10, 10]]
    content = make_book(rows, lambda sheet: sheet.merge_cells("A2:A3"))
    content = edit_part(content, PART, lambda xml: xml.replace(b"A2:A3", area.encode()))
    reading = read_excel(tmp_path, content)
    assert len(reading.pictures["images/1.jpg"].boxes) == 2
    (finding,) = reading.findings
    assert (finding.severity, finding.reason) == ("info", "merged cells")
    assert "A2:A3" in finding.detail


def test_a_title_merged_over_all_columns(tmp_path: Path) -> None:
    content = make_book([["image list"], HEADER, *ROWS], lambda sheet: sheet.merge_cells("A1:E1"))
    assert boxes_of(read_excel(tmp_path, content)) == XYWH


def test_formatted_blank_rows_are_passed_over(tmp_path: Path) -> None:
    def paint(sheet: Any) -> None:
        for row in [*range(5, 300), 1048576]:
            sheet.cell(row, 1).fill = PatternFill("solid", fgColor="FFFF00")

    reading = read_excel(tmp_path, make_book([HEADER, *ROWS], paint))
    assert boxes_of(reading) == XYWH
    assert not reading.left_out


@pytest.mark.parametrize("blank", ['<c r="A{0}" s="1"/>', '<c s="1" r="A{0}" t="n"><v></v></c>'])
@pytest.mark.timeout(60)
def test_a_hundred_thousand_formatted_rows_take_seconds(tmp_path: Path, blank: str) -> None:
    rows = "".join(f'<row r="{n}" spans="1:5">{blank.format(n)}</row>' for n in range(5, 100_000))
    content = make_book([HEADER, *ROWS])
    end = b"</sheetData>"
    content = edit_part(content, PART, lambda xml: xml.replace(end, rows.encode() + end))
    reading = read_excel(tmp_path, content)
    assert boxes_of(reading) == XYWH


def test_rows_that_do_not_say_where_they_are(tmp_path: Path) -> None:
    content = make_book([HEADER, [1, 4, 4, 20, 16], [], [2, 8, 6, 24, 20]])
    plain = lambda xml: re.sub(rb' r="[A-Z]*\d+"', b"", xml)  # noqa: E731
    reading = read_excel(tmp_path, edit_part(content, PART, plain))
    assert boxes_of(reading) == XYWH[:2]


def test_names_of_elements_with_a_prefix(tmp_path: Path) -> None:
    def prefix(xml: bytes) -> bytes:
        xml = xml.replace(b'xmlns="', b'xmlns:x="')
        return re.sub(rb"<(/?)(\w)", rb"<\1x:\2", xml)

    content = make_book([HEADER, *ROWS], lambda sheet: sheet.merge_cells("A4:A5"))
    reading = read_excel(tmp_path, edit_part(content, PART, prefix))
    assert boxes_of(reading) == XYWH


def test_a_row_far_below_is_read(tmp_path: Path) -> None:
    def add(sheet: Any) -> None:
        for column, value in enumerate(ROWS[2], 1):
            sheet.cell(900_000, column, value)

    reading = read_excel(tmp_path, make_book([HEADER, *ROWS[:2]], add))
    assert reading.pictures["images/3.jpg"].place == "boxes!row 900000"


@pytest.mark.parametrize(
    ("value", "reason", "word"),
    [
        ("=12*2", "formula without a result", "formula"),
        (datetime.date(2026, 10, 9), "date in a cell", "date"),
        (datetime.datetime(2026, 10, 9, 1, 2), "date in a cell", "date"),
        (datetime.time(9, 10), "date in a cell", "date"),
        ("#N/A", "error value", "#N/A"),
        ("#REF!", "error value", "#REF!"),
        ("nan", "not a finite number", "nan"),
    ],
)
@pytest.mark.parametrize("cell", ["B3", "D3"])
def test_cells_that_make_a_sheet_untrustworthy(
    tmp_path: Path, cell: str, value: Any, reason: str, word: str
) -> None:
    def change(sheet: Any) -> None:
        sheet[cell] = value

    finding = the_error(read_excel(tmp_path, make_book([HEADER, *ROWS], change)))
    assert (finding.reason, finding.place) == (reason, f"boxes!{cell}")
    assert finding.file == "boxes.xlsx"
    assert cell in finding.detail
    assert word in finding.detail
    assert finding.remedy


@pytest.mark.parametrize("value", ["=A2&C2", datetime.date(2026, 1, 2), "#VALUE!"])
@pytest.mark.parametrize("cell", ["A2", "B2"])
def test_names_and_labels_that_are_none(tmp_path: Path, cell: str, value: Any) -> None:
    def change(sheet: Any) -> None:
        sheet[cell] = value

    rows = [["file", "label"], ["1.jpg", "ok"], ["2.jpg", "bad"]]
    assert the_error(read_excel(tmp_path, make_book(rows, change))).place == f"boxes!{cell}"


def test_formulas_with_a_result_are_read(tmp_path: Path) -> None:
    content = make_book([HEADER, *ROWS[:1], [2, 8, 6, "=12*2", 20]])
    stored = lambda xml: xml.replace(b"<f>12*2</f><v/>", b"<f>12*2</f><v>24</v>").replace(  # noqa: E731
        b"<f>12*2</f><v />", b"<f>12*2</f><v>24</v>"
    )
    reading = read_excel(tmp_path, edit_part(content, PART, stored))
    assert boxes_of(reading) == XYWH[:2]
    assert not reading.findings


def test_a_formula_whose_result_is_blank(tmp_path: Path) -> None:
    content = make_book([HEADER, *ROWS[:2], ["3", '=""', '=""', '=""', '=""']])
    blank = lambda xml: re.sub(rb"<c ([^<>]*)><f>", rb'<c \1 t="str"><f>', xml)  # noqa: E731
    reading = read_excel(tmp_path, edit_part(content, PART, blank))
    assert boxes_of(reading) == XYWH[:2]
    assert reading.pictures["images/3.jpg"].boxes == ()
    assert not reading.findings


def test_a_row_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    rows = [HEADER, ROWS[0], [2, 8, "six", 24, 20], [3, 10, None, 16, 16], [None, 1, 1, 1, 1]]
    reading = read_excel(tmp_path, make_book([*rows, ["4.jpg", 1, 1, 1, 1]]))
    assert quarantine(reading) == {
        ("boxes.xlsx", "boxes!C3", "not a number"),
        ("boxes.xlsx", "boxes!C4", "missing number"),
        ("boxes.xlsx", "boxes!A5", "no picture named"),
        ("boxes.xlsx", "boxes!A6", "missing file"),
        ("images/2.jpg", "", "no usable label"),
        ("images/3.jpg", "", "no usable label"),
    }
    assert reading.unlisted == "left out"


@pytest.mark.parametrize(
    ("pictures", "ids"),
    [
        (("0001.jpg", "0002.jpg"), [1, 2]),
        (("0001.jpg", "0002.jpg"), ["0001", "0002"]),
        (("0001.jpg", "0002.jpg"), [1.0, "2"]),
        (("1.jpg", "01.jpg", "2.jpg"), [1, 2]),
        (("20260131000017.jpg", "5.jpg"), [20260131000017, 5]),
    ],
)
def test_ids_as_numbers_and_as_text(tmp_path: Path, pictures: tuple[str, ...], ids: Any) -> None:
    rows = [HEADER, *([number, *ROWS[0][1:]] for number in ids)]
    reading = read_excel(tmp_path, make_book(rows), pictures)
    assert len(reading.pictures) == 2
    assert not reading.left_out


def test_an_id_that_fits_several_files(tmp_path: Path) -> None:
    reading = read_excel(tmp_path, make_book([HEADER, *ROWS[:2]]), ("01.jpg", "001.jpg", "2.jpg"))
    assert quarantine(reading) == {("boxes.xlsx", "boxes!A2", "ambiguous name")}


def make_sheets(*sheets: tuple[str, str, list[list[Any]]]) -> bytes:
    """A workbook of sheets by name, state and rows."""
    book = Workbook()
    book.remove(book.worksheets[0])
    for name, state, rows in sheets:
        sheet = book.create_sheet(name)
        sheet.sheet_state = state
        for row in rows:
            sheet.append(row)
    return save(book)


OLD = [HEADER, [1, 1, 1, 2, 2]]


@pytest.mark.parametrize("state", ["hidden", "veryHidden"])
def test_hidden_sheets_are_not_read(tmp_path: Path, state: str) -> None:
    content = make_sheets(("old", state, OLD), ("boxes", "visible", [HEADER, *ROWS]))
    reading = read_excel(tmp_path, content)
    assert boxes_of(reading) == XYWH
    (finding,) = reading.findings
    assert (finding.severity, finding.reason) == ("warning", "hidden sheet")
    assert "'old'" in finding.detail
    assert "'boxes'" in finding.detail


def test_the_first_sheet_with_labels_is_read(tmp_path: Path) -> None:
    content = make_sheets(
        ("read me", "visible", [["These are boxes"], ["of line", 7]]),
        ("template", "visible", [HEADER]),
        ("boxes", "visible", [HEADER, *ROWS]),
        ("more", "visible", OLD),
    )
    reading = read_excel(tmp_path, content)
    assert boxes_of(reading) == XYWH
    (finding,) = reading.findings
    assert (finding.severity, finding.reason) == ("warning", "several sheets")
    assert "'more'" in finding.detail


@pytest.mark.parametrize(("name", "state"), [("old", "hidden"), ("more", "visible")])
def test_the_recipe_may_name_the_sheet(tmp_path: Path, name: str, state: str) -> None:
    content = make_sheets(("boxes", "visible", [HEADER, *ROWS]), (name, state, OLD))
    reading = read_excel(tmp_path, content, options=LabelOptions(sheet=name))
    assert boxes_of(reading) == [(1, 1, 2, 2)]
    assert not reading.findings


def test_a_sheet_that_is_not_there(tmp_path: Path) -> None:
    content = make_sheets(("boxes", "visible", [HEADER, *ROWS]))
    finding = the_error(read_excel(tmp_path, content, options=LabelOptions(sheet="labels")))
    assert "'labels'" in finding.detail
    assert "'boxes'" in finding.detail


def test_headers_by_mapping(tmp_path: Path) -> None:
    rows = [["A", "B", "C", "D", "E"], *ROWS]
    columns = dict(zip(("image", *HEADER[1:]), "ABCDE", strict=True))
    assert (
        boxes_of(read_excel(tmp_path, make_book(rows), options=LabelOptions(columns=columns)))
        == XYWH
    )
    reading = read_excel(tmp_path, make_book(rows))
    assert all(f"'{name}'" in the_error(reading).detail for name in "ABCDE")


def test_hidden_rows_and_columns_are_read_and_named(tmp_path: Path) -> None:
    def hide(sheet: Any) -> None:
        sheet.row_dimensions[3].hidden = True
        sheet.row_dimensions[90].hidden = True
        sheet.column_dimensions["C"].hidden = True
        sheet.auto_filter.ref = "A1:E4"

    reading = read_excel(tmp_path, make_book([HEADER, *ROWS], hide))
    assert boxes_of(reading) == XYWH
    (finding,) = reading.findings
    assert (finding.severity, finding.reason) == ("warning", "hidden rows or columns")
    assert "row 3, column C" in finding.detail


def test_charts_and_names_do_not_matter(tmp_path: Path) -> None:
    book = Workbook()
    book.create_chartsheet("chart", 0).add_chart(BarChart())
    sheet = book.worksheets[0]
    for row in [HEADER, *ROWS]:
        sheet.append(row)
    sheet["A2"].hyperlink = "https://example.org/1.jpg"
    sheet.add_chart(BarChart(), "G2")
    reading = read_excel(tmp_path, save(book))
    assert boxes_of(reading) == XYWH


@pytest.mark.parametrize(
    ("rows", "word"), [([], "0 rows"), ([HEADER], "0 rows"), ([HEADER, [None] * 5], "0 rows")]
)
def test_a_sheet_without_rows(tmp_path: Path, rows: list[list[Any]], word: str) -> None:
    assert word in the_error(read_excel(tmp_path, make_book(rows))).detail


def make_zip(**parts: bytes) -> bytes:
    stream = BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name.replace("__", "/"), data)
    return stream.getvalue()


OLE = bytes.fromhex("d0cf11e0a1b11ae1") + bytes(600)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("boxes.xls", OLE, "old Excel file .* as .xlsx"),
        ("boxes.xlsx", OLE + "EncryptedPackage".encode("utf-16-le"), "password .* as .xlsx"),
        ("boxes.xlsb", make_zip(xl__workbook="", **{"xl__workbook.bin": b""}), "xlsb.* as .xlsx"),
        ("boxes.ods", make_zip(mimetype=b"x", **{"content.xml": b""}), "ods.* as .xlsx"),
        ("boxes.xls", b"<html><table><tr><td>file</td></tr></table></html>", "web page"),
        ("boxes.xlsx", b"", "empty"),
        ("boxes.xlsx", make_book([HEADER, *ROWS])[:-300], "damaged"),
        ("boxes.xlsx", make_book([HEADER, *ROWS])[:2000], "damaged"),
    ],
)
def test_other_kinds_of_files_are_refused(
    tmp_path: Path, name: str, content: bytes, words: str
) -> None:
    finding = the_error(read_excel(tmp_path, content, name=name))
    assert finding.file == name
    assert re.search(words, f"{finding.detail} {finding.remedy}")


def test_broken_parts_are_refused(tmp_path: Path) -> None:
    content = make_book([HEADER, *ROWS])
    edits = (lambda xml: xml[:-300], lambda xml: xml.replace(b"<v>4", b"<v>four"))
    for number, edit in enumerate(edits):
        folder = tmp_path / str(number)
        finding = the_error(read_excel(folder, edit_part(content, PART, edit)))
        assert (finding.reason, finding.file) == ("no readable workbook", "boxes.xlsx")


def test_a_flipped_byte_is_refused(tmp_path: Path) -> None:
    content = bytearray(make_book([HEADER, *ROWS]))
    content[content.index(b"xl/worksheets/sheet1.xml") + 60] ^= 0xFF
    assert the_error(read_excel(tmp_path, bytes(content))).reason == "no readable workbook"


@pytest.mark.timeout(60)
def test_bombs_are_refused(tmp_path: Path) -> None:
    filler = b"<sheetData>" + b" " * (1 << 25)
    content = make_book([HEADER, *ROWS])
    content = edit_part(content, PART, lambda xml: xml.replace(b"<sheetData>", filler))
    assert len(content) < 1 << 20
    assert "MiB" in the_error(read_excel(tmp_path, content)).detail


def test_entities_are_refused(tmp_path: Path) -> None:
    doctype = b'<!DOCTYPE x [<!ENTITY a "aaaa">]><worksheet'
    content = edit_part(
        make_book([HEADER, *ROWS]), PART, lambda xml: xml.replace(b"<worksheet", doctype, 1)
    )
    assert "entities" in the_error(read_excel(tmp_path, content)).detail


@pytest.mark.parametrize("name", ["~$boxes.xlsx", ".boxes.xlsx"])
def test_lock_files_are_no_workbooks(tmp_path: Path, name: str) -> None:
    assert excel.find(lay_out(tmp_path, {name: OLE}, PICTURES)) == []


def test_other_files_beside_class_folders_are_no_labels(tmp_path: Path) -> None:
    texts = {
        "protocol.xlsx": make_book([["file", "operator"], ["1.jpg", 7]]),
        "old.xls": OLE,
        "data.zip": make_zip(a=b"a"),
        "letter.docx": make_zip(word__document=b"a"),
        "labels.csv": b"file,label\n1.jpg,ok\n",
        "table.xls": b"file,label\n1.jpg,ok\n",
    }
    assert excel.find(lay_out(tmp_path, texts, ("cat/1.jpg", "dog/2.jpg"))) == []
