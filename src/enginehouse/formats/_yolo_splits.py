"""The splits of a YOLO data set: paths in data.yaml, else lists such as train.txt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from enginehouse.files import Files, has_picture_suffix
from enginehouse.formats._pairs import Pairs, leaves_folder
from enginehouse.formats._split_lists import Given, read_list
from enginehouse.formats._text import peek_text
from enginehouse.formats._yolo_data import DataYaml
from enginehouse.labels import SPLIT_NAMES, Finding, Reading

LIBRARIES: tuple[str, ...] = ()


def read_splits(
    pairs: Pairs, yamls: Sequence[DataYaml], label_files: Sequence[str], reading: Reading
) -> list[Given]:
    """The pictures of each split; [] where only the folders can tell."""
    given: list[Given] = []
    for data in yamls:
        for key in data.values:
            split = SPLIT_NAMES.get(key.lower(), "")
            written = data.values[key] if split else []
            for entry in [written] if isinstance(written, str) else written or []:
                if isinstance(entry, str) and entry.strip():
                    given += _read_entry(pairs, data, split, entry.strip(), reading)
    if given:
        return given
    lists = find_lists(pairs.files, label_files)
    return [read_list(pairs, path, split, reading) for path, split in lists]


def find_lists(files: Files, label_files: Sequence[str]) -> list[tuple[str, str]]:
    """Text files that are named after a split and list pictures, with that split."""
    labels = set(label_files)
    found: list[tuple[str, str]] = []
    for path in sorted(files.listing):
        pure = PurePosixPath(path)
        split = SPLIT_NAMES.get(pure.stem.lower(), "")
        if split and pure.suffix.lower() == ".txt" and path not in labels:
            text = peek_text(files, path) or ""
            if any(has_picture_suffix(line.strip()) for line in text.splitlines()[:10]):
                found.append((path, split))
    return found


def _read_entry(
    pairs: Pairs, data: DataYaml, split: str, entry: str, reading: Reading
) -> list[Given]:
    """What one path in a data.yaml stands for: a folder of pictures, or a list of them."""
    files = pairs.files
    base = data.values.get("path")
    for path in _list_meanings(entry, base if isinstance(base, str) else "", data.path):
        if path in files.listing and PurePosixPath(path).suffix.lower() == ".txt":
            return [read_list(pairs, path, split, reading)]
        prefix = f"{path}/" if path else ""
        pictures = [picture for picture in files.pictures if picture.startswith(prefix)]
        if pictures:
            return [Given(data.path, split, pictures)]
    detail = f"{data.path}: {split} is said to lie in {entry!r}, where no pictures are found."
    if leaves_folder(entry):
        detail = f"{data.path}: {split} is said to lie in {entry!r}, which leads out of the data."
        reason, remedy = "path outside the data", "Write paths from the data folder."
        reading.findings.append(Finding("error", reason, data.path, detail, remedy))
    else:
        remedy = "Correct the path, or remove it; folders named train, val, test count without."
        reading.findings.append(Finding("warning", "split not found", data.path, detail, remedy))
    return []


def _list_meanings(entry: str, base: str, yaml_path: str) -> Iterator[str]:
    """Paths from the data folder that a written one can mean, the most literal first.

    A root of another machine (`/content/data/train/images`) and the `../` that exports of
    Roboflow write too often are cut off, folder by folder.
    """
    home = PurePosixPath(yaml_path).parent
    written = PurePosixPath(entry.replace("\\", "/"))
    based = PurePosixPath(base.replace("\\", "/")) / written
    for start in (home / based, home / written, based, written):
        path = _normalise(start)
        if path is not None:
            yield path
    parts = [
        part for part in based.parts if part not in (".", "..") and not part.endswith(("/", ":"))
    ]
    for first in range(len(parts)):
        yield "/".join((*home.parts, *parts[first:]))
        yield "/".join(parts[first:])


def _normalise(path: PurePosixPath) -> str | None:
    """The path without dots, or None if it is absolute or climbs out of the data."""
    parts: list[str] = []
    for part in path.parts:
        if part == "/" or part.endswith(":") or (part == ".." and not parts):
            return None
        if part == "..":
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts)
