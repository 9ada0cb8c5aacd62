"""The files of a folder as DVC sees them, and whether they are what a .dvc file says."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from enginehouse.labels import Finding
from enginehouse.project import Project
from enginehouse.store import hash_file
from tasks._dvc import (
    Tracked,
    digest_listing,
    is_repository,
    make_filter,
    recall_listing,
)
from tasks._hashes import hash_files, list_changes
from tasks._listing import Listed, list_files

Say = Callable[[str], object]


@dataclass(frozen=True)
class Comparison:
    """A folder or file against its .dvc file.

    Attributes:
        listing: what it holds, relative POSIX path to MD5; of a file, its name to its MD5.
        changes: what differs, as far as that can be told.
    """

    listing: dict[str, str]
    clean: bool
    changes: str


def list_data(project: Project, folder: Path) -> Listed:
    """The files of a folder that DVC would track, by name."""
    ignored = make_filter(folder, project.root)
    repositories: list[Finding] = []

    def leave_out(path: str) -> bool:
        if ignored(path):
            return True
        if path.endswith("/") and is_repository(folder / path):
            repositories.append(_leave_out_repository(path.rstrip("/")))
            return True
        return False

    listed = list_files(folder, leave_out)
    findings = (*listed.findings, *repositories)
    return dataclasses.replace(listed, findings=findings)


def compare(
    project: Project, folder: Path, tracked: Tracked, listing: dict[str, str], report: Say
) -> Comparison:
    """Whether a folder of a version, or the file that it names, is as the .dvc file says."""
    if not tracked.is_folder:
        now = listing.get(folder.name, "")
        clean = tracked.md5 in (now, hash_legacy(folder) if tracked.legacy and now else now)
        return Comparison(listing, clean, "" if clean else f"1 changed ({folder.name})")
    recorded = recall_listing(tracked, folder)
    same = _as_recorded(tracked, folder, listing, recorded)
    if folder == tracked.out:
        clean = digest_listing(same) == tracked.md5
    elif recorded is not None:
        clean = same == recorded
    else:  # without DVC's listing, only the whole can be compared
        whole = read_listing(project, tracked.out, report)
        clean = digest_listing(_as_recorded(tracked, tracked.out, whole, None)) == tracked.md5
    return Comparison(listing, clean, "" if recorded is None else list_changes(recorded, same))


def read_listing(project: Project, place: Path, report: Say) -> dict[str, str]:
    """Relative POSIX path to MD5 of the files of a folder; of a file, its name to its MD5."""
    if place.is_dir():
        return _hash(project, place, list_data(project, place).files, report)
    return {place.name: hash_file(place, "md5")}


def hash_legacy(file: Path) -> str:
    """The MD5 that DVC 2 gives a file: of text, with the line ends of Unix."""
    from dvc_data.hashfile.hash import file_md5

    return str(file_md5(str(file), name="md5-dos2unix"))


def _hash(project: Project, folder: Path, files: list[str], report: Say) -> dict[str, str]:
    return hash_files(folder, files, project.state / "hashes", report)


def _as_recorded(
    tracked: Tracked, folder: Path, listing: dict[str, str], recorded: dict[str, str] | None
) -> dict[str, str]:
    """A listing with the MD5s that DVC 2 would give, where the version is of DVC 2."""
    if not tracked.legacy or (folder == tracked.out and digest_listing(listing) == tracked.md5):
        return listing
    known = recorded or {}
    return {
        path: md5 if known.get(path) == md5 else hash_legacy(folder / path)
        for path, md5 in listing.items()
    }


def _leave_out_repository(path: str) -> Finding:
    return Finding(
        "warning",
        "repository in the data",
        path,
        f"{path} is left out: it is a DVC repository of its own.",
        "Check it by itself, or remove its folder .dvc if its files belong to this data.",
    )
