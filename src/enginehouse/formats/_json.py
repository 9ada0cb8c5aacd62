"""JSON label files: a cheap look at their keys, and a strict reading. Knows no format."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from enginehouse.errors import DataError
from enginehouse.files import Files
from enginehouse.formats._numbers import is_not_finite
from enginehouse.formats._text import decode_text

LIBRARIES: tuple[str, ...] = ()

_LOOK = 65536  # bytes, at either end of a file


@dataclass(frozen=True)
class Json:
    """A JSON file as it was read.

    Attributes:
        encoding: of its text.
        constants: whether a bare NaN or Infinity, which are no JSON, was taken as a number.
        repeated: keys that one object has twice, so that one of the values is lost.
    """

    value: object
    encoding: str
    constants: bool
    repeated: tuple[str, ...]


def list_json(files: Files) -> list[str]:
    """What may be JSON by its name, or was named by the user."""
    return [p for p in files.others if PurePosixPath(p).suffix.lower() == ".json" or files.only]


def peek_json(files: Files, path: str) -> str:
    """Both ends of a JSON file that begins with an object; "" for anything else.

    Keys are ASCII in all encodings that are met, once the zeros of UTF-16 and UTF-32 are gone.
    """
    begin = files.head(path, 64).replace(b"\0", b"")
    if not re.match(rb"[^{}\[\]\w]{0,3}\s*\{", begin):  # a byte order mark may come first
        return ""
    with (files.folder / path).open("rb") as stream:
        ends = stream.read(_LOOK)
        if len(ends) == _LOOK:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(_LOOK, size - _LOOK))
            ends += b"\n" + stream.read()
    return ends.replace(b"\0", b"").decode("ascii", "ignore")


def is_blank(files: Files, path: str) -> bool:
    """Whether a file holds nothing, or nothing but white space."""
    return not files.head(path, 1024).strip(b" \t\r\n\0\xff\xfe\xef\xbb\xbf")


def load_json(content: bytes) -> Json:
    """Read JSON.

    Raises:
        DataError: it is empty, cut off or no JSON; the message says in which line and column.
    """
    text, encoding = decode_text(content)
    if not text.strip():
        raise DataError("The file is empty.", "Export it again.")
    constants: list[str] = []
    repeated: dict[str, None] = {}

    def keep_constant(name: str) -> float:
        constants.append(name)
        return float(name)

    def build(pairs: list[tuple[str, object]]) -> dict[str, object]:
        built = dict(pairs)
        if len(built) < len(pairs):
            keys = [key for key, _ in pairs]
            repeated.update(dict.fromkeys(key for key in built if keys.count(key) > 1))
        return built

    try:
        value = json.loads(text, parse_constant=keep_constant, object_pairs_hook=build)
    except json.JSONDecodeError as error:
        cut = " The file seems to be cut off." if error.pos >= len(text.rstrip()) else ""
        raise DataError(
            f"It is no valid JSON: line {error.lineno}, column {error.colno}: {error.msg}.{cut}",
            "Export it again, or mend that line.",
        ) from error
    except (ValueError, RecursionError) as error:  # numbers of thousands of digits; deep nesting
        raise DataError(f"It is no JSON of labels: {error}.", "Export it again.") from error
    return Json(value, encoding, bool(constants), tuple(repeated))


def find_constants(value: object) -> Iterator[tuple[str | int, ...]]:
    """Where NaN and infinities stand: paths of keys and indices; a flat list counts as one."""
    todo: list[tuple[tuple[str | int, ...], object]] = [((), value)]
    while todo:
        path, item = todo.pop()
        if isinstance(item, dict):
            todo += [((*path, key), item[key]) for key in reversed(item)]
        elif isinstance(item, list) and any(isinstance(inner, dict | list) for inner in item):
            todo += [((*path, index), item[index]) for index in reversed(range(len(item)))]
        elif is_not_finite(item):
            yield path
