"""New files for a data set: which are new, which are there already, which are in the way.

Knows listings (relative POSIX path to digest), and nothing of disks or labels.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from enginehouse.files import has_picture_suffix, is_junk


@dataclass(frozen=True)
class Merge:
    """What becomes of each new file; all paths as the new files have them, sorted.

    Attributes:
        added: to be copied.
        replaced: to be copied over a file of other content.
        same: there already, path and content.
        repeats: pictures whose content is there already, to that picture.
        clashes: in the way of what is there, to the reason.
        junk: hidden files, and what file managers leave behind.
    """

    added: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    same: tuple[str, ...] = ()
    repeats: Mapping[str, str] | None = None
    clashes: Mapping[str, str] | None = None
    junk: tuple[str, ...] = ()


def plan_merge(new: Mapping[str, str], old: Mapping[str, str], *, replace: bool) -> Merge:
    """Decide on every new file.

    A repeat is left out only if the other picture lies in the same folder and no label file comes
    with the new ones: else it may bear another label or split, or a row names it, and that is for
    the check of the whole to judge.

    Args:
        new: the files to add.
        old: the files that are there.
        replace: whether other content at the same path is replaced instead of in the way.
    """
    kinds: dict[str, list[str]] = {"added": [], "replaced": [], "same": [], "junk": []}
    repeats: dict[str, str] = {}
    clashes: dict[str, str] = {}
    labelled = any(not has_picture_suffix(path) and not is_junk(path) for path in new)
    homes = {} if labelled else {(_folder(path), digest): path for path, digest in old.items()}
    spelled = {unicodedata.normalize("NFC", path): path for path in old}
    folders = {str(parent) for path in old for parent in PurePosixPath(path).parents}
    for path in sorted(new):
        twin = spelled.get(unicodedata.normalize("NFC", path))
        above = [str(p) for p in PurePosixPath(path).parents if str(p) in old]
        if is_junk(path):
            kinds["junk"].append(path)
        elif path in old and new[path] != old[path]:
            if replace:
                kinds["replaced"].append(path)
            else:
                clashes[path] = "is there with other content"
        elif path in old:
            kinds["same"].append(path)
        elif path in folders or above:
            clashes[path] = "would be a file where there is a folder, or the other way round"
        elif twin is not None:
            clashes[path] = f"is there as {twin!a}, the same name in another Unicode form"
        elif has_picture_suffix(path) and (_folder(path), new[path]) in homes:
            repeats[path] = homes[_folder(path), new[path]]
        else:
            kinds["added"].append(path)
    named = {kind: tuple(paths) for kind, paths in kinds.items()}
    return Merge(**named, repeats=repeats, clashes=clashes)


def _folder(path: str) -> str:
    return str(PurePosixPath(path).parent)
