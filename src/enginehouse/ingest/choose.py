"""Which label files there are, in which format, and whether several of them agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

from enginehouse.choices import list_choices, load_choice
from enginehouse.files import Files
from enginehouse.ingest.agree import find_disagreement
from enginehouse.labels import Finding, LabelFormat, Labelled, LabelOptions, Reading

AUTO = "auto"
# What is tried when nothing else says anything of the pictures, in this order.
LISTS, FOLDERS = "file_list", "class_folders"


@dataclass(frozen=True)
class Chosen:
    """What is read, and how.

    Attributes:
        format: its name.
        label_files: which were read.
        compared: label files of other formats, which say the same, or should.
    """

    format: str
    label_files: tuple[str, ...]
    reading: Reading
    compared: tuple[str, ...] = ()


def choose_reading(files: Files, name: str, label_file: str, options: LabelOptions) -> Chosen:
    """Find the label files and read them.

    Args:
        name: of a format, or `auto`.
        label_file: the one to read, or "" for all that are found.
    """
    if label_file and label_file not in files.listing:
        return _refuse(files, name, _say_no_such_file(files, label_file))
    if label_file:
        files = replace(files, only=label_file)
        names = [name] if name != AUTO else _ask(files, list(list_choices("formats")))
        if not names:
            return _refuse(files, name, _say_unknown(label_file))
        return _agree(files, [_read(files, each, [label_file], options) for each in names])
    if name != AUTO:
        found = _load(name).find(files)
        if not found and name != FOLDERS:
            return _refuse(files, name, _say_none(files, name))
        return _read(files, name, found, options)
    names = [each for each in list_choices("formats") if each not in (LISTS, FOLDERS)]
    sources = {each: _load(each).find(files) for each in names}
    chosen = [_read(files, each, found, options) for each, found in sources.items() if found]
    return _agree(files, chosen) if chosen else _read_names(files, options)


def _read_names(files: Files, options: LabelOptions) -> Chosen:
    """Without label files: lists of pictures, if they speak of the whole; else the folders."""
    lists = _load(LISTS).find(files)
    if not lists:
        return _read(files, FOLDERS, [], options)
    listed = _read(files, LISTS, lists, options)
    pictures = listed.reading.pictures
    splits = any(labelled.split for labelled in pictures.values())
    if splits or 2 * len(pictures) >= len(files.pictures):
        return listed
    chosen = _read(files, FOLDERS, [], options)
    chosen.reading.findings.append(
        Finding(
            "warning",
            "list not used",
            lists[0],
            f"{', '.join(lists)} list only {len(pictures)} of {len(files.pictures)} pictures and "
            "name no split, so the folders were read.",
            f"To read the list, set ingest.format (--format) to {LISTS}.",
        )
    )
    return chosen


def _agree(files: Files, chosen: Sequence[Chosen]) -> Chosen:
    """The richest of several readings, if the others say the same as far as they go."""
    ranked = sorted(chosen, key=lambda each: -_measure_richness(each.reading))
    best, others = ranked[0], ranked[1:]
    best.reading.findings += [_compare(files, best, other) for other in others]
    return replace(best, compared=tuple(file for other in others for file in other.label_files))


def _compare(files: Files, best: Chosen, other: Chosen) -> Finding:
    used, unused = _name_files(best), _name_files(other)
    says = f"{unused} ({other.format})"
    errors = [finding for finding in other.reading.findings if finding.severity == "error"]
    if best.reading.pictures and not other.reading.pictures:
        why = errors[0].detail if errors else "It speaks of no picture."
        detail = f"{says} is not used beside {used} ({best.format}): {why}"
        return Finding(
            "warning", "label file not used", other.label_files[0], detail, "Mend or remove it."
        )
    if errors:
        detail = f"{says} should say the same as {used} ({best.format}): {errors[0].detail}"
        remedy = f"{errors[0].remedy} Or set ingest.format (--format) to {best.format}."
        return replace(errors[0], detail=detail, remedy=remedy)
    difference = find_disagreement(files, best.reading, other.reading)
    if difference is None:
        detail = f"{says} says the same as {used} ({best.format}), which is used."
        return Finding("info", "label files agree", other.label_files[0], detail)
    path, what = difference
    detail = f"{used} ({best.format}) and {says} disagree on {path}: {what}."
    remedy = "Say which counts with ingest.format (--format): "
    remedy += f"{best.format} or {other.format}; or remove the wrong file."
    return Finding("error", "label files disagree", path, detail, remedy)


def _measure_richness(reading: Reading) -> int:
    """3 with polygons, 2 with boxes, 1 with labels, else 0."""
    boxes = [box for labelled in reading.pictures.values() for box in labelled.boxes]
    if any(box.polygons for box in boxes):
        return 3
    labels = any(labelled.labels for labelled in reading.pictures.values())
    return 2 if boxes else int(labels)


def _name_files(chosen: Chosen) -> str:
    files = chosen.label_files
    return files[0] if len(files) == 1 else f"{files[0]} and {len(files) - 1} more"


def _ask(files: Files, names: Sequence[str]) -> list[str]:
    return [name for name in names if _load(name).find(files)]


def _read(files: Files, name: str, label_files: Sequence[str], options: LabelOptions) -> Chosen:
    reading = _load(name).read(files, label_files, options)
    return Chosen(name, tuple(label_files), reading)


def _load(name: str) -> LabelFormat:
    return cast("LabelFormat", load_choice("formats", name))


def _refuse(files: Files, name: str, finding: Finding) -> Chosen:
    """Nothing was read; the pictures are looked at all the same, so that all faults are told."""
    pictures = dict.fromkeys(files.pictures, Labelled())
    return Chosen(name, (), Reading(pictures=pictures, findings=[finding]))


def _say_no_such_file(files: Files, label_file: str) -> Finding:
    others = ", ".join(files.others[:5]) or "none"
    return Finding(
        "error",
        "no such label file",
        label_file,
        f"There is no label file {label_file} in the data; files that are no pictures: {others}.",
        "Mend ingest.label_file: a path from the data folder.",
    )


def _say_unknown(label_file: str) -> Finding:
    known = ", ".join(name for name in list_choices("formats") if name != FOLDERS)
    return Finding(
        "error",
        "unknown label file",
        label_file,
        f"{label_file} is in none of the formats {known}, by its content.",
        "Say which it is with ingest.format (--format), then its faults are named.",
    )


def _say_none(files: Files, name: str) -> Finding:
    others = ", ".join(files.others[:5]) or "none"
    return Finding(
        "error",
        "no label file",
        "",
        f"No label file of the format {name} was found, by its content; files that are no "
        f"pictures: {others}.",
        "Add it to the data folder, or set ingest.format (--format) to auto.",
    )
