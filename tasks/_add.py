"""Make a data version: what DVC has of a folder now, `dvc add`, and `dvc push`."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from enginehouse.errors import DataError
from enginehouse.project import Project
from tasks._compare import compare, list_data, read_listing
from tasks._dvc import find_tracked, is_repository, recall_listing
from tasks._dvc_program import find_remote, run_dvc, say_error
from tasks._fetch import bring

Say = Callable[[str], object]
UNTRACKABLE = {"broken link", "name is not UTF-8", "no regular file"}  # DVC fails, or hangs
OWN_REMOTE = "dvc remote add --default --force storage BUCKET_OR_FOLDER"


@dataclass(frozen=True)
class Versioned:
    """The folder that becomes a version as a whole, of which the data set is a part.

    Attributes:
        out: the folder.
        file: its .dvc file, which need not exist.
        digest: of its version in the .dvc file; "" if it has none yet.
        listing: what it holds now, path to MD5.
        changed: paths that are new or of other content since that version, to their MD5; None if
            something differs and DVC's listing is not here to tell what.
        gone: paths that were in that version.
    """

    out: Path
    file: Path
    digest: str
    listing: dict[str, str]
    changed: dict[str, str] | None
    gone: tuple[str, ...]


def open_version(project: Project, target: Path, report: Say) -> Versioned:
    """What DVC has of the folder that a data set lies in; fetched if it is not here.

    Args:
        target: the folder of the data set, in the project's `data/`; it need not exist.

    Raises:
        DataError: no DVC repository, or the version cannot be brought here.
    """
    if not is_repository(project.root):
        raise DataError(f"{project.root} is no DVC repository.", "Make it one: dvc init")
    tracked = find_tracked(target)
    if tracked is None:
        home = project.root / "data"
        out = target if any(home.glob("*.dvc")) else home
        listing = read_listing(project, out, report) if out.is_dir() else {}
        return Versioned(out, out.with_name(f"{out.name}.dvc"), "", listing, listing, ())
    bring(project, tracked, tracked.out, report)
    listing = read_listing(project, tracked.out, report)
    recorded = recall_listing(tracked, tracked.out)
    changed: dict[str, str] | None = {}
    gone: tuple[str, ...] = ()
    if not compare(project, tracked.out, tracked, listing, report).clean:
        changed = None
        if recorded is not None:
            changed = {path: md5 for path, md5 in listing.items() if recorded.get(path) != md5}
            gone = tuple(path for path in recorded if path not in listing)
    return Versioned(tracked.out, tracked.file, tracked.md5, listing, changed, gone)


def add_version(project: Project, out: Path, report: Say) -> tuple[Path, str]:
    """`dvc add`; returns the .dvc file and the version's digest.

    Raises:
        DataError: the folder holds what DVC cannot track, the disk is full, or DVC failed.
    """
    stuck = [f for f in list_data(project, out).findings if f.reason in UNTRACKABLE]
    if stuck:
        raise DataError(
            f"DVC cannot make a version of {out}: {stuck[0].detail}"
            + (f" {len(stuck) - 1} more are like it." if len(stuck) > 1 else ""),
            stuck[0].remedy,
        )
    name = out.relative_to(project.root).as_posix()
    report(f"data: dvc add {name}")
    done = run_dvc(project.root, ["add", name], report)
    tracked = find_tracked(out) if done.returncode == 0 else None
    if tracked is None:
        raise DataError(
            f"dvc add {name} failed: {say_error(done.stdout + done.stderr)}",
            "Mend that and run again: the files are in place, and it goes on from there.",
        )
    if not compare(project, out, tracked, read_listing(project, out, report), report).clean:
        raise DataError(
            f"{out} is not what {tracked.file.name} says, right after dvc add.",
            "Run again when nothing else writes into it.",
        )
    return tracked.file, tracked.md5


def push_version(project: Project, file: Path, report: Say) -> str:
    """`dvc push`; returns why the version is on this machine only, or "" if it is not."""
    remote = find_remote(project.root)
    if remote is None:
        return (
            "no remote of your own is set; the one inside the repository holds the sample only, "
            f"and refuses other data. Name one, then run again: {OWN_REMOTE}"
        )
    report(f"data: dvc push to {remote}")
    done = run_dvc(project.root, ["push", str(file)], report)
    if done.returncode == 0:
        return ""
    again = f"dvc push {shlex.quote(file.name)}"
    return f"dvc push failed: {say_error(done.stdout + done.stderr)} Mend that, then: {again}"
