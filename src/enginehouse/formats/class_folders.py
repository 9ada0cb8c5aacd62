"""Class folders: the label of a picture is the name of the first folder of its path."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath

LIBRARIES: tuple[str, ...] = ()

SUFFIXES = frozenset(
    {".bmp", ".dib", ".gif", ".jfif", ".jpe", ".jpeg", ".jpg", ".mpo", ".pbm", ".pgm"}
    | {".png", ".ppm", ".tif", ".tiff", ".webp"}
)


def read_labels(paths: Iterable[str]) -> tuple[dict[str, str], dict[str, tuple[str, str]]]:
    """Label each file of a data set.

    Args:
        paths: relative POSIX paths of all files.

    Returns:
        path to label, and for each file that has none: path to (reason, detail).
    """
    labels: dict[str, str] = {}
    rejected: dict[str, tuple[str, str]] = {}
    for path in sorted(paths):
        parts = PurePosixPath(path).parts
        if any(part.startswith(".") or part == "__MACOSX" for part in parts):
            rejected[path] = ("junk", "It is hidden, or was left by a file manager or archiver.")
        elif PurePosixPath(path).suffix.lower() not in SUFFIXES:
            rejected[path] = ("not a picture", "Its name has no picture suffix.")
        elif len(parts) < 2:
            rejected[path] = ("no label", "It lies beside the class folders, not inside one.")
        else:
            labels[path] = parts[0]
    return labels, rejected
