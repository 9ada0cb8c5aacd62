"""What lies in a data folder beside the pictures and labels that are used."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import PurePosixPath

from enginehouse.files import Files, has_picture_suffix, is_junk
from enginehouse.labels import Finding, LeftOut
from enginehouse.signs import HEAD, name_format

EXAMPLES = 5
ARCHIVES = (".zip", ".tar", ".tgz", ".gz", ".bz2", ".xz", ".7z", ".rar")
_SURROGATE = re.compile("[\ud800-\udfff]")  # how Python shows a byte of a name that is not UTF-8


def take_out_odd_names(listing: Mapping[str, str]) -> tuple[Mapping[str, str], list[LeftOut]]:
    """The files whose names are Unicode, and the others: no table can hold their names."""
    odd = {path for path in listing if not path.isascii() and _SURROGATE.search(path)}
    if not odd:
        return listing, []
    left_out = []
    for path in sorted(odd):
        shown = show_name(path)
        detail = f"The name of {shown} is not UTF-8; rename the file (convmv does it for many)."
        left_out.append(LeftOut(shown, "name is not Unicode", detail))
    return {path: md5 for path, md5 in listing.items() if path not in odd}, left_out


def show_name(path: str) -> str:
    """A path in Unicode; of a name that is not UTF-8, the wrong bytes as `\\xe9`."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def list_junk(files: Files) -> Iterator[LeftOut]:
    """What nobody meant to be data."""
    for path in files.junk:
        yield LeftOut(path, "junk", f"{path} is hidden, or a file manager or archiver left it.")


def look_around(files: Files, known: Collection[str]) -> list[Finding]:
    """What a person should know of the rest of the folder.

    Args:
        known: files that were read, or of which something was said.
    """
    findings = [*_find_hidden_pictures(files), *_find_links(files)]
    if files.only:
        return findings
    rest = [path for path in files.others if path not in known]
    nameless = {path: kind for path in rest if (kind := _sniff(files, path))}
    for path, kind in nameless.items():
        detail = f"{path} holds a {kind} picture, but its name does not end as pictures' names do; "
        remedy = f"Rename it to {path}.{kind.lower()}, or move it elsewhere."
        reason = "picture without a picture's name"
        findings.append(Finding("warning", reason, path, f"{detail}it is not used.", remedy))
    packed = [path for path in rest if path.lower().endswith(ARCHIVES)]
    for path in packed:
        detail = f"{path} is an archive; what is in it is not used."
        remedy = "Unpack it, if it belongs to the data."
        findings.append(Finding("warning", "archive", path, detail, remedy))
    unused = [path for path in rest if path not in nameless and path not in packed]
    if unused:
        named = ", ".join(unused[:EXAMPLES]) + (", ..." if len(unused) > EXAMPLES else "")
        detail = f"{len(unused)} files are neither pictures nor labels that were read: {named}."
        findings.append(Finding("info", "other files", unused[0], detail))
    return findings


def _find_hidden_pictures(files: Files) -> Iterator[Finding]:
    """Pictures in hidden folders: copies of an editor most often, but who knows."""
    counts: Counter[str] = Counter()
    for path in files.junk:
        pure = PurePosixPath(path)
        inner = [p for p in reversed(pure.parents) if p.name and is_junk(f"{p.as_posix()}/x")]
        if inner and has_picture_suffix(path) and not pure.name.startswith("._"):
            counts[inner[0].as_posix()] += 1
    for folder, count in counts.items():
        detail = f"{count} pictures in {folder} are ignored: such folders are made by programs."
        remedy = "Remove the folder; or give it another name, if its pictures are meant."
        yield Finding("warning", "hidden folder", folder, detail, remedy)


def _find_links(files: Files) -> Iterator[Finding]:
    for path in files.links:
        detail = f"{path} is a link to a folder; it is not followed, so that no file counts twice."
        remedy = "Put the folder itself there, if its pictures are meant."
        yield Finding("warning", "linked folder", path, detail, remedy)


def _sniff(files: Files, path: str) -> str:
    try:
        size = (files.folder / path).stat().st_size
        return name_format(files.head(path, HEAD), size)
    except OSError:
        return ""  # whatever it is, nobody asked for it
