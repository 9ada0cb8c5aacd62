"""Which picture a label file belongs to: by the name that it gives, or by its own.

Knows names, folders and splits, and nothing of labels.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable
from pathlib import PurePosixPath

from enginehouse.files import Files, NotFound, has_picture_suffix, is_absolute
from enginehouse.formats._splits import split_of

LIBRARIES: tuple[str, ...] = ()

Nearness = tuple[bool, bool, int]


class Pairs:
    """The pictures of a data set, by name, for label files that look for theirs."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self._by_name: dict[str, list[str]] = {}
        self._by_stem: dict[str, list[str]] = {}
        for path in files.pictures:
            pure = PurePosixPath(path)
            self._by_name.setdefault(_fold(pure.name), []).append(path)
            self._by_stem.setdefault(_fold(pure.stem), []).append(path)
        self._splits = {split_of(path) for path in files.pictures}

    def namesakes(self, label_file: str) -> list[str]:
        """Pictures of the same stem: `a.jpg` for `a.txt`, and for `a.jpg.txt`."""
        stem = PurePosixPath(label_file).stem
        found = self._by_stem.get(_fold(stem), [])
        return found or (self._by_name.get(_fold(stem), []) if has_picture_suffix(stem) else [])

    def by_own_name(self, label_file: str) -> str | NotFound:
        """The picture that a label file belongs to by its own name and folder."""
        found = self._nearest(label_file, self.namesakes(label_file), split_of(label_file))
        stem = PurePosixPath(label_file).stem
        return found or NotFound("missing file", f"there is no picture named {stem!r} for it")

    def by_given_name(self, name: str, label_file: str, split: str) -> str | NotFound:
        """The picture that a label file gives the name of.

        Args:
            split: of the label file; it counts where pictures in several splits have that name.
        """
        found = self.files.find(name, beside=label_file)
        if isinstance(found, NotFound) and "\\" in name:
            name = name.replace("\\", "/")
            found = self.files.find(name, beside=label_file)
        if isinstance(found, NotFound):
            if found.reason != "ambiguous name":
                return found
            named = self._by_name.get(_fold(PurePosixPath(name).name), [])
            named = [path for path in named if _ends(path, name)] or named
            return self._nearest(label_file, named, split) or found
        is_bare = "/" not in name and "\\" not in name
        if is_bare and split in self._splits and split_of(found) not in ("", split):
            detail = f"{name!r} is not found among the pictures of {split}"
            return NotFound("missing file", detail)
        return found

    def _nearest(
        self, label_file: str, candidates: Iterable[str], split: str
    ) -> str | NotFound | None:
        """The one candidate nearest to a label file, if there are any of its split."""
        fitting = [p for p in candidates if not split or split_of(p) in ("", split)]
        if not fitting:
            return None
        marks = {path: measure_nearness(label_file, path) for path in fitting}
        best = max(marks.values())
        nearest = [path for path in fitting if marks[path] == best]
        if len(nearest) == 1:
            return nearest[0]
        stem, named = PurePosixPath(label_file).stem, ", ".join(nearest[:3])
        return NotFound("ambiguous name", f"{stem!r} may be any of {named}")


def measure_nearness(label_file: str, picture: str) -> Nearness:
    """How well the folder of a label file fits that of a picture; more is nearer.

    Best is the same folder, then one that differs in a single name (`labels/train` and
    `images/train`), then the one with most names of folders in common.
    """
    here, there = PurePosixPath(label_file).parts[:-1], PurePosixPath(picture).parts[:-1]
    differing = sum(one != other for one, other in zip(here, there, strict=False))
    common = Counter(map(str.lower, here)) & Counter(map(str.lower, there))
    return here == there, len(here) == len(there) and differing == 1, common.total()


def leaves_folder(name: str) -> bool:
    """Whether a written path climbs up, rather than beginning at another machine's root."""
    slashed = name.strip().removeprefix("file://").replace("\\", "/")
    return ".." in PurePosixPath(slashed).parts and not is_absolute(slashed)


def _fold(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


def _ends(path: str, name: str) -> bool:
    """Whether a path ends with a written one, by whole parts."""
    wanted = [_fold(part) for part in PurePosixPath(name).parts if part not in (".", "..")]
    return [_fold(part) for part in PurePosixPath(path).parts][-len(wanted) :] == wanted
