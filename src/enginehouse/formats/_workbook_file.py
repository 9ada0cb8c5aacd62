"""An Excel file cut down to what a table needs, before a library builds it in memory.

People fill whole columns with colour, so a sheet of three boxes may hold a million blank rows; a
zip file of a few kilobytes may hold gigabytes. Both are met here, by streaming: blank cells are
taken out, and so is everything that is no table (drawings, pictures, macros, links, names).
"""

from __future__ import annotations

import re
import zipfile
import zlib
from io import BytesIO
from typing import IO

from enginehouse.errors import DataError, first_line

LIBRARIES: tuple[str, ...] = ()

_MOST_BYTES = 1 << 30  # of all parts together, unpacked
_MOST_KEPT = 1 << 26  # of a sheet without its blank cells: a quarter of a million boxes
_MOST_ROW = 1 << 24  # of a single row
_MOST_OTHER = 1 << 26  # of any other part
_MOST_MERGED = 1 << 20  # cells in merged ranges
_CHUNK = 1 << 20
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, RuntimeError, IndexError)
_SKIPPED = re.compile(
    r"docProps/|customXml/|(xl/)?(media|drawings|charts|chartsheets|embeddings|externalLinks|ink"
    r"|pivot\w*|tables|queryTables|ctrlProps|printerSettings|activeX|threadedComments|persons)/"
    r"|(xl/)?worksheets/_rels/|.*\.(bin|vml|emf|wmf|png|jpe?g|gif|tiff?)$|.*comments\d*\.xml$",
    re.IGNORECASE,
)
_LINKS = re.compile(
    rb"<(\w+:)?(definedNames|externalReferences|pivotCaches)\b.*?</(\w+:)?\2>", re.S
)
_SHEET = re.compile(rb"<(\w+:)?worksheet[\s>]")
# Only cells and rows that say where they are can go without moving the others.
_BLANK_CELL = re.compile(
    rb'<(?:\w+:)?c (?:[^<>]*? )?r="[A-Z]+\d+"[^<>]*?'
    rb"(?:/>|>(?:<(?:\w+:)?v ?/>|<(?:\w+:)?v></(?:\w+:)?v>)?</(?:\w+:)?c>)"
)
_BLANK_ROW = re.compile(rb'<(?:\w+:)?row (?:[^<>]*? )?r="\d+"[^<>]*?(?:/>|>\s*</(?:\w+:)?row>)')
_ROW = re.compile(rb'<(?:\w+:)?row(?: (?:[^<>]*? )?r="(\d+)"|[ />])')
_END_OF_ROWS = re.compile(rb"</(?:\w+:)?sheetData\s*>|<(?:\w+:)?sheetData\s*/>")
_MERGED = re.compile(rb'<(?:\w+:)?mergeCell [^<>]*?ref="([A-Z]+)(\d+):([A-Z]+)(\d+)"')


def slim_workbook(stream: IO[bytes], file: str, whole: bool) -> BytesIO:
    """The same workbook with sheets, strings and styles only, and without blank cells.

    It is not compressed.

    Args:
        whole: False for the beginning of each sheet only.

    Raises:
        DataError: it is damaged, or expands beyond reason.
    """
    slim = BytesIO()
    try:
        with zipfile.ZipFile(stream) as source, zipfile.ZipFile(slim, "w") as target:
            parts = [part for part in source.infolist() if not _SKIPPED.match(part.filename)]
            _check_size(file, sum(part.file_size for part in parts), _MOST_BYTES)
            for part in parts:
                with source.open(part) as opened:
                    target.writestr(part.filename, _slim_part(opened, file, whole))
    except _DAMAGE as error:
        raise DataError(
            f"{file} is damaged: {first_line(error)}.",
            "Copy it again, or open it in Excel and save it.",
        ) from error
    slim.seek(0)
    return slim


def _slim_part(stream: IO[bytes], file: str, whole: bool) -> bytes:
    head = stream.read(_CHUNK)
    if b"<!DOCTYPE" in head or b"<!ENTITY" in head:
        raise DataError(f"{file} has a part that defines XML entities.", "Save it in Excel again.")
    if _SHEET.search(head[:4096]):
        return _slim_sheet(head, stream, file, whole)
    content = head + stream.read(_MOST_OTHER)
    _check_size(file, len(content), _MOST_OTHER)
    return _LINKS.sub(b"", content)


def _slim_sheet(head: bytes, stream: IO[bytes], file: str, whole: bool) -> bytes:
    kept = bytearray()
    last_row = 0
    chunk, rest, end = head, b"", None
    while chunk and end is None and (whole or len(rest) == len(kept) == 0):
        rest += chunk
        end = _END_OF_ROWS.search(rest)
        cut = end.start() if end else _find_last_row(rest)
        piece = _BLANK_ROW.sub(b"", _BLANK_CELL.sub(b"", rest[:cut]))
        rows = _ROW.findall(piece)
        last_row = int(rows[-1] or last_row + len(rows)) if rows else last_row
        kept += piece
        rest = rest[cut:]
        _check_size(file, len(kept), _MOST_KEPT)
        _check_size(file, 0 if end else len(rest), _MOST_ROW)
        chunk = stream.read(_CHUNK)
    if end is None and whole:
        return bytes(kept + rest)  # it breaks off; who parses it says so
    prefix = named[1] or b"" if (named := _SHEET.search(head)) else b""
    if end is None:
        return bytes(kept) + b"</%bsheetData></%bworksheet>" % (prefix, prefix)
    tail = rest + chunk + stream.read(_MOST_OTHER)
    merged = _keep_merged(tail, prefix, last_row, file)
    return bytes(kept) + end[0] + merged + b"</%bworksheet>" % prefix


def _find_last_row(content: bytes) -> int:
    """Where the last row that may be incomplete begins; 0 if there is none."""
    name = max(content.rfind(b"row "), content.rfind(b"row>"))
    start = content.rfind(b"<", 0, name + 1)
    return start if start > 0 and _ROW.match(content, start) else 0


def _keep_merged(tail: bytes, prefix: bytes, last_row: int, file: str) -> bytes:
    """Merged ranges, as far down as there is data."""
    refs = []
    cells = 0
    for left, top, right, bottom in _MERGED.findall(tail):
        if int(top) <= last_row:
            refs.append(b"%b%b:%b%d" % (left, top, right, min(int(bottom), last_row)))
            cells += min(int(bottom), last_row) - int(top) + 1
    _check_size(file, cells, _MOST_MERGED)
    merged = b"".join(b'<%bmergeCell ref="%b"/>' % (prefix, ref) for ref in refs)
    return b"<%bmergeCells>%b</%bmergeCells>" % (prefix, merged, prefix) if refs else b""


def _check_size(file: str, size: int, most: int) -> None:
    if size > most:
        raise DataError(
            f"{file} expands to more than {most >> 20} MiB, which no table of labels needs.",
            "Copy the table into a new workbook, or export it as CSV.",
        )
