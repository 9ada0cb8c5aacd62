"""The sheet of corrections: a workbook in which people look at doubted labels and mend them.

Knows Excel, and nothing of networks. Whatever stands in a path or a label stays text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enginehouse.correction_sheet import GIVEN, LABEL, MD5, NAME, PATH, REMOVE

if TYPE_CHECKING:
    import pandas as pd

SIDE = 96  # pixels of a thumbnail
MOST_ROWS = 1_048_575  # that Excel takes below a header
ROWS, HELP, CHOICES = "labels", "how to", "classes"  # the sheets
# Header of each column, its width in characters, and the ranking's column that it shows.
COLUMNS = (
    ("picture", 14, ""),
    (PATH, 44, "path"),
    (GIVEN, 20, "given"),
    ("suggested", 20, "suggested"),
    (LABEL, 20, "given"),
    ("suspicious", 12, "suspicious"),
    ("suspicion", 12, "suspicion"),
    ("p(given)", 12, "p_given"),
    ("p(suggested)", 14, "p_suggested"),
    ("part", 20, "part"),
    ("source", 24, "source"),
    ("place", 18, "place"),
    ("repeat of", 24, "repeat_of"),
    (MD5, 34, "md5"),
)
NAMES = [name for name, _, _ in COLUMNS]
PIXELS_TO_POINTS = 0.75
EMU_PER_PIXEL = 9525


@dataclass(frozen=True)
class Sheet:
    """What a workbook is made of.

    Attributes:
        rows: the ranking.
        thumbnails: JPEG and size in pixels of the first rows' pictures.
        labels: what can be chosen in the column `label`.
        several: whether a picture may bear several labels.
        boxed: whether labels come from boxes.
        num_suspicious: rows that are called errors.
    """

    rows: pd.DataFrame
    thumbnails: Sequence[tuple[bytes, tuple[int, int]]]
    labels: Sequence[str]
    several: bool
    boxed: bool
    num_suspicious: int


def write_sheet(path: Path, sheet: Sheet) -> None:
    """Write the workbook; rows beyond what Excel takes are left out, and it says so."""
    from openpyxl import Workbook

    book = Workbook(write_only=True)
    rows = book.create_sheet(ROWS)
    _lay_out(rows, sheet)
    _fill(rows, sheet)
    _write_help(book.create_sheet(HELP), sheet)
    choices = book.create_sheet(CHOICES)
    for label in [*sheet.labels, REMOVE]:
        choices.append([_text(choices, label)])
    book.save(path)


def _lay_out(rows: Any, sheet: Sheet) -> None:
    """Widths, heights, frozen header, filter and the list of labels to choose from."""
    from openpyxl.formatting.rule import FormulaRule
    from openpyxl.styles import PatternFill
    from openpyxl.utils import get_column_letter
    from openpyxl.worksheet.datavalidation import DataValidation

    letters = {name: get_column_letter(number) for number, name in enumerate(NAMES, 1)}
    for name, width, _ in COLUMNS:
        rows.column_dimensions[letters[name]].width = width
    for number in range(len(sheet.thumbnails)):
        rows.row_dimensions[number + 2].height = (SIDE + 4) * PIXELS_TO_POINTS
    last = min(len(sheet.rows), MOST_ROWS) + 1
    rows.freeze_panes = "B2"
    rows.auto_filter.ref = f"A1:{letters[NAMES[-1]]}{last}"
    choice = DataValidation(
        type="list",
        formula1=f"{CHOICES}!$A$1:$A${len(sheet.labels) + 1}",
        allow_blank=False,
        errorStyle="warning" if sheet.several else "stop",
        errorTitle="No such class",
        error=f"Choose one of the list, or {REMOVE}.",
    )
    choice.showErrorMessage = True
    choice.add(f"{letters[LABEL]}2:{letters[LABEL]}{last}")
    rows.data_validations.append(choice)
    corrected = FormulaRule(
        formula=[f"${letters[LABEL]}2<>${letters[GIVEN]}2"],
        fill=PatternFill(bgColor="FFC6EFCE", fill_type="solid"),
    )
    rows.conditional_formatting.add(f"{letters[LABEL]}2:{letters[LABEL]}{last}", corrected)


def _fill(rows: Any, sheet: Sheet) -> None:
    from openpyxl.styles import Font

    header = [_text(rows, name) for name in NAMES]
    for cell in header:
        cell.font = Font(bold=True)
    rows.append(header)
    for number, row in enumerate(sheet.rows.head(MOST_ROWS).itertuples(index=False)):
        cells = [None, *(_make_cell(rows, row, column) for _, _, column in COLUMNS[1:])]
        rows.append(cells)
        if number < len(sheet.thumbnails):
            rows.add_image(_place(*sheet.thumbnails[number], row=number + 1))


def _make_cell(rows: Any, row: Any, column: str) -> Any:
    from openpyxl.cell import WriteOnlyCell

    value = getattr(row, column)
    if column == "suspicious":
        value = "yes" if value else ""
    if isinstance(value, str):
        return _text(rows, value)
    cell = WriteOnlyCell(rows, round(float(value), 4))
    cell.number_format = "0.0000"
    return cell


def _text(rows: Any, text: str) -> Any:
    """A cell that stays the text that it is: `=1+1.png` is a name, `007` a class."""
    from openpyxl.cell import WriteOnlyCell
    from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE
    from openpyxl.styles import Alignment

    cell = WriteOnlyCell(rows)
    cell.value = ILLEGAL_CHARACTERS_RE.sub("\N{REPLACEMENT CHARACTER}", text)
    cell.data_type = "s"
    cell.number_format = "@"
    cell.quotePrefix = True
    cell.alignment = Alignment(vertical="top")
    return cell


def _place(content: bytes, size: tuple[int, int], row: int) -> Any:
    """A picture within its cell, which it follows when rows are sorted or hidden.

    Args:
        row: index of the cell's row in the sheet; the header has 0.
    """
    from openpyxl.drawing.image import Image
    from openpyxl.drawing.spreadsheet_drawing import AnchorMarker, TwoCellAnchor

    image = Image(BytesIO(content))
    margin = 2 * EMU_PER_PIXEL
    ends = [margin + side * EMU_PER_PIXEL for side in size]
    image.anchor = TwoCellAnchor(
        editAs="twoCell",
        _from=AnchorMarker(col=0, colOff=margin, row=row, rowOff=margin),
        to=AnchorMarker(col=0, colOff=ends[0], row=row, rowOff=ends[1]),
    )
    return image


def _write_help(help_sheet: Any, sheet: Sheet) -> None:
    from openpyxl.styles import Alignment

    num = len(sheet.rows)
    lines = [
        f"The {num} pictures of this data set, those first whose label is doubted most.",
        "Each was judged by a network that had not seen it; p is how likely a label is to it, "
        "and suspicion is 1 - p(given). What it says is an opinion: you decide.",
        f"{sheet.num_suspicious} are called suspicious: the network is as sure of another class "
        "as it usually is of that class's own pictures. Begin there; stop where all is right.",
        "",
        f"1. In the sheet {ROWS!r}, choose the right class in the column {LABEL!r}. It holds the "
        "given one; leave it where that is right. Do not change the other columns.",
        f"2. {REMOVE} takes a picture out of the data: the file stays and is not used any more.",
        f"3. Save it as {NAME} (or {NAME.replace('.', '-2.')}, .csv; the name must begin with "
        "corrections), and put it into the data folder: enginehouse data add FILE --into DATA SET.",
        "4. The next run reads it and trains with the labels as they are now. It stops, and names "
        "the row, where this sheet no longer fits the data.",
        "",
        "Pictures of the same pixels are judged once: in the column 'repeat of' stands which. "
        "Correct them alike, else both are left out as contradicting each other.",
        "You may sort, filter, delete rows and add columns; the columns "
        f"{PATH}, {GIVEN}, {LABEL} and {MD5} must stay.",
    ]
    if len(sheet.thumbnails) < num:
        lines.append(f"Only the first {len(sheet.thumbnails)} rows have their picture.")
    if num > MOST_ROWS:
        lines.append(f"Only the first {MOST_ROWS} rows are here: Excel takes no more.")
    if sheet.several:
        lines.append("Several labels of one picture are joined with +, as in pit+scratch.")
    if sheet.boxed:
        lines += [
            "The labels of these pictures come from boxes, which this sheet cannot correct: do "
            f"that in the file of the column 'source' at its 'place'. Only {REMOVE} counts here.",
        ]
    help_sheet.column_dimensions["A"].width = 110
    for line in lines:
        cell = _text(help_sheet, line)
        cell.alignment = Alignment(wrap_text=True, vertical="top")
        help_sheet.append([cell])
