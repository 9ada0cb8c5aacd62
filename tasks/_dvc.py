"""DVC, as far as we speak it: its files on this machine, and `dvc pull`.

DVC's own formats are read directly, which takes milliseconds; the program, which takes a second,
is started only when data must be fetched.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from enginehouse.errors import DataError
from enginehouse.store import hash_file

SKIPPED = {".git", ".hg", ".dvc"}  # what DVC never tracks
MD5 = re.compile(r"[0-9a-f]{32}(\.dir)?")
SAMPLE_REMOTE = "sample-remote"  # below .dvc/: see the file `files` in it


class Tracked(NamedTuple):
    """A folder that a .dvc file covers.

    Attributes:
        file: the .dvc file.
        out: the folder that it names.
        md5: of that folder's listing.
        root: the DVC repository.
    """

    file: Path
    out: Path
    md5: str
    root: Path


def digest_listing(listing: Mapping[str, str]) -> str:
    """The MD5 that DVC gives a folder with these files (path to MD5), without its `.dir`.

    The format is that of `dvc_data.hashfile.tree.Tree.as_bytes`.
    """
    rows = [{"md5": listing[path], "relpath": path} for path in sorted(listing)]
    return hashlib.md5(json.dumps(rows, sort_keys=True).encode()).hexdigest()


def find_root(folder: Path) -> Path | None:
    """The DVC repository that a folder lies in."""
    return next((p for p in (folder, *folder.parents) if (p / ".dvc").is_dir()), None)


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
            for out in _read_outs(file) if file.is_file() else ():
                base = Path(os.path.normpath(place / out["wdir"] / out["path"]))
                if base != folder and base not in folder.parents:
                    continue
                md5 = str(out.get("md5") or "")
                if not MD5.fullmatch(md5):
                    raise _refuse(file, f"has no usable md5 for {out['path']} ({md5!r})")
                return Tracked(file, base, md5.removesuffix(".dir"), root)
        if place == root:
            break
    return None


def _read_outs(file: Path) -> list[dict[str, Any]]:
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
        wdir = content.get("wdir", ".")
        return [{"wdir": wdir, "path": out["path"], **out} for out in content["outs"]]
    except (yaml.YAMLError, UnicodeDecodeError, AttributeError, KeyError, TypeError) as error:
        raise _refuse(file, "cannot be read (a merge conflict?)") from error


def _refuse(file: Path, what: str) -> DataError:
    return DataError(
        f"{file} {what}.",
        f"Take it from git again (git checkout -- {shlex.quote(file.name)}), or, if the folder "
        f"here is right, make it anew: dvc add {shlex.quote(file.stem)}",
    )


def recall_listing(tracked: Tracked, folder: Path) -> dict[str, str] | None:
    """What the version says of a folder in it, path to MD5; None if DVC's listing is not here."""
    prefix = "" if folder == tracked.out else folder.relative_to(tracked.out).as_posix() + "/"
    for path in _find_objects(tracked.root, f"{tracked.md5}.dir"):
        if hash_file(path, "md5") == tracked.md5:
            rows = {row["relpath"]: row["md5"] for row in json.loads(path.read_bytes())}
            return {p.removeprefix(prefix): rows[p] for p in rows if p.startswith(prefix)}
    return None


def _find_objects(root: Path, md5: str) -> Iterator[Path]:
    """Where DVC may keep an object on this machine: its cache, DVC 2's, the sample's remote."""
    for base in (".dvc/cache/files/md5", ".dvc/cache", f".dvc/{SAMPLE_REMOTE}"):
        if (path := root / base / md5[:2] / md5[2:]).is_file():
            yield path


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
        if path.endswith("/") and (folder / path / ".dvc").is_dir():
            return True  # a repository of its own
        return any(spec.match_file(prefix + path) for prefix, spec in rules)

    return is_ignored


def fetch(tracked: Tracked, folder: Path, report: Callable[[str], object]) -> None:
    """`dvc pull` a version; only the part that is missing where other parts are there.

    Raises:
        DataError: the version has no such folder, an object is missing or corrupt, or DVC failed.
    """
    recorded = recall_listing(tracked, tracked.out)
    inner = folder.relative_to(tracked.out).as_posix()
    if recorded and inner != "." and not any(path.startswith(f"{inner}/") for path in recorded):
        raise DataError(
            f"There is no folder {folder}, and none in the version that {tracked.file.name} names.",
            f"It has: {', '.join(sorted({path.rpartition('/')[0] for path in recorded})[:8])}.",
        )
    _check_cache(tracked, recorded or {})
    target = tracked.file
    if tracked.out.exists() and inner != ".":
        target = tracked.out / inner.partition("/")[0]  # leaves alone what lies beside it
    report(f"data: fetching {os.path.relpath(target, tracked.root)} with dvc pull")
    done = subprocess.run(
        [sys.executable, "-m", "dvc", "--wait-for-lock", "pull", str(target)],
        cwd=tracked.root,
        env={**os.environ, "DVC_NO_ANALYTICS": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0 or not folder.is_dir():
        raise _explain_failure(tracked, recorded or {}, done.stdout + done.stderr)


def _check_cache(tracked: Tracked, recorded: Mapping[str, str]) -> None:
    """DVC believes its cache unread, and would hand out a corrupt object as the file."""
    for path, md5 in recorded.items():
        for place in _find_objects(tracked.root, md5):
            if hash_file(place, "md5") != md5:
                name = shlex.quote(str(place))
                raise DataError(
                    f"The cache object of {path} is corrupt: {place} does not have its md5 {md5}.",
                    f"Take it from git again: git checkout -- {name}"
                    if SAMPLE_REMOTE in place.parts
                    else f"Remove it and run again, DVC fetches it anew: rm -f {name}",
                )


def _explain_failure(tracked: Tracked, recorded: Mapping[str, str], output: str) -> DataError:
    words = re.sub(r"//[^/@\s]+@", "//***@", output)  # no password of a remote's address
    if f"Not a directory: '{tracked.root / '.dvc' / SAMPLE_REMOTE / 'files'}" in words:
        return DataError(
            f"{tracked.file.name} names a version that is not in the cache, and the remote inside "
            "the repository holds the sample only.",
            "Where the version was made, type: dvc remote add -d mine <bucket or folder> && "
            "dvc push; then bring that .dvc/config here.",
        )
    paths = {md5: path for path, md5 in recorded.items()}
    missing = dict.fromkeys(re.findall(r"\b[0-9a-f]{32}\b", words))
    named = [f"{paths.get(md5, 'a file')} (object {md5})" for md5 in missing]
    lines = [line for line in words.splitlines() if line and not line.startswith("Having any")]
    first = next((i for i, line in enumerate(lines) if line.startswith("ERROR")), 0)
    return DataError(
        f"dvc pull could not bring what {tracked.file.name} names: "
        + (f"{', '.join(named[:3])} is missing in cache and remote. " if named else "")
        + " ".join(lines[first:])[:600],
        "Name the remote that has it (dvc remote add -d mine <bucket or folder>), or let whoever "
        "added the data type: dvc push",
    )
