"""How a cell of a table names a picture: by path, name or number.

Knows names, and nothing of labels.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import PurePosixPath

from enginehouse.files import Files, NotFound
from enginehouse.formats._cells import Value, is_blank, text_of, whole_number_text
from enginehouse.formats._splits import split_of, split_of_label_file

LIBRARIES: tuple[str, ...] = ()

_EXCEL_DIGITS = 15
_MOST_REMEMBERED = 1000  # rows of one picture mostly stand together


class PictureNames:
    """The pictures that the cells of one table name.

    Attributes:
        by_number: cells that found their picture as numbers only: `1` for `0001.jpg`.
    """

    def __init__(self, files: Files, file: str) -> None:
        self._files = files
        self._file = file
        self._split = split_of_label_file(file)
        self._found: dict[tuple[str, str], str | NotFound] = {}
        self.by_number: dict[str, str] = {}

    def find(self, value: Value, split: str = "") -> str | NotFound:
        """The picture that a cell means.

        Args:
            split: of the row, which decides between pictures of the same name.
        """
        text = text_of(value)
        if (text, split) not in self._found:
            if len(self._found) >= _MOST_REMEMBERED:
                self._found.clear()
            self._found[text, split] = self._find_text(text, split)
        return self._found[text, split]

    def _find_text(self, text: str, split: str) -> str | NotFound:
        found = self._find_name(text, split)
        number = whole_number_text(text)
        if isinstance(found, str) or found.reason != "missing file":
            return found
        if re.fullmatch(r"\d(\.\d+)?E\+\d+", text):
            return NotFound(found.reason, f"{found.detail}; Excel has cut a long number short")
        if not number.isdecimal():
            return found
        if number != text:
            again = self._find_name(number, split)
            if isinstance(again, str) or again.reason != "missing file":
                return again
        return self._find_number(number, found)

    def name_share(self, rows: Sequence[Sequence[Value]], column: int) -> float:
        """Which share of the cells in a column that are not blank name pictures."""
        filled = [row[column] for row in rows if len(row) > column and not is_blank(row[column])]
        found = sum(isinstance(self.find(cell), str) for cell in filled)
        return found / max(1, len(filled))

    @cached_property
    def _numbers(self) -> dict[int, list[str]]:
        """Pictures whose names are numbers."""
        numbers: dict[int, list[str]] = {}
        for path in self._files.pictures:
            stem = PurePosixPath(path).stem
            if stem.isascii() and stem.isdecimal():
                numbers.setdefault(int(stem), []).append(path)
        return numbers

    def _find_name(self, text: str, split: str) -> str | NotFound:
        found = self._files.find(text, beside=self._file)
        split = split or self._split
        if isinstance(found, str) or found.reason != "ambiguous name" or not split:
            return found
        name = PurePosixPath(text.replace("\\", "/")).name.casefold()
        namesakes = [path for path in self._files.pictures if split_of(path) == split]
        own = [p for p in namesakes if name in (PurePosixPath(p).name.casefold(), _stem(p))]
        return own[0] if len(own) == 1 else found

    def _find_number(self, number: str, missing: NotFound) -> str | NotFound:
        found = self._numbers.get(int(number), [])
        if len(found) == 1:
            self.by_number[number] = found[0]
            return found[0]
        if found:
            named = ", ".join(found[:3])
            return NotFound("ambiguous name", f"the number {number} may be any of {named}")
        if len(number) > _EXCEL_DIGITS:
            detail = (
                f"{missing.detail}; of so long a number Excel keeps {_EXCEL_DIGITS} digits only"
            )
            return NotFound("missing file", detail)
        return missing


def _stem(path: str) -> str:
    return PurePosixPath(path).stem.casefold()
