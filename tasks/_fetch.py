"""Bring a version here: from a cache whose objects were checked, or with `dvc pull`."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shlex
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from enginehouse.errors import DataError
from enginehouse.project import Project
from enginehouse.store import hash_file
from tasks._compare import compare, hash_legacy, read_listing
from tasks._dvc import (
    SAMPLE_REMOTE,
    Tracked,
    find_cache,
    find_objects,
    is_repository,
    read_setting,
    recall_listing,
)
from tasks._dvc_program import run_dvc, say_error, tell_no_room

Say = Callable[[str], object]


def bring(project: Project, tracked: Tracked, folder: Path, report: Say) -> bool:
    """Fetch a version, or one folder of it, if it is not there whole; returns whether it was not.

    Raises:
        DataError: the version has no such folder, an object is missing or corrupt, the disk is
            full, or DVC failed.
    """
    name = hashlib.md5(os.fsencode(folder)).hexdigest()
    mark = project.state / "hashes" / f"{name}.fetching"
    # Only DVC itself can leave half a folder: without git, files are copied all or none.
    if folder.exists() and not (mark.exists() and _has_git(tracked.root)):
        return False
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.touch()  # outlives a killed fetch: half a folder is no version
    _fetch(tracked, folder, report)
    listing = read_listing(project, folder, report)
    compared = compare(project, folder, tracked, listing, report)
    if not compared.clean:
        raise DataError(
            f"What dvc pull brought into {folder} is not what {tracked.file.name} says: "
            f"{compared.changes or 'some file differs'}. An object of the cache or the remote is "
            "corrupt.",
            f"Remove both and run again: rm -rf {shlex.quote(str(folder))} "
            f"{shlex.quote(str(find_cache(tracked.root)))}",
        )
    mark.unlink(missing_ok=True)
    return True


def _fetch(tracked: Tracked, folder: Path, report: Say) -> None:
    """`dvc pull` a version; only the part that is missing where other parts are there."""
    recorded = recall_listing(tracked, tracked.out) if tracked.is_folder else {"": tracked.md5}
    inner = folder.relative_to(tracked.out).as_posix()
    if recorded and inner != "." and not any(path.startswith(f"{inner}/") for path in recorded):
        raise DataError(
            f"There is no folder {folder}, and none in the version that {tracked.file.name} names.",
            f"It has: {', '.join(sorted({path.rpartition('/')[0] for path in recorded})[:8])}.",
        )
    _check_cache(tracked, recorded or {})
    if not is_repository(tracked.root):
        raise DataError(
            f"{tracked.out} is not there, and {tracked.file} lies in no DVC repository that could "
            "bring it.",
            "Put the data there, or take the whole repository, with its folder .dvc.",
        )
    if not _has_git(tracked.root):  # DVC itself refuses to work there
        return _copy_from_cache(tracked, recorded, report)
    target = tracked.file
    if tracked.out.exists() and inner != ".":
        target = tracked.out / inner.partition("/")[0]  # leaves alone what lies beside it
    report(f"data: fetching {os.path.relpath(target, tracked.root)} with dvc pull")
    done = run_dvc(tracked.root, ["pull", str(target)], report)
    if done.returncode != 0 or not folder.exists():
        raise _explain_pull(tracked, recorded or {}, done.stdout + done.stderr)


def _check_cache(tracked: Tracked, recorded: Mapping[str, str]) -> None:
    """DVC believes its cache unread, and would hand out a corrupt object as the file."""
    objects = {path or tracked.out.name: md5 for path, md5 in recorded.items()}
    if tracked.is_folder and tracked.rows is None:
        objects[f"the listing of {tracked.out.name}"] = f"{tracked.md5}.dir"
    for path, md5 in objects.items():
        for place in find_objects(tracked.root, md5):
            if not _is_sound(place, md5.removesuffix(".dir"), tracked.legacy):
                name = shlex.quote(str(place))
                raise DataError(
                    f"The cache object of {path} is corrupt: {place} does not have its md5 {md5}.",
                    f"Take it from git again: git checkout -- {name}"
                    if SAMPLE_REMOTE in place.parts
                    else f"Remove it and run again, DVC fetches it anew: rm -f {name}",
                )


def _is_sound(place: Path, md5: str, legacy: bool) -> bool:
    """Whether an object or file has the MD5 that it should."""
    return hash_file(place, "md5") == md5 or (legacy and hash_legacy(place) == md5)


def _has_git(root: Path) -> bool:
    """Whether DVC will work in a repository: it wants git, or to be told that there is none."""
    if any((place / ".git").exists() for place in (root, *root.parents)):
        return True
    return (read_setting(root, "core", "no_scm") or ("",))[0].lower() == "true"


def _copy_from_cache(tracked: Tracked, recorded: Mapping[str, str] | None, report: Say) -> None:
    """What `dvc checkout` would do, from a cache whose objects were checked."""
    wanted = {"the listing": f"{tracked.md5}.dir"} if recorded is None else recorded
    places = {path: next(find_objects(tracked.root, md5), None) for path, md5 in wanted.items()}
    missing = [
        f"{path or tracked.out.name} (object {wanted[path]})" for path in places if not places[path]
    ]
    if missing:
        raise DataError(
            f"{len(missing)} of {len(wanted)} cache objects that {tracked.file.name} names are "
            f"missing: {', '.join(missing[:3])}. DVC cannot pull them into {tracked.root}, which "
            "is not a git repository.",
            "Bring them: git init (or dvc config core.no_scm true), then dvc pull; where the data "
            "was made, dvc push first.",
        )
    report(f"data: taking {tracked.out.name} from DVC's cache in {tracked.root}")
    draft = tracked.out.with_name(f".{tracked.out.name}.{os.getpid()}")
    try:
        for path, place in places.items():
            (draft / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(str(place), draft / path)
        draft.replace(tracked.out)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise tell_no_room(tracked.root, "the files of DVC's cache") from error
        raise DataError(
            f"{tracked.out} could not be written: {error.strerror} ({error.filename}).",
            "Move away what is there, or give this user the right to write, and run again.",
        ) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _explain_pull(tracked: Tracked, recorded: Mapping[str, str], output: str) -> DataError:
    if f"Not a directory: '{tracked.root / '.dvc' / SAMPLE_REMOTE / 'files'}" in output:
        return DataError(
            f"{tracked.file.name} names a version that is not in the cache, and the remote inside "
            "the repository holds the sample only.",
            "Where the version was made, type: dvc remote add -d mine <bucket or folder> && "
            "dvc push; then bring that .dvc/config here.",
        )
    paths = {md5: path or tracked.out.name for path, md5 in recorded.items()}
    absent = [md5 for md5 in paths if not any(find_objects(tracked.root, md5))]
    missing = dict.fromkeys(re.findall(r"\b[0-9a-f]{32}\b", output) or absent)
    named = [f"{paths.get(md5, 'a file')} (object {md5})" for md5 in missing]
    return DataError(
        f"dvc pull could not bring what {tracked.file.name} names: "
        + (f"{', '.join(named[:3])} is missing in cache and remote. " if named else "")
        + say_error(output),
        "Name the remote that has it (dvc remote add -d mine <bucket or folder>), or let whoever "
        "added the data type: dvc push",
    )
