"""Lists and folders that give pictures their split: `ImageSets/Main/train.txt` and the like."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from enginehouse.errors import DataError
from enginehouse.files import NotFound
from enginehouse.formats._pairs import Pairs
from enginehouse.formats._text import decode_text
from enginehouse.labels import Finding, LeftOut, Reading

LIBRARIES: tuple[str, ...] = ()

_SHOWN = 5


@dataclass(frozen=True)
class Given:
    """The pictures of one split, as one list or folder has them."""

    source: str
    split: str
    pictures: Sequence[str]


def read_list(pairs: Pairs, path: str, split: str, reading: Reading) -> Given:
    """A list with a picture per line; a second column (`1`, a label file) does not count."""
    pictures: list[str] = []
    content = pairs.files.read(path)
    try:
        text = decode_text(content)[0]
    except DataError as error:
        detail = f"{path}: {error.message}"
        reading.findings.append(Finding("error", "unreadable file", path, detail, error.remedy))
        return Given(path, split, ())
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        found = _find(pairs, line.strip(), path, split)
        place = f"line {number}"
        if isinstance(found, str):
            pictures.append(found)
        elif found.reason == "path outside the data":
            detail, remedy = (
                f"{path}, {place}: {found.detail}.",
                "Write paths from the data folder.",
            )
            reading.findings.append(Finding("error", found.reason, path, detail, remedy, place))
        else:
            detail = f"{path}, {place}: {found.detail}."
            reading.left_out.append(LeftOut(path, found.reason, detail, place))
    return Given(path, split, tuple(pictures))


def _find(pairs: Pairs, line: str, path: str, split: str) -> str | NotFound:
    found = pairs.by_given_name(line, path, split)
    if isinstance(found, NotFound) and len(line.split()) > 1:
        first = pairs.by_given_name(line.split(maxsplit=1)[0], path, split)
        return first if isinstance(first, str) else found
    return found


def put_splits(given: Iterable[Given], reading: Reading) -> None:
    """Give the pictures in `reading` their split; an error if one of them has two."""
    owners: dict[str, Given] = {}
    doubled: dict[tuple[str, str, str], list[str]] = {}
    for each in given:
        for picture in each.pictures:
            owner = owners.setdefault(picture, each)
            if owner.split != each.split:
                pair = (owner.split, each.split, each.source)
                doubled.setdefault(pair, []).append(picture)
    for (one, other, source), pictures in doubled.items():
        shown = ", ".join(pictures[:_SHOWN])
        detail = f"{source}: {len(pictures)} pictures are in both {one} and {other}: {shown}."
        remedy = "Give each picture one split; scores on pictures seen in training say nothing."
        reading.findings.append(Finding("error", "leak between splits", source, detail, remedy))
    for picture, owner in owners.items():
        if picture in reading.pictures:
            reading.pictures[picture] = replace(reading.pictures[picture], split=owner.split)
