"""The files of a data set, and how a name in a label file finds one of them.

Knows names and bytes, and nothing of labels or pixels.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Literal
from urllib.parse import unquote

from enginehouse.errors import DataError

PICTURE_SUFFIXES = frozenset(
    {".avif", ".bmp", ".dib", ".gif", ".heic", ".heif", ".jfif", ".jp2", ".jpe", ".jpeg", ".jpg"}
    | {".mpo", ".pbm", ".pgm", ".png", ".pnm", ".ppm", ".tga", ".tif", ".tiff", ".webp"}
)
JUNK_FOLDERS = frozenset({"__macosx", "$recycle.bin", "system volume information", "@eadir"})
JUNK_NAMES = frozenset({"thumbs.db", "ehthumbs.db", "desktop.ini"})


@dataclass(frozen=True)
class NotFound:
    """Why a name in a label file leads to no picture.

    Attributes:
        reason: `missing file`, `ambiguous name` or `path outside the data`.
        detail: one sentence that names it.
    """

    reason: Literal["missing file", "ambiguous name", "path outside the data"]
    detail: str


@dataclass(frozen=True)
class Files:
    """The files of one data version.

    Attributes:
        folder: where they lie now.
        listing: relative POSIX path to MD5 (hex).
        empty_folders: relative paths of folders without any file below them.
        links: relative paths of linked folders, which are not followed.
        only: the one label file to look at, or "" for all.
    """

    folder: Path
    listing: Mapping[str, str]
    empty_folders: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    only: str = field(default="")

    @cached_property
    def junk(self) -> tuple[str, ...]:
        """What file managers, archivers and editors leave behind; sorted."""
        return tuple(path for path in sorted(self.listing) if is_junk(path))

    @cached_property
    def pictures(self) -> tuple[str, ...]:
        """Files with the suffix of a picture, junk left out; sorted."""
        junk = set(self.junk)
        return tuple(p for p in sorted(self.listing) if has_picture_suffix(p) and p not in junk)

    @cached_property
    def others(self) -> tuple[str, ...]:
        """What is neither junk nor a picture by its name (label files, notes, ...); sorted."""
        known = {*self.junk, *self.pictures}
        others = tuple(path for path in sorted(self.listing) if path not in known)
        return (self.only,) if self.only else others

    def read(self, path: str) -> bytes:
        """The content of a file.

        Raises:
            DataError: it is no longer what the data version says.
        """
        content = (self.folder / path).read_bytes()
        md5 = hashlib.md5(content, usedforsecurity=False).hexdigest()
        if md5 != self.listing[path]:
            raise DataError(
                f"{path} changed while the run was reading it (MD5 {md5}, the data version has "
                f"{self.listing[path]}).",
                "Run again when nothing writes into the data folder.",
            )
        return content

    def head(self, path: str, size: int = 65536) -> bytes:
        """The first bytes of a file, for a look at what it is."""
        with (self.folder / path).open("rb") as stream:
            return stream.read(size)

    def find(self, name: str, beside: str = "") -> str | NotFound:
        """The picture that a label file means by a name.

        Tried in this order, each only if it leads to exactly one picture: the path from the
        data folder, the path from the label file's folder, the longest end of a path, at least
        its name; whatever the letter case, Unicode form, and finally without suffix. Windows
        separators, `./`, `file://` and percent-encoding are understood.

        Args:
            name: as the label file spells it.
            beside: relative path of the label file.
        """
        spellings = _spell(name)
        home = PurePosixPath(beside).parent
        joined = [_join(start, s) for s in spellings for start in (PurePosixPath(), home)]
        for path in joined:
            if path in self._by_path:
                return self._by_path[path]
        outside = NotFound("path outside the data", f"{name!r} leads out of the data folder")
        if joined and all(path is None for path in joined):
            return outside
        # An absolute path is from another machine; its end may still be a picture's name here.
        for spelling in spellings:
            for index in self._indexes:
                found = index.get(_fold(PurePosixPath(spelling).name), ())
                common = [_measure_common_end(path, spelling) for path in found]
                matching = [p for p, n in zip(found, common, strict=True) if n == max(common)]
                if len(matching) == 1:
                    return matching[0]
                if matching:
                    named = ", ".join(matching[:3])
                    return NotFound("ambiguous name", f"{name!r} may be any of {named}")
        if any(is_absolute(spelling) for spelling in spellings):
            return outside
        return NotFound(
            "missing file", f"{name!r} is not found among {len(self.pictures)} pictures"
        )

    @cached_property
    def _by_path(self) -> dict[str, str]:
        return {unicodedata.normalize("NFC", path): path for path in self.pictures}

    @cached_property
    def _indexes(self) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
        """Pictures by folded name, and by folded name without suffix."""
        names: dict[str, list[str]] = {}
        stems: dict[str, list[str]] = {}
        for path in self.pictures:
            pure = PurePosixPath(path)
            names.setdefault(_fold(pure.name), []).append(path)
            stems.setdefault(_fold(pure.stem), []).append(path)
        return names, stems


def is_junk(path: str) -> bool:
    """Whether a relative path is hidden, or was left by a file manager or an archiver."""
    parts = [part.lower() for part in PurePosixPath(path).parts]
    hidden = any(part.startswith(".") or part in JUNK_FOLDERS for part in parts)
    return hidden or parts[-1] in JUNK_NAMES or parts[-1].startswith("~$")


def has_picture_suffix(path: str) -> bool:
    """Whether a name ends as pictures' names do, in upper or lower case."""
    return PurePosixPath(path).suffix.lower() in PICTURE_SUFFIXES


def _spell(name: str) -> list[str]:
    """The ways in which a written name can be meant, most literal first."""
    plain = unicodedata.normalize("NFC", name.strip().removeprefix("file://"))
    slashed = plain.replace("\\", "/")
    spellings = dict.fromkeys((plain, slashed, unquote(slashed)))
    return [s for s in spellings if PurePosixPath(s).name not in ("", "..")]


def is_absolute(name: str) -> bool:
    """Whether a written path begins at a root, of Linux or of a Windows drive."""
    return name.startswith("/") or name[1:3] == ":/"


def _join(start: PurePosixPath, name: str) -> str | None:
    """`start/name` without dots, or None if it leads out of the data folder."""
    if is_absolute(name):
        return ""
    parts: list[str] = list(start.parts)
    for part in PurePosixPath(name).parts:
        if part != "..":
            parts.append(part)
        elif not parts:
            return None
        else:
            parts.pop()
    return "/".join(parts)


def _fold(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


def _measure_common_end(path: str, name: str) -> int:
    """How many parts at the end of a path are those of a written one, the suffix aside."""
    wanted = [_fold(part) for part in PurePosixPath(name).with_suffix("").parts if part != ".."]
    have = [_fold(part) for part in PurePosixPath(path).with_suffix("").parts]
    count = 0
    while count < min(len(wanted), len(have)) and wanted[-1 - count] == have[-1 - count]:
        count += 1
    return count
