"""A folder whose data .dvc files name: each compared with what lies there, all one data version."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath

from enginehouse.errors import DataError
from enginehouse.files import has_picture_suffix
from enginehouse.labels import Finding
from enginehouse.project import Project
from tasks._compare import Comparison, compare, list_data, read_listing
from tasks._dvc import Tracked, check_md5, digest_listing, find_root, is_repository, read_tracked
from tasks._dvc_lock import describe_lock, find_locks
from tasks._fetch import bring
from tasks._hashes import hash_files
from tasks._listing import Listed
from tasks._version import MODIFIED, ResolvedData, advise, question_version

Say = Callable[[str], object]
TABLES = (".csv", ".tsv", ".xlsx", ".xlsm", ".json")  # label files may lie beside what DVC has


def resolve_outs(project: Project, place: Path, files: list[Path], report: Say) -> ResolvedData:
    """Fetch what .dvc files name where it is missing, compare it, and join it to one version.

    Args:
        place: the folder, absolute; its other files count too if it was asked for as a whole,
            that is, if `files` are all the .dvc files in it.
        files: .dvc files in it.

    Raises:
        DataError: a .dvc file or object cannot be used, or names something outside the folder.
    """
    outs = _read_outs(files, find_root(place) or place, place)
    for out in outs:
        bring(project, out, out.out, report)
    compared = [
        compare(project, out.out, out, read_listing(project, out.out, report), report)
        for out in outs
    ]
    findings = [
        finding
        for out, seen in zip(outs, compared, strict=True)
        for finding in _judge(project, place, out, seen)
    ]
    if is_repository(place):
        findings += [describe_lock(lock, place) for lock in find_locks(place)]
    listed = list_data(project, place)
    whole = set(files) == {place / path for path in listed.files if path.endswith(".dvc")}
    listed = _leave_out_bookkeeping(listed, place, None if whole else outs)
    return _join(project, place, outs, compared, listed, findings, report)


def _read_outs(files: Iterable[Path], root: Path, place: Path) -> list[Tracked]:
    """What .dvc files name, all of it inside a folder."""
    outs = []
    for file in files:
        found = read_tracked(file, root)
        if not found:
            raise DataError(
                f"{file} names no data: its `outs` is empty.", "Take it from git again."
            )
        for out in found:
            inside = out.out.is_relative_to(place) and out.out != place
            if not inside or any(p.is_symlink() for p in _between(place, out)):
                raise DataError(
                    f"{file} names {out.out}, which lies outside {place}.",
                    f"Check that folder by itself, or mend `path` in {file.name}.",
                )
            outs.append(check_md5(out))
    return outs


def _between(place: Path, out: Tracked) -> list[Path]:
    """The folders from a place to what a .dvc file names; a link among them may lead anywhere."""
    chain = [p for p in out.out.parents if p.is_relative_to(place) and p != place]
    return [*chain, out.out] if out.is_folder else chain


def _judge(project: Project, place: Path, out: Tracked, compared: Comparison) -> list[Finding]:
    """The findings over one .dvc file, named from the source's folder."""
    hint = "" if compared.clean else advise(project, out.out, out, compared.changes)
    name = out.file.relative_to(place).as_posix()
    findings = []
    for finding in question_version(out, out.out, compared, hint):
        said = dataclasses.replace(finding, file=name)
        if finding.reason == MODIFIED:
            said = dataclasses.replace(
                said,
                severity="error",
                detail=f"The data was changed after dvc add: {finding.detail} What was checked is "
                "not the version in it.",
                remedy=f"{finding.remedy}; or go back to the version: "
                f"dvc checkout {shlex.quote(out.file.name)}",
            )
        findings.append(said)
    return findings


def _leave_out_bookkeeping(listed: Listed, place: Path, only: list[Tracked] | None) -> Listed:
    """What is data in a folder with .dvc files; of a repository, its hidden entries are none.

    Args:
        only: what alone counts, or None for all.
    """
    hidden = is_repository(place)

    def is_data(path: str) -> bool:
        if path.endswith(".dvc") or (hidden and path.startswith(".")):
            return False
        if only is None:
            return True
        return any((place / path).is_relative_to(out.out) for out in only)

    return Listed(
        [path for path in listed.files if is_data(path)],
        tuple(path for path in listed.empty_folders if is_data(path)),
        tuple(path for path in listed.links if is_data(path)),
        tuple(f for f in listed.findings if not f.file or is_data(f.file)),
        tuple(path for path in listed.ignored if is_data(path)),
    )


def _join(
    project: Project,
    place: Path,
    outs: list[Tracked],
    compared: list[Comparison],
    listed: Listed,
    findings: list[Finding],
    report: Say,
) -> ResolvedData:
    """One data version of all that .dvc files name in a folder, and what lies beside it."""
    listing: dict[str, str] = {}
    for out, seen in zip(outs, compared, strict=True):
        home = out.out if out.out.is_dir() else out.out.parent
        prefix = PurePosixPath(home.relative_to(place))
        listing |= {(prefix / path).as_posix(): md5 for path, md5 in seen.listing.items()}
    beside = [path for path in listed.files if path not in listing]
    listing |= hash_files(place, beside, project.state / "hashes", report)
    if not listing:
        raise DataError(f"There are no files in {place}.", "Put the pictures there.")
    folder = _find_set(place, outs, listing, beside)
    start = "" if folder == place else f"{folder.relative_to(place).as_posix()}/"
    inner = {p.removeprefix(start): listing[p] for p in sorted(listing) if p.startswith(start)}
    clean = all(seen.clean for seen in compared)
    hints = [finding for finding in findings if finding.reason == MODIFIED]
    return ResolvedData(
        digest=digest_listing(inner),
        folder=folder,
        status="unversioned" if not outs else "clean" if clean else "modified",
        listing=inner,
        dvc_file=", ".join(dict.fromkeys(out.file.name for out in outs)) or None,
        hint="; ".join(f"{finding.detail} {finding.remedy}" for finding in hints),
        empty_folders=_below(start, listed.empty_folders),
        links=_below(start, listed.links),
        ignored=_below(start, listed.ignored),
        findings=(*listed.findings, *findings),
    )


def _below(start: str, paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(path.removeprefix(start) for path in paths if path.startswith(start))


def _find_set(place: Path, outs: list[Tracked], listing: Iterable[str], beside: list[str]) -> Path:
    """The folder that is the data set: the only one that is versioned, where it bears labels.

    Pictures that lie flat in it have no label but its name, or those of a table beside it; then
    the set begins one folder above.
    """
    if len(outs) != 1 or not outs[0].out.is_dir():
        return place
    start = f"{outs[0].out.relative_to(place).as_posix()}/"
    inner = [path.removeprefix(start) for path in listing if path.startswith(start)]
    flat = all("/" not in path and has_picture_suffix(path) for path in inner)
    if flat or any(PurePosixPath(path).suffix.lower() in TABLES for path in beside):
        return place
    return outs[0].out
