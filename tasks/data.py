"""Data versions: which one a folder holds, and what to type when it holds none."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from enginehouse.errors import DataError
from enginehouse.project import Project
from tasks._add import Versioned, add_version, open_version, push_version
from tasks._compare import list_data
from tasks._dvc import find_tracked, is_repository
from tasks._dvc_program import tell_no_room
from tasks._fetch import bring
from tasks._hashes import list_changes
from tasks._source import resolve_outs
from tasks._version import MODIFIED, ResolvedData, Status, describe_version

__all__ = [
    "ResolvedData",
    "Status",
    "Versioned",
    "add_version",
    "list_changes",
    "list_data",
    "open_version",
    "push_version",
    "resolve_data",
    "resolve_source",
    "tell_no_room",
]

Say = Callable[[str], object]


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
    if tracked is not None:
        bring(project, tracked, folder, report)
    elif not folder.exists():
        raise DataError(f"There is no folder {folder}.", "Check the path of the data.")
    resolved = describe_version(project, folder, tracked, report)
    files: dict[str, list[str]] = {}
    for finding in resolved.findings:
        if finding.reason != MODIFIED:  # the hint says that
            files.setdefault(finding.reason, []).append(finding.file)
    for reason, named in files.items():
        more = f" and {len(named) - 5} more" if len(named) > 5 else ""
        report(f"data: {reason}: {', '.join(named[:5])}{more}")
    return resolved


def resolve_source(project: Project, source: Path, report: Say) -> ResolvedData:
    """What a folder to be checked holds: any folder, a DVC repository, or one .dvc file.

    What the .dvc files in it name is fetched where it is not there, and compared. A difference
    is a finding of severity error: the version in the .dvc file is not what was checked.

    Args:
        project: its state folder remembers MD5s.
        source: relative paths start at the working directory.
        report: gets a line when files are fetched or when much must be read.

    Raises:
        DataError: as in `resolve_data`; or a .dvc file names something outside the folder.
    """
    source = Path(os.path.normpath(source.expanduser().absolute()))
    if source.is_file():
        if source.suffix != ".dvc":
            raise DataError(f"{source} is a file.", "Name the folder that it lies in.")
        return resolve_outs(project, source.parent, [source], report)
    if not source.is_dir():
        return resolve_data(project, str(source), report)
    files = [source / path for path in list_data(project, source).files if path.endswith(".dvc")]
    if files or is_repository(source):
        return resolve_outs(project, source, files, report)
    return describe_version(project, source, find_tracked(source), report)
