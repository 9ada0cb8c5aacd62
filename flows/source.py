"""A source that a person named, read: from a path on the command line to a manifest."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from enginehouse.artifact import Source, Workspace
from enginehouse.errors import DataError
from enginehouse.files import Files, has_picture_suffix
from enginehouse.ingest.ingest import IngestConfig
from enginehouse.ingest.record import Manifest
from enginehouse.labels import Finding, LeftOut
from enginehouse.project import Project
from flows.verdict import Verdict, add_findings, add_left_out, add_manifest, make_verdict
from tasks._stage import PROGRESS, RunContext
from tasks.data import ResolvedData, resolve_source
from tasks.ingest import ingest_task

PREFIX = "check"  # under which the store remembers what was checked last
# What the listing leaves out, by reason; the rest of its findings is about what is kept.
LEFT_OUT = frozenset({"broken link", "name is not UTF-8", "no regular file"})
ARCHIVES = frozenset({".7z", ".bz2", ".gz", ".rar", ".tar", ".tgz", ".xz", ".zip"})


@dataclass(frozen=True)
class ReadSource:
    """What a source holds.

    Attributes:
        resolved: the data version, and where it lies.
        manifest: what ingest made of it.
        context: what the stages share.
    """

    resolved: ResolvedData
    manifest: Manifest
    context: RunContext

    @property
    def files(self) -> Files:
        """The files of the data version."""
        return Files(self.resolved.folder, self.resolved.listing)

    def open_tables(self, scratch: Path) -> dict[str, Path]:
        """The manifest's tables by name."""
        return Workspace(self.context.store, scratch).paths(self.manifest)


def tell_source(
    project: Project, source: Path, config: IngestConfig
) -> tuple[Verdict, ReadSource | None]:
    """Read a folder, a DVC repository, a .dvc file, or a label file with its pictures.

    Returns:
        what a person should know of it; what was read, or None if it cannot be read at all.

    Raises:
        RecipeError: no such format.
    """
    verdict = make_verdict(source)
    try:
        if source.is_file() and source.suffix != ".dvc":
            file = Path(os.path.normpath(source.absolute()))
            read = read_label_file(project, file, config)
        else:
            resolved = resolve_source(project, source, PROGRESS.info)
            read = read_version(project, resolved, config)
    except (DataError, OSError) as error:
        add_findings(verdict, [_find_unreadable(source, error)])
        return verdict, None
    verdict["ignored"] += read.resolved.ignored
    noticed = read.resolved.findings
    add_findings(verdict, noticed)
    left_out = [LeftOut(f.file, f.reason, f.detail) for f in noticed if f.reason in LEFT_OUT]
    add_left_out(verdict, left_out)  # ingest never saw it
    with tempfile.TemporaryDirectory() as scratch:
        add_manifest(verdict, read.manifest, read.open_tables(Path(scratch)))
    return verdict, read


def read_label_file(project: Project, file: Path, config: IngestConfig) -> ReadSource:
    """Read one label file; its pictures are looked for in its folder, then in the one above.

    Args:
        file: absolute.

    Raises:
        DataError: there is no such data, or it cannot be read at all.
        RecipeError: no such format.
    """
    if has_picture_suffix(file.name) or file.suffix.lower() in ARCHIVES:
        kind = "a picture" if has_picture_suffix(file.name) else "an archive"
        raise DataError(
            f"{file} is {kind}; wanted is a folder, or a file that labels pictures.",
            "Name its folder." if kind == "a picture" else "Unpack it and name the folder.",
        )
    read = _read_beside(project, file.parent, file, config)
    if not read.files.pictures and file.parent.parent not in _too_wide():
        above = _read_beside(project, file.parent.parent, file, config)
        return above if above.manifest.num_rows else read
    return read


def _read_beside(project: Project, folder: Path, file: Path, config: IngestConfig) -> ReadSource:
    resolved = resolve_source(project, folder, PROGRESS.info)
    if not file.is_relative_to(resolved.folder):
        raise DataError(
            f"{file.name} is no part of the data, which lies in {resolved.folder}.",
            "Name the folder, or move the label file into it.",
        )
    name = file.relative_to(resolved.folder).as_posix()
    return read_version(project, resolved, config.model_copy(update={"label_file": name}))


def _too_wide() -> set[Path]:
    """Folders that are no data set, and would take for ever to read."""
    return {Path("/"), Path.home(), Path(tempfile.gettempdir())}


def read_version(project: Project, resolved: ResolvedData, config: IngestConfig) -> ReadSource:
    """Read a data version that lies on this machine.

    Raises:
        DataError: there is no such data, or it cannot be read at all.
        RecipeError: no such format.
    """
    source = Source(resolved.folder, resolved.listing)
    context = RunContext(project.open_store(), PREFIX, {resolved.digest: source})
    manifest = ingest_task.call(context, "ingest", config, data=resolved.version)
    assert isinstance(manifest, Manifest)
    return ReadSource(resolved, manifest, context)


def _find_unreadable(source: Path, error: DataError | OSError) -> Finding:
    if isinstance(error, DataError):
        what, remedy = error.message, error.remedy
    else:
        what = f"{error.filename or source} cannot be used: {error.strerror or error}."
        remedy = "Give this user the right to read it, or remove it."
    return Finding("error", "data cannot be read", "", what, remedy)
