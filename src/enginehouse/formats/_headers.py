"""Which column of a table means what, told by its header in any of six languages.

Knows headers, and nothing of what stands below them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from enginehouse.formats._cells import Value, is_blank, text_of
from enginehouse.formats._header_words import SPELLINGS

LIBRARIES: tuple[str, ...] = ()

ROLES = ("image", "label", "x", "y", "width", "height", "x2", "y2", "split", "group", "time")
COORDINATES = ("x", "y", "width", "height", "x2", "y2", "center_x", "center_y")
SEARCHED_ROWS = 30  # how far down the header may be

_LONGEST = 40  # characters of a header that is made of parts; what is longer is prose

_WEAK_IMAGE = frozenset(
    {"images", "files", "id", "name", "nr", "no", "编号", "名称", "番号", "nom", "nombre"}
)
_PIXELS = frozenset({"px", "pixel", "pixels", "pix", "像素", "ピクセル"})
_FOREIGN_UNITS = frozenset({"mm", "cm", "µm", "um", "μm", "inch", "毫米", "微米", "%"})


class Meaning(NamedTuple):
    """What a header means: its role, and how unusual its spelling is (0 is the most usual)."""

    role: str
    rank: int


@dataclass(frozen=True)
class Header:
    """The header row of a table.

    Attributes:
        row: index of it among the rows; -1 if there is none and the first row is data.
        names: all cells as they are written, as far as the last that is not blank.
        columns: role to the indexes of the columns that may have it, the likeliest first.
        weak: whether the picture's column is told by a word that may mean anything (`id`).
    """

    row: int
    names: tuple[str, ...]
    columns: Mapping[str, tuple[int, ...]]
    weak: bool = False

    def has_labels(self) -> bool:
        """Whether it tells of pictures, and of their labels or of boxes in them."""
        return "image" in self.columns and ("label" in self.columns or self.has_boxes())

    def has_boxes(self) -> bool:
        """Whether it tells of places in pictures."""
        return any(role in self.columns for role in ("x", "x2", "center_x"))


def find_header(
    rows: Sequence[Sequence[Value]], mapping: Mapping[str, str] | None = None
) -> Header | None:
    """The header row: the first that names pictures and something else, else pictures.

    Args:
        rows: the first `SEARCHED_ROWS` rows of a table, blank ones included.
        mapping: role to header, which is what such a header then means.
    """
    headers = [read_header(index, cells, mapping or {}) for index, cells in enumerate(rows)]
    mapped = [h for h in headers if mapping and all(r in h.columns for r in mapping)]
    with_image = [h for h in mapped or headers if "image" in h.columns]
    known = [h for h in with_image if len(h.columns) > 1]
    return next(iter(known or with_image), None)


def read_header(row: int, cells: Sequence[Value], mapping: Mapping[str, str]) -> Header:
    """What the cells of one row mean, if it is the header."""
    names = [text_of(cell) if isinstance(cell, str) else "" for cell in cells]
    while names and not names[-1]:
        names.pop()
    found: dict[str, list[tuple[int, int]]] = {}
    for column, (role, rank) in _find_meanings(names, mapping):
        found.setdefault(role, []).append((rank, column))
    columns = {role: tuple(column for _, column in sorted(found[role])) for role in found}
    if "image" not in columns:
        weak = [c for c, name in enumerate(names) if fold_header(name) in _WEAK_IMAGE]
        if weak:
            return Header(row, tuple(names), {**columns, "image": (weak[0],)}, weak=True)
    return Header(row, tuple(names), columns)


def first_filled(rows: Sequence[Sequence[Value]]) -> tuple[str, ...]:
    """The cells of the first row that looks like a header, to quote: two texts or more."""
    texts = [[text_of(cell) for cell in cells if not is_blank(cell)] for cells in rows]
    return tuple(next((t for t in texts if len(t) > 1), next(filter(None, texts), [])))


def fold_header(name: str) -> str:
    """A header without case, accents, signs, unit, and the word box in front."""
    words = _split_words(name)
    return "".join(words[1:] if names_box(name) else words)


def names_box(name: str) -> bool:
    """Whether a header says that it is of a box: `bbox_width`."""
    words = _split_words(name)
    return len(words) > 1 and words[0] in ("bbox", "box", "bndbox", "rect", "roi", "boundingbox")


def _split_words(name: str) -> list[str]:
    text = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", name)).casefold()
    text = "".join(c for c in text if not unicodedata.combining(c)).replace("ß", "ss")
    words = [word for word in re.split(r"[\W_]+", text) if word]
    while len(words) > 1 and words[-1] in _PIXELS | _FOREIGN_UNITS | {"in"}:
        words.pop()
    return words


def unit_of(name: str) -> str:
    """The unit of length that a header names, where that is not pixels; else ""."""
    found = re.search(r"[(\[（【/_\s]\s*([^\W\d_]{1,4})\s*[)\]）】]?$|(%)\W*$", name.strip())
    unit = (found[1] or found[2]).lower() if found else ""
    return unit if unit in _FOREIGN_UNITS else ""


def _find_meanings(
    names: Sequence[str], mapping: Mapping[str, str]
) -> Iterator[tuple[int, Meaning]]:
    folded = [fold_header(name) for name in names]
    for role, header in mapping.items():
        exact = [column for column, name in enumerate(names) if name == header.strip()]
        for column in exact or [c for c, f in enumerate(folded) if f == fold_header(header)]:
            yield column, Meaning(role, 0)
    spoken_for = {fold_header(header) for header in mapping.values()}
    for column, name in enumerate(names):
        meaning = _find_meaning(name)
        if meaning is None or folded[column] in spoken_for or meaning.role in mapping:
            continue
        # x0, y0, x1, y1: the second corner is then 1.
        if folded[column] in ("x1", "y1") and f"{folded[column][0]}0" in folded:
            meaning = Meaning(f"{folded[column][0]}2", 0)
        yield column, meaning


def _find_meaning(name: str) -> Meaning | None:
    """By the whole header, else by its parts: `类别 (label)`, `Datei / file`."""
    whole = _MEANINGS.get(fold_header(name))
    if whole:  # of the box rather than of the picture, in pixels rather than in millimetres
        unusual = 1000 * bool(unit_of(name)) - 1000 * names_box(name)
        return Meaning(whole.role, whole.rank + unusual)
    if len(name) > _LONGEST or name.count("(") + name.count("（") != name.count(")") + name.count(
        "）"
    ):
        return None
    parts = [_MEANINGS.get(fold_header(part)) for part in re.split(r"[()（）\[\]/|\n]", name)]
    known = [part for part in parts if part]
    return known[0] if len({part.role for part in known}) == 1 else None


_MEANINGS = {
    fold_header(spelling): Meaning(role, rank)
    for role, spellings in SPELLINGS.items()
    for rank, spelling in reversed(list(enumerate(spellings.split())))
}
