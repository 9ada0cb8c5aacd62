"""Class folders: the label of a picture is the name of the folder that it lies in.

Folders of given splits may lie above the class folders (`train/cat/1.jpg`), and further folders
around everything.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from enginehouse.files import Files
from enginehouse.formats._folder_checks import check_folders
from enginehouse.formats._folders import Folder, Layout, find_layout
from enginehouse.labels import Finding, Labelled, LabelOptions, LeftOut, Reading

LIBRARIES: tuple[str, ...] = ()


def find(files: Files) -> list[str]:
    """There are no label files: the folders say it all."""
    return []


def read(files: Files, label_files: Sequence[str], options: LabelOptions) -> Reading:
    """Label every picture by its folder; see `LabelFormat`."""
    return label_by_folders(files, files.pictures, options)


def label_by_folders(files: Files, pictures: Iterable[str], options: LabelOptions) -> Reading:
    """Label some of the pictures by their folders.

    Pictures of one class and split share one `Labelled`. Where no folder says anything of its
    pictures, all of them are there without a label.
    """
    paths = list(pictures)
    counts = Counter(path.rpartition("/")[0] for path in paths)
    folders = {folder: PurePosixPath(folder).parts for folder in sorted(counts)}
    direct = {folders[folder]: count for folder, count in counts.items()}
    layout = find_layout(direct)
    reading = Reading(by_folder=True)
    told = {name: _label_folder(layout, folder, options) for name, folder in folders.items()}
    shared: dict[Labelled, Labelled] = {}
    told = {name: each and shared.setdefault(each, each) for name, each in told.items()}
    for path in paths:
        labelled = told[path.rpartition("/")[0]]
        if labelled is None:
            detail = f"{path} lies in no class folder ({_name_some(layout.classes)})."
            reading.left_out.append(LeftOut(path, "no label", detail))
        else:
            reading.pictures[path] = labelled
    if layout.classes:
        labels = {label for each in shared for label in each.labels}
        reading.classes = options.classes or tuple(sorted(labels))
        reading.findings += check_folders(files, layout, direct, reading.classes)
    elif paths:
        reading.findings.append(_say_no_labels(paths))
    return reading


def _label_folder(layout: Layout, folder: Folder, options: LabelOptions) -> Labelled | None:
    """What is said of the pictures in a folder; None if it lies beside the class folders."""
    split = layout.split_of(folder)
    if not layout.classes:
        return Labelled(split=split)
    named = layout.below(folder)
    if not named:
        return None
    names = {"first": named[:1], "last": named[-1:], "path": named}[options.folder_class]
    # One name in two Unicode forms looks the same to everyone who reads it.
    return Labelled((unicodedata.normalize("NFC", "/".join(names)),), split=split)


def _name_some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")


def _say_no_labels(pictures: Sequence[str]) -> Finding:
    return Finding(
        "warning",
        "no labels",
        "",
        f"No label file was found, and no class folders: {len(pictures)} pictures have no label "
        f"({pictures[0]} is the first).",
        "Put the pictures into one folder per class, or add a label file.",
    )
