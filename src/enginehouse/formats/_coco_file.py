"""One COCO file: its three tables, checked entry by entry, ids compared as text."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from enginehouse.errors import DataError
from enginehouse.files import Files
from enginehouse.formats._json import Json, find_constants, load_json
from enginehouse.formats._numbers import whole_number_of
from enginehouse.formats._splits import split_of_label_file
from enginehouse.formats._text import note_encoding
from enginehouse.labels import Box, Finding, LeftOut, Reading, Severity

LIBRARIES: tuple[str, ...] = ()

_TABLES = ("images", "annotations", "categories")
_SHOWN = 20  # ids that one sentence names


@dataclass
class CocoImage:
    """An entry of `images`, with what its annotations add.

    Attributes:
        path: of its picture, or "" where there is none (then `problem` says why).
        num_annotations: that name it, usable or not.
        num_left_out: of them, those that are not used.
    """

    id: str
    name: str
    path: str = ""
    problem: tuple[str, str] = ("", "")
    size: tuple[int, int] | None = None
    boxes: list[Box] = field(default_factory=list)
    num_annotations: int = 0
    num_left_out: int = 0


@dataclass
class CocoFile:
    """A COCO file while it is read.

    Attributes:
        categories: id as text to name.
        ids: name to id.
        supercategories: names that others call their supercategory.
        used: names that an annotation bears.
        images: by id as text.
        not_numbers: places whose NaN is noted.
        placeholders: annotations that only say that a picture shows nothing.
    """

    path: str
    split: str
    tables: dict[str, list[Any]]
    reading: Reading
    categories: dict[str, str] = field(default_factory=dict)
    ids: dict[str, int] = field(default_factory=dict)
    supercategories: set[str] = field(default_factory=set)
    used: set[str] = field(default_factory=set)
    images: dict[str, CocoImage] = field(default_factory=dict)
    not_numbers: set[str] = field(default_factory=set)
    placeholders: list[str] = field(default_factory=list)

    def find(
        self, severity: Severity, reason: str, detail: str, remedy: str = "", place: str = ""
    ) -> None:
        """Note a finding; the sentence is completed with file and place."""
        where = f"{self.path}, {place}" if place else self.path
        finding = Finding(severity, reason, self.path, f"{where}: {detail}", remedy, place)
        self.reading.findings.append(finding)

    def leave_out(self, reason: str, detail: str, place: str) -> None:
        """Note an entry that is not used."""
        detail = f"{self.path}, {place}: {detail}."
        self.reading.left_out.append(LeftOut(self.path, reason, detail, place))


def open_coco(files: Files, path: str, reading: Reading) -> CocoFile | None:
    """The tables of a COCO file, with its categories; None (and an error) if it has none."""
    content = files.read(path)
    try:
        loaded = load_json(content)
    except DataError as error:
        detail = f"{path}: {error.message}"
        reading.findings.append(Finding("error", "broken label file", path, detail, error.remedy))
        return None
    reading.findings += note_encoding(path, loaded.encoding)
    top = loaded.value if isinstance(loaded.value, dict) else {}
    missing = [key for key in _TABLES if not isinstance(top.get(key), list)]
    tables = {key: top[key] for key in _TABLES if key not in missing}
    file = CocoFile(path, split_of_label_file(path), tables, reading)
    _check_json(file, loaded)
    if missing:
        wanted = "a COCO file holds the lists images, annotations and categories"
        detail = f"{wanted}; missing here: {', '.join(missing)}."
        remedy = "Export it as COCO again; a file without labels does not belong to the data."
        file.find("error", "missing key", detail, remedy)
        return None
    _read_categories(file)
    return file


def id_of(entry: dict[str, Any], key: str) -> str:
    """An id as text, so that 1, 1.0 and "1" are the same; "" if there is none."""
    value = entry.get(key)
    whole = None if isinstance(value, str) else whole_number_of(value)
    if whole is not None:
        return str(value if isinstance(value, int) else whole)
    return value.strip() if isinstance(value, str) else ""


def name_entry(table: str, index: int, entry: object) -> str:
    """How an entry is called: `annotation 7` by its id, `annotations[3]` where it has none."""
    identity = id_of(entry, "id") if isinstance(entry, dict) else ""
    single = {"images": "image", "annotations": "annotation", "categories": "category"}[table]
    return f"{single} {identity}" if identity else f"{table}[{index}]"


def shorten(names: list[str]) -> str:
    """The first names of a long list, and how many more there are."""
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def check_duplicate_ids(file: CocoFile, table: str) -> None:
    """An error if ids of a table are not unique: an index by id would lose an entry."""
    ids = [id_of(entry, "id") for entry in file.tables[table] if isinstance(entry, dict)]
    repeated = [name for name, count in Counter(ids).items() if name and count > 1]
    if repeated:
        plural = "" if len(repeated) == 1 else "s"
        single = table.removesuffix("s") if table != "categories" else "category"
        detail = f"{single} ids must be unique; duplicate id{plural}: {shorten(repeated)}."
        remedy = "Give each entry an id of its own, e.g. by numbering them anew after merging."
        place = f"{single} {repeated[0]}" if len(repeated) == 1 else ""
        file.find("error", f"duplicate {single} id", detail, remedy, place)


def _check_json(file: CocoFile, loaded: Json) -> None:
    """Bare NaN and repeated keys, which Python's reader takes without a word."""
    if loaded.repeated:
        detail = f"an object has a key twice: {shorten(list(loaded.repeated))}; one value is lost."
        file.find("error", "duplicate key", detail, "Export the file again, or merge both values.")
    for path in find_constants(loaded.value) if loaded.constants else ():
        place, key = "", ".".join(map(str, path))
        if len(path) > 2 and path[0] in file.tables and isinstance(path[1], int):
            table = str(path[0])
            place = name_entry(table, path[1], file.tables[table][path[1]])
            key = ".".join(map(str, path[2:]))
        note_not_a_number(file, place, f"{key} holds NaN or infinity, which is no valid JSON")


def note_not_a_number(file: CocoFile, place: str, detail: str) -> None:
    """An error for a number that is none, once per entry."""
    if place not in file.not_numbers:
        file.not_numbers.add(place)
        remedy = "Write the right number, or remove the entry."
        file.find("error", "not a number", f"{detail}.", remedy, place)


def _read_categories(file: CocoFile) -> None:
    check_duplicate_ids(file, "categories")
    for index, entry in enumerate(file.tables["categories"]):
        place = name_entry("categories", index, entry)
        identity = id_of(entry, "id") if isinstance(entry, dict) else ""
        name = entry.get("name") if isinstance(entry, dict) else None
        number = whole_number_of(identity)
        if number is None or not isinstance(name, str) or not name.strip():
            detail = "a category needs a whole number as `id` and a text as `name`."
            file.find("error", "bad category", detail, "Complete the category.", place)
            continue
        if file.ids.get(name.strip(), number) != number:
            detail = (
                f"the name {name.strip()!r} is a duplicate: ids {file.ids[name.strip()]}, {number}."
            )
            remedy = "Merge both categories, or give each a name of its own."
            file.find("error", "duplicate category name", detail, remedy, place)
        file.categories.setdefault(identity, name.strip())
        file.ids.setdefault(name.strip(), number)
        above = entry.get("supercategory")
        if isinstance(above, str) and above.strip() != name.strip():
            file.supercategories.add(above.strip())
