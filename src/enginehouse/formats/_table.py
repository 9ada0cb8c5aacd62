"""Tables of labels, from text files and workbooks: a label per picture, or a box per row.

What CSV and Excel share. Knows tables of cells, and nothing of the files that they come from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import PurePosixPath

from enginehouse.files import Files
from enginehouse.formats._cell_table import CellTable
from enginehouse.formats._cells import Value, is_blank
from enginehouse.formats._columns import MAP_HEADERS, Columns, check_mapping, choose_columns
from enginehouse.formats._folders import find_layout
from enginehouse.formats._headers import SEARCHED_ROWS, Header, find_header, first_filled
from enginehouse.formats._notes import Notes
from enginehouse.formats._picture_names import PictureNames
from enginehouse.formats._table_labels import settle_labels
from enginehouse.formats._table_pictures import Pictures
from enginehouse.formats._table_rows import Rows, read_rows
from enginehouse.labels import Finding, LabelOptions, Reading, SeveralLabels

LIBRARIES: tuple[str, ...] = ()


def is_label_table(files: Files, file: str, rows: Sequence[Sequence[Value]]) -> bool:
    """Whether the first rows of a table are those of labels.

    A header that names pictures and labels or boxes says so. Without one, names of pictures in
    the rows do, if no class folders could be meant instead.
    """
    header = find_header(rows[:SEARCHED_ROWS])
    if header and header.has_labels():
        below = [row for row in rows[header.row + 1 :] if not all(map(is_blank, row))]
        if header.weak:
            names = PictureNames(files, file)
            return _names_pictures(names, below, header.columns["image"][0])
        known = [columns[0] for columns in header.columns.values()]
        filled = (sum(len(row) > c and not is_blank(row[c]) for c in known) for row in below)
        return not below or any(count > 1 for count in filled)
    if has_class_folders(files):
        return False
    names = PictureNames(files, file)
    width = min(max(map(len, rows), default=0), 30)
    return width > 1 and any(_names_pictures(names, rows, column) for column in range(width))


def has_class_folders(files: Files) -> bool:
    """Whether folders may say what is on the pictures, so that a table need not."""
    folders = Counter(PurePosixPath(path).parts[:-1] for path in files.pictures)
    return len(find_layout(folders).classes) > 1


def read_tables(
    files: Files, tables: Sequence[CellTable], options: LabelOptions, reading: Reading
) -> None:
    """Read the tables of a data set into a reading."""
    several = isinstance(options, SeveralLabels)
    pictures = Pictures([table.file for table in tables], several)
    declared: dict[tuple[str, ...], str] = {}
    for table in tables:
        notes = Notes(table.file, reading)
        classes = _read_table(files, table, options, pictures, reading, notes)
        notes.close()
        if classes:
            declared.setdefault(classes, table.file)
    pictures.finish(reading)
    if len(declared) > 1:
        detail = f"Tables have different class names beside them: {', '.join(declared.values())}."
        remedy = "Keep one file of class names, at the top of the data."
        reading.findings.append(Finding("error", "several class name files", "", detail, remedy))
    elif declared:
        reading.classes = next(iter(declared))
        reading.class_ids = {name: index for index, name in enumerate(reading.classes)}


def _read_table(
    files: Files,
    table: CellTable,
    options: LabelOptions,
    pictures: Pictures,
    reading: Reading,
    notes: Notes,
) -> tuple[str, ...]:
    """Read one table; gives the classes that are declared beside it."""
    first = list(islice(table.rows(), SEARCHED_ROWS))
    names = PictureNames(files, table.file)
    header = _settle_header(names, [cells for _, cells in first], options, notes)
    if header is None or notes.num_errors:
        return ()
    place = table.name_row(first[max(header.row, 0)][0])
    below = [cells for _, cells in first[header.row + 1 :]]
    columns = choose_columns(header, below, names, notes, place, options)
    if columns is None:
        return ()
    rows = read_rows(table, header.row, columns, names, notes, options)
    if columns.classes:
        classes: tuple[str, ...] = ()
        reading.classes = tuple(dict.fromkeys((*reading.classes, *columns.classes)))
    else:
        classes = settle_labels(files, rows.rows, reading, notes)
    pictures.add(columns, rows, notes)
    _check_rows(columns, rows, reading, notes)
    _note_numbers(names, notes)
    return classes


def _settle_header(
    names: PictureNames, rows: Sequence[Sequence[Value]], options: LabelOptions, notes: Notes
) -> Header | None:
    """The header, or None and why as an error."""
    header = find_header(rows, options.columns)
    if all(is_blank(cell) for cells in rows for cell in cells):
        detail = f"{notes.file} is empty: it has 0 rows."
        notes.find("error", "no rows", detail, "Export the labels again.")
        return None
    if header is None:
        header = _headless(names, rows)
        if header:
            detail = "There is no header; the first row names a picture already. The two columns "
            detail += "are taken as picture and label."
            notes.find("warning", "no header", detail, "Write a header above, as `file,label`.")
    if header is None and not options.columns:
        found = ", ".join(map(repr, first_filled(rows)))
        detail = f"No column is known to name the pictures; the headers found are {found}."
        notes.find("error", "unknown headers", detail, MAP_HEADERS)
    check_mapping(header, first_filled(rows), options, notes)
    return header


def _headless(names: PictureNames, rows: Sequence[Sequence[Value]]) -> Header | None:
    """Columns of a table without header that holds pictures and labels and nothing else."""
    filled = [cells for cells in rows if any(not is_blank(cell) for cell in cells)]
    if any(len(cells) != 2 for cells in filled):
        return None
    shares = [names.name_share(filled, column) for column in (0, 1)]
    image = shares.index(max(shares))
    is_data = isinstance(names.find(filled[0][image]), str) and min(shares) == 0
    return Header(-1, ("1", "2"), {"image": (image,), "label": (1 - image,)}) if is_data else None


def _check_rows(columns: Columns, rows: Rows, reading: Reading, notes: Notes) -> None:
    if rows.num_rows == 0:
        headers = ", ".join(repr(name) for name in columns.names if name)
        detail = f"{notes.file} has 0 rows of data below its header {headers}."
        remedy = "Export the labels again; nothing can be learned from an empty table."
        notes.find("error", "no rows", detail, remedy)
    elif not rows.rows and not notes.num_errors:
        why = next(item.detail for item in reading.left_out if item.file == notes.file)
        detail = f"None of the {rows.num_rows} rows of {notes.file} can be used; the first: {why}"
        remedy = "Check that pictures and labels belong together."
        notes.find("error", "no usable row", detail, remedy)
    if rows.unknown and rows.rows and columns.box:
        detail = (
            f"{len(rows.unknown)} rows, the first {rows.unknown[0]}, cannot be used and leave open "
            "which picture they mean, so pictures that the table does not name are left out "
            "instead of taken as good."
        )
        notes.find("warning", "rows without a picture", detail, "Mend these rows.", rows.unknown[0])


def _note_numbers(names: PictureNames, notes: Notes) -> None:
    if names.by_number:
        number, path = next(iter(names.by_number.items()))
        detail = (
            f"{len(names.by_number)} pictures are found by their number only: {number} is {path}."
        )
        notes.find("info", "found by number", detail, "Format ids as text, with their zeros.")


def _names_pictures(names: PictureNames, rows: Sequence[Sequence[Value]], column: int) -> bool:
    """Whether most of the first rows name a picture in a column; one may be the header."""
    filled = [row for row in rows if not all(map(is_blank, row))][:20]
    found = sum(len(row) > column and isinstance(names.find(row[column]), str) for row in filled)
    return found > 0 and 2 * found >= len(filled) - 1
