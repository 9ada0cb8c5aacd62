"""Excel workbooks: a sheet whose header says which columns hold the picture and its label or box.

Read by openpyxl. What only looks like a workbook, or is one of a kind that it cannot read, is
told to people rather than passed over.
"""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from io import BytesIO
from pathlib import PurePosixPath

from enginehouse.errors import DataError
from enginehouse.files import Files
from enginehouse.formats._cell_table import CellTable
from enginehouse.formats._headers import SEARCHED_ROWS, find_header
from enginehouse.formats._notes import Notes
from enginehouse.formats._table import has_class_folders, is_label_table, read_tables
from enginehouse.formats._workbook import Sheet, read_workbook
from enginehouse.labels import LabelOptions, Reading, SeveralLabels

LIBRARIES = ("openpyxl",)

_ZIP = b"PK\x03\x04"
_OLE = bytes.fromhex("d0cf11e0a1b11ae1")
_SUFFIXES = (".xls", ".xlsx", ".xlsm", ".xlsb", ".xlt", ".xltx", ".xltm", ".ods", ".et")
_SAVE = "Open it in Excel (or LibreOffice) and save it as .xlsx."


def find(files: Files) -> list[str]:
    """The workbooks with a sheet of labels, whatever their suffix; see `LabelFormat`."""
    return [path for path in files.others if _may_hold_labels(files, path)]


def read(files: Files, label_files: Sequence[str], options: LabelOptions) -> Reading:
    """Read one sheet of each workbook; see `LabelFormat`."""
    reading = Reading()
    tables = []
    for path in label_files:
        notes = Notes(path, reading)
        kind = _name_kind(files, path)
        if kind != "a workbook":
            detail = f"{path} is {kind}; wanted is an Excel workbook (.xlsx)."
            remedy = "Take the password off and s" if "password" in kind else "S"
            notes.find("error", "no readable workbook", detail, f"{remedy}{_SAVE[1:]}")
            continue
        try:
            sheets = read_workbook(BytesIO(files.read(path)), path)
        except DataError as error:
            notes.find("error", "no readable workbook", error.message, error.remedy)
            continue
        sheet = _choose_sheet(sheets, options, notes)
        if sheet:
            _note_looks(sheet, notes)
            tables.append(_open_table(path, sheet))
    read_tables(files, tables, options, reading)
    return reading


def _may_hold_labels(files: Files, path: str) -> bool:
    head = files.head(path, len(_OLE))
    if not head.startswith((_ZIP, _OLE)) and PurePosixPath(path).suffix.lower() not in _SUFFIXES:
        return False
    kind = _name_kind(files, path)
    alone = path == files.only or not has_class_folders(files)
    if kind != "a workbook":
        return bool(kind) and alone
    try:
        with (files.folder / path).open("rb") as stream:
            sheets = read_workbook(stream, path, whole=False)
    except DataError:
        return alone
    tables = [[cells for _, cells in sheet.rows] for sheet in sheets]
    empty = alone and not any(tables)
    return empty or any(is_label_table(files, path, rows) for rows in tables)


def _name_kind(files: Files, path: str) -> str:
    """What a file is, in words; "" for what was never meant to be a workbook."""
    head = files.head(path, 512)
    meant = path == files.only or PurePosixPath(path).suffix.lower() in _SUFFIXES
    if head.startswith(_ZIP):
        return _name_zip(files, path, meant)
    if not meant:
        return ""
    if head.startswith(_OLE):
        locked = "EncryptedPackage".encode("utf-16-le") in files.read(path)
        return "protected by a password" if locked else "an old Excel file (.xls)"
    if not head.strip():
        return "an empty file"
    return "a web page or XML file" if head.lstrip(b"\xef\xbb\xbf \r\n\t").startswith(b"<") else ""


def _name_zip(files: Files, path: str, meant: bool) -> str:
    try:
        with zipfile.ZipFile(files.folder / path) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return "damaged, cut off perhaps" if meant else ""
    if any(name.endswith("workbook.bin") for name in names):
        return "a binary workbook (.xlsb)"
    if "mimetype" in names and "content.xml" in names:
        return "an OpenDocument file (.ods)" if meant else ""
    return "a workbook" if any(name.endswith("workbook.xml") for name in names) else ""


def _choose_sheet(sheets: Sequence[Sheet], options: LabelOptions, notes: Notes) -> Sheet | None:
    """The sheet to read; what is not read is noted."""
    if options.sheet:
        named = [sheet for sheet in sheets if sheet.name.strip() == options.sheet.strip()]
        if not named:
            have = ", ".join(repr(sheet.name) for sheet in sheets)
            detail = f"There is no sheet {options.sheet!r} in {notes.file}; it has {have}."
            notes.find("error", "sheet not found", detail, "Mend `sheet` in the recipe.")
        return named[0] if named else None
    visible = [sheet for sheet in sheets if sheet.visible]
    usable = [sheet for sheet in visible if _has_labels(sheet, options)]
    filled = [sheet for sheet in usable if len(sheet.rows) > 1] or usable
    chosen = next(iter(filled or [s for s in visible if s.rows] or visible), None)
    if chosen is None:
        detail = f"{notes.file} has no visible sheet with cells."
        notes.find("error", "no sheet", detail, "Show the sheet, or name it in the recipe.")
        return None
    remedy = "To read another one, name it in the recipe as `sheet`."
    read = f"the sheet {chosen.name!r} is read."
    hidden = [sheet.name for sheet in sheets if not sheet.visible]
    others = [sheet.name for sheet in filled if sheet is not chosen]
    for reason, names, what in (
        ("hidden sheet", hidden, "hidden and not read"),
        ("several sheets", others, "not read, though there are labels in it"),
    ):
        if names:
            detail = f"Sheet {', '.join(map(repr, names))} is {what}; {read}"
            notes.find("warning", reason, detail, remedy, chosen.name)
    return chosen


def _has_labels(sheet: Sheet, options: LabelOptions) -> bool:
    header = find_header([cells for _, cells in sheet.rows[:SEARCHED_ROWS]], options.columns)
    if header is None:
        return False
    classes = isinstance(options, SeveralLabels) and "image" in header.columns
    return header.has_labels() or bool(options.columns) or classes


def _note_looks(sheet: Sheet, notes: Notes) -> None:
    """Tell of what is read other than it looks in Excel."""
    from openpyxl.utils import get_column_letter

    rows = [f"row {row}" for row in sheet.hidden_rows]
    columns = [f"column {get_column_letter(column + 1)}" for column in sheet.hidden_columns]
    hidden = rows + columns
    if hidden:
        named = f"{', '.join(hidden[:8])}{', ...' if len(hidden) > 8 else ''}"
        detail = f"{named} of sheet {sheet.name!r} is hidden; it is read all the same."
        remedy = "Delete rows that should not count."
        notes.find("warning", "hidden rows or columns", detail, remedy, sheet.name)
    if sheet.merged:
        detail = f"Merged cells of sheet {sheet.name!r} count for all of their range: "
        detail += f"{', '.join(sheet.merged[:8])}{', ...' if len(sheet.merged) > 8 else ''}."
        notes.find("info", "merged cells", detail, "", sheet.name)


def _open_table(path: str, sheet: Sheet) -> CellTable:
    from openpyxl.utils import get_column_letter

    return CellTable(
        path,
        lambda: iter(sheet.rows),
        lambda number: f"{sheet.name}!row {number}",
        lambda number, column: f"{sheet.name}!{get_column_letter(column + 1)}{number}",
        ragged=False,
    )
