"""What can be wrong with class folders: empty, misnamed, in another order than a list of names."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from enginehouse.files import Files, is_junk
from enginehouse.formats._class_names import find_class_names, read_class_names
from enginehouse.formats._folders import Folder, Layout, name_split
from enginehouse.labels import Finding

LIBRARIES: tuple[str, ...] = ()


def check_folders(
    files: Files, layout: Layout, counts: Mapping[Folder, int], classes: Sequence[str]
) -> list[Finding]:
    """All that there is to say of class folders.

    Args:
        counts: pictures in each folder itself.
        classes: labels in index order.
    """
    return [
        *_find_strange_splits(layout),
        *_find_empty(files, layout, counts),
        *_find_alike(layout.classes),
        *_compare_names(files, classes),
    ]


def _find_strange_splits(layout: Layout) -> Iterator[Finding]:
    """Split folders beside other folders with pictures: both cannot be classes."""
    splits = [name for name in layout.classes if name_split(name)]
    others = [name for name in layout.classes if not name_split(name)]
    if len(splits) > 1 and others and not layout.splits:
        yield Finding(
            "error",
            "split folders beside others",
            others[0],
            f"{', '.join(splits)} look like splits with class folders in them, but "
            f"{', '.join(others[:5])} beside them hold pictures, too; all would become classes.",
            "Move the other folders elsewhere, or name the data folder that holds the classes.",
        )


def _find_empty(files: Files, layout: Layout, counts: Mapping[Folder, int]) -> Iterator[Finding]:
    """Folders without pictures where class or split folders stand."""
    full = {folder[:length] for folder in counts for length in range(len(folder) + 1)}
    empty = {PurePosixPath(path).parts for path in files.empty_folders}
    for folder in sorted({*empty, *_list_junk_only(files)} - full):
        path = "/".join(folder)
        if is_junk(path) or folder[:-1] not in {*full, layout.root}:
            continue
        if layout.splits and folder[:-1] == layout.root and name_split(folder[-1]):
            detail = f"The split folder {path} is empty: 0 images."
            yield Finding("warning", "empty split folder", path, detail, "Fill or remove it.")
        elif _stands_among_classes(layout, folder):
            detail = f"The class folder {path} is empty: 0 images."
            remedy = f"Put pictures into {path}, or remove the folder."
            yield Finding("error", "empty class folder", path, detail, remedy)


def _stands_among_classes(layout: Layout, folder: Folder) -> bool:
    if layout.splits and not layout.split_of(folder):
        return False
    return len(layout.below(folder)) == 1


def _list_junk_only(files: Files) -> set[Folder]:
    """Folders in which there is nothing but what file managers leave behind."""
    if not files.junk:
        return set()
    junk = set(files.junk)
    used = {path.rpartition("/")[0] for path in files.listing if path not in junk}
    left = {path.rpartition("/")[0] for path in junk} - used
    parents = {(f"{path}/")[: at + 1] for path in used for at, c in enumerate(path) if c == "/"}
    return {PurePosixPath(path).parts for path in left if path and f"{path}/" not in parents}


def _find_alike(names: Iterable[str]) -> Iterator[Finding]:
    """Folders whose names differ only in what is hard to see."""
    same: dict[str, list[str]] = {}
    for name in names:
        plain = unicodedata.normalize("NFKC", name).casefold()
        same.setdefault(" ".join(plain.split()), []).append(name)
    for group in same.values():
        if len(group) > 1:
            yield Finding(
                "warning",
                "class names alike",
                group[0],
                f"The class folders {' and '.join(map(repr, group))} differ only in letter case, "
                "spaces or Unicode form; most likely they are one class.",
                "Merge the folders, or give them names that differ.",
            )


def _compare_names(files: Files, classes: Sequence[str]) -> Iterator[Finding]:
    """Lists of class names that say something else than the folders do."""
    for path in find_class_names(files):
        names, findings = read_class_names(files, path)
        yield from findings
        if set(names) & set(classes) and len(set(names)) == len(names):
            yield from _compare_list(path, names, classes)
        elif names and not findings:
            yield Finding(
                "warning",
                "class names differ",
                path,
                f"{path} lists {', '.join(names[:5])}; the folders are {', '.join(classes[:5])}.",
                "Remove the list if it belongs to other data.",
            )


def _compare_list(path: str, names: Sequence[str], classes: Sequence[str]) -> Iterator[Finding]:
    remedy = f"Set ingest.labels.classes to {list(names)!r}, or correct {path}."
    unknown = [name for name in classes if name not in names]
    if unknown:
        yield Finding(
            "error",
            "class names differ",
            path,
            f"{path} does not list {', '.join(unknown)}, which is a class by its folder.",
            f"Add it to {path}, or remove the folder.",
        )
    pairs = [(names.index(name), index) for index, name in enumerate(classes) if name in names]
    wrong = [pair for pair in pairs if pair[0] != pair[1]]
    if wrong and not unknown:
        theirs, ours = wrong[0]
        yield Finding(
            "error",
            "order mismatch",
            path,
            f"The order of classes in {path} is another than that of the folders: index {ours} is "
            f"{names[ours]!r} there and {classes[ours]!r} here; {classes[ours]!r} is {theirs} "
            "there. Whoever serves by that list would name the wrong class.",
            remedy,
        )
    missing = [name for name in names if name not in classes]
    if missing and not wrong:
        yield Finding(
            "warning",
            "class names differ",
            path,
            f"{path} lists {', '.join(missing)}, of which there is no folder: 0 images.",
            remedy,
        )
