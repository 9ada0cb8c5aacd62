"""A table of cells, whatever file it comes from, which can name the place of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from enginehouse.formats._cells import Value, is_blank

LIBRARIES: tuple[str, ...] = ()

NumberedRow = tuple[int, Sequence[Value]]


@dataclass(frozen=True)
class CellTable:
    """One table of a label file.

    Attributes:
        rows: begins anew at the top: number and cells of each row, blank ones included.
        name_row: its number to a place in the file: `line 2`, `Sheet1!row 2`.
        name_cell: number and index of the column to a place: `Sheet1!B2`.
        ragged: whether a row with more or fewer cells than the header is a mistake.
    """

    file: str
    rows: Callable[[], Iterator[NumberedRow]]
    name_row: Callable[[int], str]
    name_cell: Callable[[int, int], str]
    ragged: bool

    def iter_data(self, header_row: int) -> Iterator[NumberedRow]:
        """The rows below the header that are not blank.

        Args:
            header_row: its index among the rows; -1 if there is none.
        """
        for index, (number, cells) in enumerate(self.rows()):
            if index > header_row and not all(map(is_blank, cells)):
                yield number, cells
