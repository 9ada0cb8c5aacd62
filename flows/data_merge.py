"""The disk's side of `enginehouse data add`: where files go, copies beside it, moving them in."""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from enginehouse.errors import DataError
from enginehouse.merge import Merge
from enginehouse.project import Project
from enginehouse.store import hash_file
from tasks.data import ResolvedData, Versioned, list_data, tell_no_room

WORK = Path(".dvc", "tmp", "data-add")  # git and DVC leave it alone


def place_new_files(project: Project, folder: Path, into: str) -> Path:
    """The folder of the data set that new files go to.

    Args:
        into: below the project's `data/`; "" takes the new folder's name.

    Raises:
        DataError: there is no such folder, or it is not apart from the data set.
    """
    if not folder.is_dir():
        raise DataError(f"There is no folder {folder}.", "Name the folder of the new files.")
    folder = folder.resolve()
    name = Path(into or folder.name)
    if name.is_absolute() or not name.parts or any(part.startswith(".") for part in name.parts):
        raise DataError(
            f"{into!r} is no folder below data/.", "Name it like this: --into steel/images"
        )
    target = project.root / "data" / name
    if folder.is_relative_to(target.resolve()) or target.resolve().is_relative_to(folder):
        raise DataError(
            f"{folder} and {target}, where its files would go, lie in one another.",
            "To make a version of what lies in data/ already: dvc add data",
        )
    return target


def refuse_other_changes(version: Versioned, prefix: str, new: Mapping[str, str]) -> None:
    """Only what an earlier, killed run of this command moved in may differ from the version.

    Args:
        prefix: of the data set's paths in the version; "" or ends in `/`.
        new: listing of the new files.

    Raises:
        DataError: something else was changed.
    """
    if not version.digest or (version.changed == {} and not version.gone):
        return
    changed = version.changed or {}
    own = {prefix + path: md5 for path, md5 in new.items()}
    other = [path for path, md5 in changed.items() if own.get(path) != md5]
    if version.changed is not None and not other and not version.gone:
        return
    found = [f"changed or new: {', '.join(other[:3])}"] if other else []
    found += [f"gone: {', '.join(version.gone[:3])}"] if version.gone else []
    name = shlex.quote(version.out.name)
    raise DataError(
        f"Nothing was added: {version.out} is not the version that {version.file.name} names "
        f"({'; '.join(found) or 'some file differs'}).",
        f"If that is meant, make it a version first: dvc add {name}; "
        f"if not, go back: dvc checkout {shlex.quote(version.file.name)}",
    )


def insist_free(merge: Merge, target: Path) -> None:
    """Refuse a merge that would put files over others.

    Raises:
        DataError: names them.
    """
    if merge.clashes:
        named = [f"{path} {why}" for path, why in merge.clashes.items()]
        more = f"; and {len(named) - 5} more" if len(named) > 5 else ""
        raise DataError(
            f"Nothing was added: {len(named)} files are in the way in {target}: "
            f"{'; '.join(named[:5])}{more}.",
            "Rename the new ones (label files may bear any name), or put them over the old ones "
            "with --replace; --into NAME makes a data set of its own.",
        )


@contextlib.contextmanager
def stage_files(project: Project, source: ResolvedData, paths: tuple[str, ...]) -> Iterator[Path]:
    """Copies of new files, in a folder that is gone when the block ends.

    Raises:
        DataError: a file changed meanwhile, or the disk is full.
    """
    work = project.root / WORK
    shutil.rmtree(work, ignore_errors=True)
    try:
        for path in paths:
            copy = work / "new" / path
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source.folder / path, copy)
            if hash_file(copy, "md5") != source.listing[path]:
                raise DataError(
                    f"{path} changed while it was copied.", "Run again when nothing writes there."
                )
        yield work / "new"
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise tell_no_room(project.root, f"the files of {source.folder}") from error
        raise
    finally:
        shutil.rmtree(work, ignore_errors=True)


def link_whole(project: Project, root: Path, places: Mapping[Path, Path]) -> Path | None:
    """A data set as it will be: a folder of links to what is there and what is new.

    Args:
        root: the data set's folder.
        places: where each new file will be, to where it is.

    Returns:
        The folder, or None if there would be nothing in it.
    """
    view = project.root / WORK / "whole" / root.name
    shutil.rmtree(view.parent, ignore_errors=True)
    there = list_data(project, root).files if root.is_dir() else []
    whole = {root / path: root / path for path in there}
    whole |= {place: new for place, new in places.items() if place.is_relative_to(root)}
    for place, file in whole.items():
        link = view / place.relative_to(root)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(file)
    return view if whole else None


def move_in(places: Mapping[Path, Path]) -> None:
    """Put files into their places, each whole or not at all."""
    for place, new in places.items():
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            new.replace(place)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            draft = place.with_name(f".{place.name}.part")  # data/ is on another disk
            shutil.copyfile(new, draft)
            draft.replace(place)


def relative(path: Path, start: Path) -> str:
    """A path in a folder, as it is typed there."""
    return Path(os.path.relpath(path, start)).as_posix()
