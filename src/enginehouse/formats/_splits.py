"""The split that a path speaks of: `images/train/a.jpg`, `valid/`, `instances_val2017.json`."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from enginehouse.labels import SPLIT_NAMES

LIBRARIES: tuple[str, ...] = ()


def split_of(path: str) -> str:
    """The split of the nearest folder that is named after one, or ""."""
    for folder in reversed(PurePosixPath(path).parts[:-1]):
        split = SPLIT_NAMES.get(re.sub(r"[\d\s._-]+$", "", folder.lower()), "")
        if split:
            return split
    return ""


def split_of_label_file(path: str) -> str:
    """The split of all pictures in a label file, by its name or else its folders, or ""."""
    words = re.findall(r"[a-z]+", PurePosixPath(path).stem.lower())
    named = {SPLIT_NAMES[word] for word in words if word in SPLIT_NAMES}
    return named.pop() if len(named) == 1 else split_of(path)
