"""Twins of what sheets and CSV files do."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.twins._draw import Twin, save, write

HEADER = ("image_id", "x", "y", "width", "height", "label")
ROWS = ((11, 5, 6, 20, 10, "dent"), (12, 8, 9, 15, 12, "rust"), (13, 20, 22, 30, 18, "dent"))


def _shots(folder: Path, *names: object) -> None:
    for name in names or (11, 12, 13):
        save(folder / "shots" / f"{name}.png")


def _sheet(folder: Path, *rows: Sequence[Any], names: Sequence[object] = ()) -> Any:
    """Pictures, and a workbook with these rows; the caller saves it."""
    from openpyxl import Workbook

    _shots(folder, *names)
    book = Workbook()
    for row in rows or (HEADER, *ROWS):
        book.active.append(row)
    return book


def _save(folder: Path, book: Any) -> Path:
    book.save(folder / "defects.xlsx")
    return folder / "defects.xlsx"


def build_plain_sheet(folder: Path) -> None:
    _save(folder, _sheet(folder))


def build_ids_as_decimals_and_blank_rows(folder: Path) -> None:
    rows = [HEADER, (11.0, *ROWS[0][1:]), (), ROWS[1], (), (), ROWS[2]]
    _save(folder, _sheet(folder, *rows))


def build_merged_ids(folder: Path) -> None:
    book = _sheet(folder, HEADER, *ROWS[:2], (12, 40, 40, 5, 5, "dent"), ROWS[2])
    book.active.merge_cells("A3:A4")
    _save(folder, book)


def build_formatted_to_the_bottom(folder: Path) -> None:
    from openpyxl.styles import PatternFill

    book = _sheet(folder)
    fill = PatternFill("solid", fgColor="FFDDDD00")
    for row in (*range(5, 1200), 1048576):
        book.active.cell(row, 3).fill = fill
    _save(folder, book)


def build_two_title_rows(folder: Path) -> None:
    titles = ("Defects of line 4",), ("exported 2031-04-05", None, "by QA")
    _save(folder, _sheet(folder, *titles, (), HEADER, *ROWS))


def build_formula_never_computed(folder: Path) -> None:
    book = _sheet(folder)
    book.active["C3"] = "=B3+1"
    _save(folder, book)


def build_numbers_as_text(folder: Path) -> None:
    _save(folder, _sheet(folder, HEADER, ("11", "5", " 6", "20.5", "10 ", "dent"), *ROWS[1:]))


def build_decimal_commas(folder: Path) -> None:
    _save(folder, _sheet(folder, HEADER, (11, "5,25", 6, 20, 10, "dent"), *ROWS[1:]))


def build_units_in_cells(folder: Path) -> None:
    _save(folder, _sheet(folder, HEADER, (11, "5 px", 6, 20, 10, "dent"), *ROWS[1:]))


def build_percent_cell(folder: Path) -> None:
    book = _sheet(folder, HEADER, (11, 0.25, 6, 20, 10, "dent"), *ROWS[1:])
    book.active["B2"].number_format = "0%"
    _save(folder, book)


def build_chinese_headers(folder: Path) -> None:
    header = ("图片编号", "左上角x", "左上角y", "宽度", "高度", "缺陷类型")
    _save(folder, _sheet(folder, header, *ROWS))


def build_headers_nobody_knows(folder: Path) -> None:
    _save(folder, _sheet(folder, ("foo", "bar", "baz", "qux", "quux", "corge"), *ROWS))


def build_column_missing(folder: Path) -> None:
    header = tuple(name for name in HEADER if name != "height")
    rows = [(*row[:4], row[5]) for row in ROWS]
    _save(folder, _sheet(folder, header, *rows))


def build_two_sheets(folder: Path) -> None:
    book = _sheet(folder)
    other = book.create_sheet("shift 2")
    other.append(HEADER)
    other.append((13, 1, 1, 9, 9, "dent"))
    _save(folder, book)


def build_hidden_sheet_first(folder: Path) -> None:
    book = _sheet(folder)
    old = book.create_sheet("backup", 0)
    old.append(HEADER)
    for row in ROWS:
        old.append((row[0], 1, 1, 3, 3, "dent"))
    old.sheet_state = "hidden"
    _save(folder, book)


def build_hidden_row(folder: Path) -> None:
    book = _sheet(folder)
    book.active.row_dimensions[3].hidden = True
    _save(folder, book)


def build_leading_zeros(folder: Path) -> None:
    book = _sheet(folder, HEADER, (7, *ROWS[0][1:]), (41, *ROWS[1][1:]), names=("0007", "0041"))
    for cell in ("A2", "A3"):
        book.active[cell].number_format = "0000"
    _save(folder, book)


def build_sheet_named_xls(folder: Path) -> None:
    book = _sheet(folder)
    _save(folder, book).rename(folder / "defects.xls")


def build_csv_named_xlsx(folder: Path) -> None:
    _shots(folder)
    lines = [",".join(map(str, row)) for row in (HEADER, *ROWS)]
    write(folder / "defects.xlsx", "\n".join(lines))


def build_error_cell(folder: Path) -> None:
    book = _sheet(folder)
    book.active["D4"] = "#N/A"
    _save(folder, book)


def build_date_cell(folder: Path) -> None:
    book = _sheet(folder)
    book.active["C4"] = datetime(2031, 4, 5)
    _save(folder, book)


def build_missing_number(folder: Path) -> None:
    _save(folder, _sheet(folder, HEADER, ROWS[0], (12, 8, None, 15, 12, "rust"), ROWS[2]))


def build_word_for_a_number(folder: Path) -> None:
    _save(folder, _sheet(folder, HEADER, ROWS[0], (12, 8, "about 9", 15, 12, "rust"), ROWS[2]))


def build_total_row(folder: Path) -> None:
    _save(folder, _sheet(folder, HEADER, *ROWS, ("Total", None, None, None, None, 3)))


def build_row_twice(folder: Path) -> None:
    _save(folder, _sheet(folder, HEADER, *ROWS, ROWS[1]))


def build_box_off_the_picture(folder: Path) -> None:
    _save(folder, _sheet(folder, HEADER, *ROWS, (13, 70, 5, 30, 10, "rust")))


def build_picture_named_nowhere(folder: Path) -> None:
    _save(folder, _sheet(folder, HEADER, *ROWS, (99, 1, 1, 5, 5, "rust")))


def build_corner_columns(folder: Path) -> None:
    rows = [(n, x, y, x + w, y + h, label) for n, x, y, w, h, label in ROWS]
    _save(folder, _sheet(folder, ("file", "xmin", "ymin", "xmax", "ymax", "class"), *rows))


def build_negative_row(folder: Path) -> None:
    _save(folder, _sheet(folder, HEADER, *ROWS[:2], (13, None, None, None, None, None)))


def build_label_per_picture(folder: Path) -> None:
    _save(
        folder,
        _sheet(folder, ("filename", "label"), ("11.png", "ok"), ("12.png", "nok"), (13, "ok")),
    )


def build_workbook_cut_off(folder: Path) -> None:
    book = _sheet(folder)
    path = _save(folder, book)
    path.write_bytes(path.read_bytes()[:-800])


def build_only_a_header(folder: Path) -> None:
    _save(folder, _sheet(folder, HEADER))


LABELS = ("11.png,ok", "12.png,划痕", "13.png,ok")


def _csv(folder: Path, *lines: str, encoding: str = "utf-8", name: str = "truth.csv") -> Path:
    _shots(folder)
    return write(folder / name, "\r\n".join(lines), encoding)


def build_bom(folder: Path) -> None:
    _csv(folder, "image,label", *LABELS, encoding="utf-8-sig")


def build_gb18030(folder: Path) -> None:
    _csv(folder, "文件名,标签", "11.png,正常", "12.png,划痕", "13.png,正常", encoding="gb18030")


def build_utf16_with_tabs(folder: Path) -> None:
    rows = [line.replace(",", "\t") for line in ("image,label", *LABELS)]
    _csv(folder, *rows, encoding="utf-16")


def build_semicolons(folder: Path) -> None:
    _csv(folder, *(line.replace(",", ";") for line in ("image,label", *LABELS)))


def build_semicolons_with_decimal_commas(folder: Path) -> None:
    rows = ("11.png;5,5;6;20;10;dent", "12.png;8;9,25;15;12;rust", "13.png;1;2;3;4;dent")
    _csv(folder, "image;x;y;width;height;label", *rows)


def build_tsv(folder: Path) -> None:
    rows = [line.replace(",", "\t") for line in ("image,label", *LABELS)]
    _csv(folder, *rows, name="truth.tsv")


def build_quoted_line_break(folder: Path) -> None:
    rows = ('11.png,ok,"two\nlines, one cell"', "12.png,bad,", '13.png,ok,"say ""hi"""')
    _csv(folder, "image,label,note", *rows)


def build_windows_paths(folder: Path) -> None:
    _csv(folder, "path,label", r"shots\11.png,ok", r".\shots\12.png,bad", r"C:\x\shots\13.png,ok")


def build_percent_encoded(folder: Path) -> None:
    save(folder / "shots/über (1).png")
    _csv(folder, "image,label", "%C3%BCber%20(1).png,ok", "11.png,bad", "12.png,ok", "13.png,bad")


def build_names_without_suffix(folder: Path) -> None:
    _csv(folder, "image,label", "11,ok", "12,bad", "13,ok")


def build_no_header(folder: Path) -> None:
    _csv(folder, "11.png,ok", "12.png,bad", "13.png,ok")


def build_two_labels_for_one_picture(folder: Path) -> None:
    _csv(folder, "image,label", "11.png,ok", "12.png,bad", "13.png,ok", "12.png,ok")


def build_same_line_twice(folder: Path) -> None:
    _csv(folder, "image,label", "11.png,ok", "12.png,bad", "13.png,ok", "12.png,bad")


def build_empty_label(folder: Path) -> None:
    _csv(folder, "image,label", "11.png,ok", "12.png,", "13.png,bad")


def build_cell_too_many(folder: Path) -> None:
    _csv(folder, "image,label", "11.png,ok", "12.png,bad,extra,cells", "13.png,ok")


def build_csv_path_outside(folder: Path) -> None:
    _csv(folder, "image,label", "11.png,ok", "../../secret/12.gif,bad", "13.png,ok")


def build_csv_of_boxes(folder: Path) -> None:
    lines = [",".join(map(str, row)) for row in (HEADER, *ROWS, (13, 60, 40, 10, 10, "rust"))]
    _csv(folder, *lines)


def build_labels_with_spaces(folder: Path) -> None:
    _csv(folder, "image,label", "11.png, ok", "12.png,ok ", "13.png,bad")


def build_splits_in_a_column(folder: Path) -> None:
    rows = ("11.png,ok,train", "12.png,bad,Validation", "13.png,ok,TEST")
    _csv(folder, "image,label,split", *rows)


def build_the_csv_itself(folder: Path) -> Path:
    """The file is named, not its folder; the pictures lie beside its folder."""
    for number in (11, 12, 13):
        save(folder / "shots" / f"{number}.png")
    return write(folder / "labels" / "truth.csv", "\n".join(("image,label", *LABELS)))


SHEET = [
    Twin("sheet", build_plain_sheet, "accept", (), 3, 3, ("dent", "rust")),
    Twin("sheet", build_ids_as_decimals_and_blank_rows, "accept", (), 3, 3),
    Twin("sheet", build_merged_ids, "accept", (), 3, 4),
    Twin("sheet", build_formatted_to_the_bottom, "accept", (), 3, 3),
    Twin("sheet", build_two_title_rows, "accept", (), 3, 3),
    Twin("sheet", build_formula_never_computed, "reject", ("C3", "formula")),
    Twin("sheet", build_numbers_as_text, "accept", (), 3, 3),
    Twin("sheet", build_decimal_commas, "accept", (), 3, 3),
    Twin("sheet", build_units_in_cells, "accept", (), 3, 3),
    Twin("sheet", build_percent_cell, "reject", ("B2", "percent|%")),
    Twin("sheet", build_chinese_headers, "accept", (), 3, 3),
    Twin("sheet", build_headers_nobody_knows, "reject", ("foo", "quux")),
    Twin("sheet", build_column_missing, "reject", ("height",)),
    Twin("sheet", build_two_sheets, "warn", ("shift 2",), 3, 3),
    Twin("sheet", build_hidden_sheet_first, "warn", ("backup", "hidden"), 3, 3),
    Twin("sheet", build_hidden_row, "warn", ("hidden", "3"), 3, 3),
    Twin("sheet", build_leading_zeros, "accept", (), 2, 2),
    Twin("sheet", build_sheet_named_xls, "accept", (), 3, 3),
    Twin("sheet", build_csv_named_xlsx, "accept", (), 3, 3),
    Twin("sheet", build_error_cell, "reject", ("D4", "#N/A")),
    Twin("sheet", build_date_cell, "reject", ("C4", "date")),
    Twin("sheet", build_missing_number, "quarantine", ("C3|row 3",), None, 2),
    Twin("sheet", build_word_for_a_number, "quarantine", ("C3", "about 9"), 2, 2),
    Twin("sheet", build_total_row, "quarantine", ("A5|row 5", "Total"), 3, 3),
    Twin("sheet", build_row_twice, "warn", ("duplicate", "5"), 3, 3),
    Twin("sheet", build_box_off_the_picture, "warn", ("clip", "5"), 3, 4),
    Twin("sheet", build_picture_named_nowhere, "quarantine", ("99", "missing|not found"), 3, 3),
    Twin("sheet", build_corner_columns, "accept", (), 3, 3),
    Twin("sheet", build_negative_row, "accept", (), 3, 2),
    Twin("sheet", build_label_per_picture, "accept", (), 3, 0, ("nok", "ok")),
    Twin("sheet", build_workbook_cut_off, "reject", (r"defects\.xlsx",)),
    Twin("sheet", build_only_a_header, "reject", (r"defects\.xlsx", "no row|empty|0 row")),
]
CSV = [
    Twin("csv", build_bom, "accept", (), 3, 0, ("ok", "划痕")),
    Twin("csv", build_gb18030, "accept", (), 3, 0, ("划痕", "正常")),
    Twin("csv", build_utf16_with_tabs, "accept", (), 3, 0, ("ok", "划痕")),
    Twin("csv", build_semicolons, "accept", (), 3, 0, ("ok", "划痕")),
    Twin("csv", build_semicolons_with_decimal_commas, "accept", (), 3, 3),
    Twin("csv", build_tsv, "accept", (), 3, 0),
    Twin("csv", build_quoted_line_break, "accept", (), 3, 0),
    Twin("csv", build_windows_paths, "accept", (), 3, 0),
    Twin("csv", build_percent_encoded, "accept", (), 4, 0),
    Twin("csv", build_names_without_suffix, "accept", (), 3, 0),
    Twin("csv", build_no_header, "accept", (), 3, 0),
    Twin("csv", build_two_labels_for_one_picture, "reject", (r"12\.png", "ok", "bad", "line 5")),
    Twin("csv", build_same_line_twice, "warn", (r"truth\.csv", "duplicate", "line 5"), 3),
    Twin("csv", build_empty_label, "quarantine", (r"truth\.csv|12\.png", "3|label"), 2),
    Twin("csv", build_cell_too_many, "quarantine", ("line 3",), 2),
    Twin("csv", build_csv_path_outside, "reject", ("outside", "secret")),
    Twin("csv", build_csv_of_boxes, "accept", (), 3, 4, ("dent", "rust")),
    Twin("csv", build_labels_with_spaces, "accept", (), 3, 0, ("bad", "ok")),
    Twin("csv", build_splits_in_a_column, "accept", ("train\\W+1", "val\\W+1", "test\\W+1"), 3, 0),
    Twin("csv", build_the_csv_itself, "accept", (), 3, 0),
]
TWINS = [*SHEET, *CSV]
