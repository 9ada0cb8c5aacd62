"""What a folder holds now, against what its .dvc file says of it. Fetches and changes nothing."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from enginehouse.errors import DataError
from enginehouse.ingest.record import DataVersion
from enginehouse.labels import Finding
from enginehouse.project import Project
from tasks._compare import Comparison, compare, list_data
from tasks._dvc import (
    SAMPLE_REMOTE,
    Tracked,
    digest_listing,
    find_root,
    find_tracked,
    is_repository,
)
from tasks._hashes import hash_files

MODIFIED = "data modified"  # the reason of such a finding
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
        empty_folders: relative paths of folders without any file below them.
        links: relative paths of linked folders, which are not followed.
        findings: what else a person should know of the folder, its names and its version.
        ignored: relative paths of what .dvcignore leaves out; folders end in `/`.
    """

    model_config = ConfigDict(frozen=True)

    digest: str
    folder: Path
    status: Status
    listing: dict[str, str]
    dvc_file: str | None
    hint: str
    empty_folders: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    ignored: tuple[str, ...] = ()

    @property
    def version(self) -> DataVersion:
        """What stages take of it."""
        return DataVersion(digest=self.digest, empty_folders=self.empty_folders, links=self.links)


def describe_version(
    project: Project, folder: Path, tracked: Tracked | None, report: Say
) -> ResolvedData:
    """What a folder holds now.

    Args:
        tracked: what covers the folder; None if nothing does.

    Raises:
        DataError: no folder, no files in it, or one that cannot be read.
    """
    if not folder.is_dir():
        raise DataError(f"{folder} is a file.", "Name the folder that holds the class folders.")
    listed = list_data(project, folder)
    listing = hash_files(folder, listed.files, project.state / "hashes", report)
    if not listing:
        raise DataError(
            f"There are no files in {folder}."
            + "".join(f" {finding.detail}" for finding in listed.findings[:3]),
            "Put the pictures there.",
        )
    status: Status = "unversioned"
    hint = ""
    findings = [*listed.findings]
    if tracked is None:
        hint = advise(project, folder, None, "")
    else:
        compared = compare(project, folder, tracked, listing, report)
        status = "clean" if compared.clean else "modified"
        if not compared.clean:
            hint = advise(project, folder, tracked, compared.changes)
        findings += question_version(tracked, folder, compared, hint)
    return ResolvedData(
        digest=digest_listing(listing),
        folder=folder,
        status=status,
        listing=listing,
        dvc_file=tracked.file.name if tracked else None,
        hint=hint,
        empty_folders=listed.empty_folders,
        links=listed.links,
        findings=tuple(findings),
        ignored=listed.ignored,
    )


def question_version(
    tracked: Tracked, folder: Path, compared: Comparison, hint: str
) -> list[Finding]:
    """What a person should know of a .dvc file."""
    findings = []
    name = tracked.file.name
    if not compared.clean:
        what, _, remedy = hint.rpartition("; ")
        findings.append(Finding("warning", MODIFIED, name, f"{what}.", remedy))
    if tracked.legacy and not _is_embedded(tracked):
        detail = (
            f"{name} is of DVC 2 (no `hash: md5`): its MD5s of text files are those with the line "
            "ends of Unix (md5-dos2unix). It was compared in that way."
        )
        remedy = "To bring the repository to DVC 3: dvc cache migrate --dvc-files"
        findings.append(Finding("warning", "legacy hash", name, detail, remedy))
    if (
        compared.clean
        and folder == tracked.out
        and (wrong := _find_wrong_counts(tracked, compared))
    ):
        detail = (
            f"{name} has the right md5 but other counts than the data ({wrong}): it was edited or "
            "merged by hand."
        )
        remedy = f"Write it anew: dvc commit -f {shlex.quote(name)}"
        findings.append(Finding("warning", "dvc metadata", name, detail, remedy))
    return findings


def _find_wrong_counts(tracked: Tracked, compared: Comparison) -> str:
    home = tracked.out if tracked.is_folder else tracked.out.parent
    sizes = [(home / path).stat().st_size for path in compared.listing]
    holds = {"nfiles": len(sizes), "size": sum(sizes)}
    wrong = [name for name in tracked.claimed if tracked.claimed[name] != holds[name]]
    return ", ".join(f"{name} {tracked.claimed[name]} for {holds[name]}" for name in wrong)


def advise(project: Project, folder: Path, tracked: Tracked | None, changes: str) -> str:
    """What differs, and the exact commands that make a version of what is there."""
    if tracked is not None:
        what = f"{tracked.file.name} says otherwise: {changes or 'some file differs'}"
        return f"{what}; to make it a version: {_add(project, tracked.root, tracked.out)}"
    root = find_root(folder)
    if root is not None and root != folder:
        return f"to make it a version: {_add(project, root, folder)}"
    first = "" if is_repository(project.root) else "dvc init && "
    if not folder.is_relative_to(project.root):
        home = project.root / "data" / folder.name
        covering = find_tracked(home)
        first = f"mkdir -p data && cp -r {shlex.quote(str(folder))} data/ && {first}"
        folder = covering.out if covering else home
    return f"to make it a version: {first}{_add(project, project.root, folder)}"


def _add(project: Project, root: Path, folder: Path) -> str:
    enter = "" if root == project.root else f"cd {shlex.quote(str(root))} && "
    return f"{enter}dvc add {shlex.quote(folder.relative_to(root).as_posix())}"


def _is_embedded(tracked: Tracked) -> bool:
    """Whether a version is the sample, which is kept as DVC 2 does so that nothing is pushed."""
    embedded = tracked.root / ".dvc" / SAMPLE_REMOTE
    return (embedded / tracked.md5[:2] / f"{tracked.md5[2:]}.dir").is_file()
