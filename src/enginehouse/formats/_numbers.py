"""Numbers in label files: finite and plainly written, or nothing. Knows nothing of labels."""

from __future__ import annotations

import math
import re

LIBRARIES: tuple[str, ...] = ()

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)


def parse_number(text: str) -> float | None:
    """The finite decimal number that a text is, or None (`nan`, `1_0`, `0,5` and the like)."""
    plain = text.strip()
    if not _NUMBER.fullmatch(plain):
        return None
    number = float(plain)
    return number if math.isfinite(number) else None


def number_of(value: object) -> float | None:
    """The finite number that a value of JSON is, written as number or text; else None."""
    if isinstance(value, str):
        return parse_number(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def whole_number_of(value: object) -> int | None:
    """As `number_of`, for whole numbers only."""
    number = number_of(value)
    return int(number) if number is not None and number.is_integer() else None


def is_not_finite(value: object) -> bool:
    """Whether a value of JSON is NaN or infinite, or a list with such a number."""
    numbers = value if isinstance(value, list) else [value]
    return any(isinstance(number, float) and not math.isfinite(number) for number in numbers)


def size_of(width: object, height: object) -> tuple[int, int] | None:
    """The width and height that a label file claims, or None if they are no size in pixels."""
    sides = whole_number_of(width), whole_number_of(height)
    if sides[0] is None or sides[1] is None or min(sides[0], sides[1]) < 1:
        return None
    return sides[0], sides[1]
