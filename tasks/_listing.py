"""The files of a folder by name, and what about their names and kinds a person should know.

Knows nothing of DVC, and reads no file.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from enginehouse.errors import DataError
from enginehouse.files import is_junk
from enginehouse.labels import Finding


@dataclass(frozen=True)
class Listed:
    """What lies in a folder; all paths are relative and POSIX, all sorted.

    Attributes:
        files: regular files, and links to such.
        empty_folders: folders without any file below them, junk aside.
        links: linked folders, which are not followed.
        findings: links, names and kinds that are left out or look alike.
        ignored: what .dvcignore leaves out; folders end in `/`.
    """

    files: list[str]
    empty_folders: tuple[str, ...]
    links: tuple[str, ...]
    findings: tuple[Finding, ...]
    ignored: tuple[str, ...] = ()


@dataclass
class _Found:
    files: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)


def list_files(folder: Path, ignored: Callable[[str], bool]) -> Listed:
    """List a folder.

    Args:
        ignored: a test on relative paths, those of folders end in `/`; such are not mentioned.

    Raises:
        DataError: a folder in it cannot be read.
    """
    found = _Found()
    pending = [""]
    while pending:
        prefix = pending.pop()
        try:
            with os.scandir(folder / prefix) as entries:
                pending += [p for entry in entries if (p := _take(entry, prefix, ignored, found))]
        except OSError as error:
            found.unreadable.append(f"{prefix or folder} ({error.strerror})")
    if found.unreadable:
        named = ", ".join(sorted(found.unreadable)[:3])
        raise DataError(
            f"{len(found.unreadable)} folders of {folder} cannot be read: {named}.",
            "Give this user the right to read them, or remove them.",
        )
    found.findings += _find_twins([*found.files, *found.folders])
    return Listed(
        sorted(found.files),
        tuple(sorted(_find_empty(found))),
        tuple(sorted(found.links)),
        tuple(sorted(found.findings, key=lambda finding: (finding.reason, finding.file))),
        tuple(sorted(found.ignored)),
    )


def _take(
    entry: os.DirEntry[str], prefix: str, ignored: Callable[[str], bool], found: _Found
) -> str | None:
    """Note one entry of a folder; returns its path with a `/` if it is to be walked into."""
    path = prefix + entry.name
    if not _is_text(entry.name):
        found.findings.append(_leave_out_name(path))
        return None
    is_folder = Path(entry.path).is_dir()
    if ignored(f"{path}/" if is_folder else path):
        found.ignored.append(f"{path}/" if is_folder else path)
    elif is_folder and not entry.is_symlink():
        found.folders.append(path)
        return f"{path}/"
    elif is_folder:
        found.links.append(path)
        found.findings.append(_leave_out_link(path, Path(entry.path)))
    elif not Path(entry.path).is_file():
        found.findings.append(_leave_out_kind(path, Path(entry.path)))
    else:
        found.files.append(path)
        found.findings += _question_name(path)
    return None


def _is_text(name: str) -> bool:
    """Whether a name is valid in the file system's encoding; bytes that are not are surrogates."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _leave_out_name(path: str) -> Finding:
    shown = os.fsencode(path).decode(errors="backslashreplace")
    return Finding(
        "warning",
        "name is not UTF-8",
        shown,
        f"{shown} is left out: its name is not valid UTF-8, so no label file can name it.",
        "Rename it: convmv -f gb18030 -t utf-8 --notest (or the encoding it was packed with).",
    )


def _leave_out_link(path: str, target: Path) -> Finding:
    return Finding(
        "warning",
        "linked folder",
        path,
        f"{path} is a link to a folder ({target.readlink()}) and is not followed: it could lead "
        "round in a loop, or count pictures twice.",
        "Copy its files to this place, if they belong to the data.",
    )


def _leave_out_kind(path: str, place: Path) -> Finding:
    if place.is_symlink():
        return Finding(
            "warning",
            "broken link",
            path,
            f"{path} is left out: it is a link to {place.readlink()}, where there is no file.",
            "Put the file there, or remove the link.",
        )
    return Finding(
        "warning",
        "no regular file",
        path,
        f"{path} is left out: it is a pipe, socket or device.",
        "Remove it: it would hang whatever reads it.",
    )


def _question_name(path: str) -> Iterator[Finding]:
    name = PurePosixPath(path).name
    if not name.isprintable() and any(unicodedata.category(sign) == "Cc" for sign in name):
        yield Finding(
            "warning",
            "control character in name",
            path,
            f"The name {name!r} holds a line break or another control character: lists of "
            "paths, one a line, cannot name it.",
            "Rename it.",
        )


def _find_twins(paths: Iterable[str]) -> Iterator[Finding]:
    """Names that are the same text in another Unicode form, which people cannot tell apart."""
    homes: dict[str, list[str]] = {}
    for path in paths:
        if not path.isascii():
            homes.setdefault(unicodedata.normalize("NFC", path), []).append(path)
    for plain, twins in homes.items():
        if len(twins) > 1:
            spelled = " and ".join(ascii(path) for path in sorted(twins))
            yield Finding(
                "warning",
                "same name in two Unicode forms",
                plain,
                f"{plain} is there {len(twins)} times, in different Unicode forms: {spelled}. "
                "Label files cannot tell which is meant.",
                "Keep one of them, or rename one.",
            )


def _find_empty(found: _Found) -> Iterator[str]:
    full = {path.rpartition("/")[0] for path in found.files if not is_junk(path)}
    for path in list(full):
        full.update(str(parent) for parent in PurePosixPath(path).parents)
    yield from (path for path in found.folders if path not in full and not is_junk(path))
