"""Cells of a table, from any source, as text, numbers and times; what cannot be read is a fault.

Knows nothing of files, headers and labels.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Literal

LIBRARIES: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Oddity:
    """What stands in a cell instead of a value.

    Attributes:
        text: as a person sees it: the formula, `#N/A`, `25%`.
    """

    kind: Literal["formula", "error value", "percentage"]
    text: str


Value = str | int | float | bool | datetime | date | time | timedelta | Oddity | None


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a cell cannot be used.

    Attributes:
        detail: ends the sentence that begins with the cell: `holds ...`.
        whole: whether the table as a whole can then not be trusted.
    """

    reason: str
    detail: str
    remedy: str
    whole: bool


_BLANK = frozenset({"", "-", "--", "n/a", "na", "none", "null", "nil", "/"})
_EDGES = re.compile("^[\\s\ufeff\u200b-\u200f\u2060]+|[\\s\ufeff\u200b-\u200f\u2060]+$")
_MONTHS = "jan|feb|mar|mär|apr|may|mai|jun|jul|aug|sep|oct|okt|nov|dec|dez"
_DATE = re.compile(
    rf"\d{{1,4}}([-/.])\d{{1,2}}\1\d{{1,4}}([ t]\d.*)?|\d{{1,2}}[-. ]+({_MONTHS})\w*\.?([-. ]+\d+)?"
    rf"|({_MONTHS})[a-z]*[-. ]+\d+|\d+月\d+日|\d+年\d+月(\d+日)?"
)
_PLAIN = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?")
_POINT_GROUPS = re.compile(r"[+-]?[1-9]\d{0,2}(\.\d{3})+(,\d+)?")  # 1.234 or 1.234,5
_COMMA_GROUPS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d+)?")  # 1,234 or 1,234.5
_COMMA = re.compile(r"[+-]?\d*,\d+(e[+-]?\d+)?")


def is_blank(value: Value) -> bool:
    """Whether nothing stands in a cell."""
    return value is None or (isinstance(value, str) and not _strip(value))


def text_of(value: Value) -> str:
    """What a person sees in a cell; whole numbers without a decimal point, times as ISO 8601."""
    if value is None or isinstance(value, str):
        return _strip(value or "")
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e18:
        return str(int(value))
    if isinstance(value, datetime) and value.time() == time():
        return value.date().isoformat()
    if isinstance(value, date | time):  # a datetime is a date
        return value.isoformat()
    return value.text if isinstance(value, Oddity) else str(value)


def whole_number_text(text: str) -> str:
    """`1.0` as `1`, as it was before a program took it for a number; other text as it is."""
    whole = re.fullmatch(r"([+-]?\d+)\.0+", text)
    return whole[1] if whole else text


def check_text(value: Value) -> Fault | None:
    """What is wrong with a cell that should hold a name."""
    if isinstance(value, Oddity):
        return _fault_of_oddity(value)
    if isinstance(value, datetime | date | time | timedelta):
        return _fault_of_date(text_of(value))
    if isinstance(value, str) and "\0" in value:
        return Fault("damaged text", "holds a zero byte", "Write the file again.", False)
    return None


def number_of(value: Value, decimal_comma: bool | None) -> float | Fault | None:
    """Read a number.

    Args:
        decimal_comma: from `find_decimal_comma`.

    Returns:
        None for a blank cell.
    """
    if isinstance(value, bool):
        return _fault_of_text(text_of(value))
    if isinstance(value, int | float):
        return _finite(value)
    if isinstance(value, str):
        return _parse_number(value, decimal_comma)
    return None if value is None else check_text(value)


def find_decimal_comma(values: Iterable[Value]) -> bool | None:
    """Whether a comma marks decimals, as far as the numbers of a table tell without doubt.

    Returns:
        None where there is no sign of it, or signs of both.
    """
    comma = point = False
    for value in values:
        if isinstance(value, str) and ("," in value or (not point and "." in value)):
            text = _number_text(value)
            if _COMMA.fullmatch(text) or (_POINT_GROUPS.fullmatch(text) and "," in text):
                comma = comma or not _COMMA_GROUPS.fullmatch(text)
            elif _PLAIN.fullmatch(text) or _COMMA_GROUPS.fullmatch(text):
                point = point or not _POINT_GROUPS.fullmatch(text)
    return None if comma == point else comma


def time_of(value: Value) -> str | None:
    """A time as sortable text: ISO 8601, or a number as it is; None if it cannot be sorted."""
    text = text_of(value)
    german = re.fullmatch(r"(\d{1,2})\.(\d{1,2})\.(\d{4})(.*)", text)
    if german:
        text = f"{german[3]}-{int(german[2]):02d}-{int(german[1]):02d}{german[4]}"
    sortable = not text or re.match(r"\d{4}([-/年]?\d\d|[-/年]?\d\d?\D|$)|\d+(\.\d+)?$", text)
    return text if sortable or isinstance(value, time | timedelta) else None


def _strip(text: str) -> str:
    """Without the spaces and the marks of no width around it; inside, a name may have them."""
    return text.strip() if text.isascii() else _EDGES.sub("", text)


def _number_text(value: str) -> str:
    text = unicodedata.normalize("NFKC", _strip(value)).lower().replace("\u2212", "-")
    text = re.sub(r"(?<=[\d.,]) ?(px|pixels?|像素|ピクセル)$", "", text)
    return re.sub(r"(?<=\d)[ '’](?=\d{3}(\D|$))", "", text)


def _parse_number(value: str, decimal_comma: bool | None) -> float | Fault | None:
    if not decimal_comma and _PLAIN.fullmatch(value):  # as almost all are
        return _finite(float(value))
    text = _number_text(value)
    if text in _BLANK:
        return None
    if _COMMA_GROUPS.fullmatch(text) and _COMMA.fullmatch(text) and decimal_comma is None:
        detail = f"holds {value!r}, where the comma may mark decimals or thousands"
        return Fault("ambiguous number", detail, "Write numbers with a decimal point.", True)
    groups = _POINT_GROUPS.fullmatch(text)
    if groups and (decimal_comma or "," in text or text.count(".") > 1):
        text = text.replace(".", "").replace(",", ".")
    elif _COMMA_GROUPS.fullmatch(text) and not (decimal_comma and _COMMA.fullmatch(text)):
        text = text.replace(",", "")
    elif _COMMA.fullmatch(text):
        text = text.replace(",", ".")
    if _PLAIN.fullmatch(text):
        return _finite(float(text))
    return _fault_of_no_number(value, text)


def _finite(number: float) -> float | Fault:
    return float(number) if math.isfinite(number) else _fault_of_infinity(number)


def _fault_of_no_number(value: str, text: str) -> Fault:
    if re.fullmatch(r"[+-]?(nan|inf|infinity|1\.#(inf|ind|qnan))", text):
        return _fault_of_infinity(value)
    if _DATE.fullmatch(text):
        return _fault_of_date(value)
    if text.startswith("="):
        return _fault_of_oddity(Oddity("formula", value))
    if text.startswith("#") and len(text) > 1:
        return _fault_of_oddity(Oddity("error value", value))
    return _fault_of_text(value)


def _fault_of_text(text: str) -> Fault:
    return Fault("not a number", f"holds {text!r}, which is no number", "Write a number.", False)


def _fault_of_infinity(value: object) -> Fault:
    detail = f"holds {value}, which is no finite number"
    return Fault("not a finite number", detail, "Write a number, or clear the row.", True)


def _fault_of_date(text: str) -> Fault:
    remedy = (
        "Excel turns entries like 9.10 into a date: format the column as a number or as text "
        "first, then enter the values again."
    )
    return Fault("date in a cell", f"holds the date {text}", remedy, True)


def _fault_of_oddity(oddity: Oddity) -> Fault:
    if oddity.kind == "formula":
        remedy = "Open the file in Excel and save it, so that results are stored."
        detail = f"holds the formula {oddity.text} without a stored result"
        return Fault("formula without a result", detail, remedy, True)
    if oddity.kind == "percentage":
        detail = f"holds the percentage {oddity.text}; of what, nobody says"
        return Fault("percentage", detail, "Write pixels, in cells of plain numbers.", True)
    remedy = "Mend the cell or clear its row."
    return Fault("error value", f"holds the error value {oddity.text}", remedy, True)
