"""DVC's own files on this machine, read directly: .dvc files, listings, objects, settings.

That takes milliseconds, where the program takes a second. Starts nothing and changes nothing.
"""

from __future__ import annotations

import configparser
import hashlib
import json
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import yaml

from enginehouse.errors import DataError
from enginehouse.store import hash_file

SKIPPED = {".git", ".hg", ".dvc"}  # what DVC never tracks
MD5 = re.compile(r"[0-9a-f]{32}(\.dir)?")
CONFLICT = re.compile(r"^([<=>])\1{6}( |$)", re.MULTILINE)
SAMPLE_REMOTE = "sample-remote"  # below .dvc/: see the file `files` in it


class Tracked(NamedTuple):
    """A folder or file that a .dvc file names.

    Attributes:
        file: the .dvc file.
        out: what it names.
        md5: of the file, or of the folder's listing.
        root: the DVC repository.
        is_folder: whether `out` is one by its MD5.
        legacy: of DVC 2, whose MD5s of text take the line ends to be those of Unix.
        claimed: `nfiles` and `size` as the .dvc file has them.
        rows: the listing, path to MD5, where the .dvc file holds it itself (cloud versioning).
    """

    file: Path
    out: Path
    md5: str
    root: Path
    is_folder: bool = True
    legacy: bool = False
    claimed: Mapping[str, int] = {}
    rows: Mapping[str, str] | None = None


def digest_listing(listing: Mapping[str, str]) -> str:
    """The MD5 that DVC gives a folder with these files (path to MD5), without its `.dir`.

    The format is that of `dvc_data.hashfile.tree.Tree.as_bytes`.
    """
    rows = [{"md5": listing[path], "relpath": path} for path in sorted(listing)]
    return hashlib.md5(json.dumps(rows, sort_keys=True).encode()).hexdigest()


def find_root(folder: Path) -> Path | None:
    """The DVC repository that a folder lies in."""
    return next((p for p in (folder, *folder.parents) if is_repository(p)), None)


def is_repository(folder: Path) -> bool:
    """Whether a folder is the root of a DVC repository."""
    return (folder / ".dvc").is_dir()


def find_tracked(folder: Path) -> Tracked | None:
    """The .dvc file that covers a folder, or None.

    Raises:
        DataError: a .dvc file on the way up cannot be read, or has no MD5 for the folder.
    """
    root = find_root(folder)
    if root is None:
        return None
    for place in folder.parents:
        for file in sorted(place.glob("*.dvc")):
            for tracked in read_tracked(file, root) if file.is_file() else ():
                if tracked.out == folder or tracked.out in folder.parents:
                    return check_md5(tracked)
        if place == root:
            break
    return None


def read_tracked(file: Path, root: Path) -> list[Tracked]:
    """What a .dvc file names; its MD5s are not looked at yet.

    Raises:
        DataError: the file cannot be read.
    """
    try:
        text = file.read_text(encoding="utf-8")
        if CONFLICT.search(text):
            raise _refuse(file, "holds the markers of a merge conflict")
        content = yaml.load(text, _StrictLoader)
        place = file.parent / content.get("wdir", ".")
        return [_tracked_from_out(file, root, place, out) for out in content["outs"]]
    except (yaml.YAMLError, UnicodeDecodeError, AttributeError, KeyError, TypeError) as error:
        raise _refuse(file, "cannot be read (a merge conflict?)") from error


class _StrictLoader(yaml.SafeLoader):
    """Refuses two values for one key, which a merge leaves behind, instead of taking the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        if len(set(keys)) < len(keys):
            raise yaml.constructor.ConstructorError(None, None, "a key twice", node.start_mark)
        return super().construct_mapping(node, deep)


def _tracked_from_out(file: Path, root: Path, place: Path, out: Mapping[str, Any]) -> Tracked:
    md5 = str(out.get("md5") or "")
    rows = None
    if "files" in out and not md5:
        rows = {row["relpath"]: str(row["md5"]) for row in out["files"]}
        md5 = f"{digest_listing(rows)}.dir"
    return Tracked(
        file,
        Path(os.path.normpath(place / out["path"])),
        md5.removesuffix(".dir") if MD5.fullmatch(md5) else md5,
        root,
        is_folder=md5.endswith(".dir"),
        legacy="hash" not in out,
        claimed={name: out[name] for name in ("nfiles", "size") if isinstance(out.get(name), int)},
        rows=rows,
    )


def check_md5(tracked: Tracked) -> Tracked:
    """The same again.

    Raises:
        DataError: its MD5 is none.
    """
    if not MD5.fullmatch(tracked.md5):
        raise _refuse(tracked.file, f"has no usable md5 for {tracked.out.name} ({tracked.md5!r})")
    return tracked


def _refuse(file: Path, what: str) -> DataError:
    return DataError(
        f"{file} {what}.",
        f"Take it from git again (git checkout -- {shlex.quote(file.name)}), or, if the data "
        f"here is right, make it anew: dvc add {shlex.quote(file.stem)} (an import that was never "
        f"downloaded: dvc update {shlex.quote(file.name)})",
    )


def recall_listing(tracked: Tracked, folder: Path) -> dict[str, str] | None:
    """What the version says of a folder in it, path to MD5; None if DVC's listing is not here.

    Raises:
        DataError: the listing names files outside the folder.
    """
    rows = tracked.rows
    for path in find_objects(tracked.root, f"{tracked.md5}.dir") if rows is None else ():
        if rows is None and hash_file(path, "md5") == tracked.md5:
            rows = {row["relpath"]: row["md5"] for row in json.loads(path.read_bytes())}
    if rows is None:
        return None
    for name in map(PurePosixPath, rows):
        if name.is_absolute() or ".." in name.parts:
            raise _refuse(tracked.file, f"names a version with a file outside its folder ({name})")
    prefix = "" if folder == tracked.out else folder.relative_to(tracked.out).as_posix() + "/"
    return {p.removeprefix(prefix): rows[p] for p in rows if p.startswith(prefix)}


def find_objects(root: Path, md5: str) -> Iterator[Path]:
    """Where DVC may keep an object on this machine: its cache, DVC 2's, the sample's remote."""
    cache = find_cache(root)
    for base in (cache / "files/md5", cache, root / ".dvc" / SAMPLE_REMOTE):
        if (path := base / md5[:2] / md5[2:]).is_file():
            yield path


def find_cache(root: Path) -> Path:
    """The folder of a repository's cache."""
    return read_path_setting(root, "cache", "dir") or root / ".dvc" / "cache"


def read_path_setting(root: Path, section: str, key: str) -> Path | None:
    """A setting that is a path; relative ones start at the folder of the file they stand in."""
    if (found := read_setting(root, section, key)) is None:
        return None
    value, file = found
    return Path(os.path.normpath(file.parent / Path(value.removeprefix("file://")).expanduser()))


def read_setting(root: Path, section: str, key: str) -> tuple[str, Path] | None:
    """A setting of DVC, and the file it stands in; this checkout's own come first.

    Raises:
        DataError: a file of settings cannot be read.
    """
    home = Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser() / "dvc"
    places = (
        root / ".dvc" / "config.local",
        root / ".dvc" / "config",
        Path(os.environ.get("DVC_GLOBAL_CONFIG_DIR") or home) / "config",
        Path(os.environ.get("DVC_SYSTEM_CONFIG_DIR") or "/etc/xdg/dvc") / "config",
    )
    for file in places:
        settings = configparser.ConfigParser(interpolation=None, strict=False)
        try:
            settings.read(file, encoding="utf-8")
        except (configparser.Error, UnicodeDecodeError) as error:
            raise DataError(
                f"{file} cannot be read (a merge conflict?): {str(error).splitlines()[0]}",
                f"Take it from git again: git checkout -- {shlex.quote(str(file))}",
            ) from error
        for name in (section, f"'{section}'"):  # DVC quotes names that hold spaces
            if settings.has_option(name, key):
                return settings.get(name, key).strip("\"'"), file
    return None


def make_filter(folder: Path, fallback: Path) -> Callable[[str], bool]:
    """What DVC leaves out of a folder: a test on relative paths, those of folders end in `/`.

    Args:
        folder: its repository's .dvcignore files down to the folder itself count.
        fallback: a folder outside any repository is treated as if it lay in this one.
    """
    from pathspec import GitIgnoreSpec

    places = {fallback: ""}
    if root := find_root(folder):
        chain = [place for place in (folder, *folder.parents) if place.is_relative_to(root)]
        places = {p: "" if p == folder else f"{folder.relative_to(p).as_posix()}/" for p in chain}
    rules = [
        (prefix, GitIgnoreSpec.from_lines(file.read_text(encoding="utf-8").splitlines()))
        for place, prefix in places.items()
        if (file := place / ".dvcignore").is_file()
    ]

    def is_ignored(path: str) -> bool:
        if path.rstrip("/").rpartition("/")[2] in SKIPPED:
            return True
        return any(spec.match_file(prefix + path) for prefix, spec in rules)

    return is_ignored
