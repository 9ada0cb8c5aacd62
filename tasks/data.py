"""Data versions: which one a folder holds, and what to type when it holds none."""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from enginehouse.errors import DataError
from enginehouse.project import Project
from tasks._dvc import (
    Tracked,
    digest_listing,
    fetch,
    find_root,
    find_tracked,
    make_filter,
    recall_listing,
)
from tasks._hashes import hash_files, list_changes, list_files

__all__ = ["ResolvedData", "Status", "list_changes", "resolve_data"]

Status = Literal["clean", "modified", "unversioned"]
Say = Callable[[str], object]


class ResolvedData(BaseModel):
    """A data version, and where it lies.

    Attributes:
        digest: MD5 (hex) that DVC gives, or would give, the folder.
        folder: absolute.
        status: `clean` is as in the .dvc file, `modified` differs from it, `unversioned` has none.
        listing: relative POSIX path to MD5, sorted by path.
        dvc_file: name of the .dvc file that covers the folder, or None.
        hint: what differs, and what to type to make it a version; empty if it is one.
    """

    model_config = ConfigDict(frozen=True)

    digest: str
    folder: Path
    status: Status
    listing: dict[str, str]
    dvc_file: str | None
    hint: str


def resolve_data(project: Project, path: str, report: Say) -> ResolvedData:
    """Find out which data version a folder holds now; fetch it if it is not there.

    Args:
        project: relative paths start at its root; its state folder remembers MD5s.
        path: the folder.
        report: gets a line when files are fetched or left out, or when much must be read.

    Raises:
        DataError: no such folder, no files in it, a .dvc file or object that cannot be used, or
            the fetching failed.
    """
    folder = Path(os.path.normpath(project.root / Path(path).expanduser()))
    tracked = find_tracked(folder)
    if tracked is None:
        if not folder.exists():
            raise DataError(f"There is no folder {folder}.", "Check the path of the data.")
        return _describe(project, folder, None, report)
    name = hashlib.md5(os.fsencode(folder)).hexdigest()
    mark = project.state / "hashes" / f"{name}.fetching"
    if folder.exists() and not mark.exists():
        return _describe(project, folder, tracked, report)
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.touch()  # outlives a killed fetch: half a folder is no version
    fetch(tracked, folder, report)
    resolved = _describe(project, folder, tracked, report)
    if resolved.status != "clean":
        raise DataError(
            f"What dvc pull brought into {folder} is not what {tracked.file.name} says: "
            f"{resolved.hint.partition(';')[0]}. An object of the cache or the remote is corrupt.",
            f"Remove both and run again: rm -rf {shlex.quote(str(folder))} "
            f"{shlex.quote(str(tracked.root / '.dvc' / 'cache'))}",
        )
    mark.unlink(missing_ok=True)
    return resolved


def _describe(project: Project, folder: Path, tracked: Tracked | None, report: Say) -> ResolvedData:
    if not folder.is_dir():
        raise DataError(f"{folder} is a file.", "Name the folder that holds the class folders.")
    listing = _read(project, folder, report)
    if not listing:
        raise DataError(f"There are no files in {folder}.", "Put the pictures there.")
    digest = digest_listing(listing)
    status: Status = "unversioned"
    changes = ""
    if tracked is not None:
        recorded = recall_listing(tracked, folder)
        if folder == tracked.out:
            clean = digest == tracked.md5
        elif recorded is not None:
            clean = digest == digest_listing(recorded)
        else:  # without DVC's listing, only the whole can be compared
            clean = digest_listing(_read(project, tracked.out, report)) == tracked.md5
        status = "clean" if clean else "modified"
        changes = "" if recorded is None else list_changes(recorded, listing)
    return ResolvedData(
        digest=digest,
        folder=folder,
        status=status,
        listing=listing,
        dvc_file=tracked.file.name if tracked else None,
        hint="" if status == "clean" else _advise(project, folder, tracked, changes),
    )


def _read(project: Project, folder: Path, report: Say) -> dict[str, str]:
    files, links = list_files(folder, make_filter(folder, project.root))
    if links:
        report(f"data: linked folders are not followed: {', '.join(links[:5])}")
    return hash_files(folder, files, project.state / "hashes", report)


def _advise(project: Project, folder: Path, tracked: Tracked | None, changes: str) -> str:
    """What differs, and the exact commands that make a version of what is there."""
    if tracked is not None:
        what = f"{tracked.file.name} says otherwise: {changes or 'some file differs'}"
        return f"{what}; to make it a version: {_add(project, tracked.root, tracked.out)}"
    root = find_root(folder)
    if root is not None and root != folder:
        return f"to make it a version: {_add(project, root, folder)}"
    first = "" if (project.root / ".dvc").is_dir() else "dvc init && "
    if not folder.is_relative_to(project.root):
        home = project.root / "data" / folder.name
        covering = find_tracked(home)
        first = f"mkdir -p data && cp -r {shlex.quote(str(folder))} data/ && {first}"
        folder = covering.out if covering else home
    return f"to make it a version: {first}{_add(project, project.root, folder)}"


def _add(project: Project, root: Path, folder: Path) -> str:
    enter = "" if root == project.root else f"cd {shlex.quote(str(root))} && "
    return f"{enter}dvc add {shlex.quote(folder.relative_to(root).as_posix())}"
