"""Where the class folders of a data set lie: below which wrapper, and within which splits.

Knows paths, and nothing of files' contents.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from enginehouse.labels import SPLIT_NAMES

LIBRARIES: tuple[str, ...] = ()

# Folders that hold pictures as such: alone, their name says nothing of what is on them.
PLAIN_NAMES = frozenset(
    {"all", "data", "dataset", "frames", "image", "images", "imgs", "img", "jpeg", "jpegimages"}
    | {"jpg", "photo", "photos", "pic", "pics", "picture", "pictures", "png", "raw", "samples"}
)


Folder = tuple[str, ...]  # parts of a relative path


@dataclass(frozen=True)
class Layout:
    """Where the class folders lie.

    Attributes:
        root: folders around everything; () where the classes or splits lie at the top.
        splits: names of the split folders below `root`; () where there are none.
        within: further folders between a split and its classes.
        classes: names of the class folders; () where nothing is labelled.
    """

    root: Folder
    splits: tuple[str, ...]
    within: Folder
    classes: tuple[str, ...]

    def split_of(self, folder: Folder) -> str:
        """The given split of a folder's pictures, or ""."""
        inside = len(folder) > len(self.root) and self.splits
        return name_split(folder[len(self.root)]) if inside else ""

    def below(self, folder: Folder) -> Folder:
        """A folder from its class folder on; () if it is none and lies in none."""
        if folder[: len(self.root)] != self.root:
            return ()
        rest = folder[len(self.root) + bool(self.splits) :]
        inner = len(self.within)
        return rest[inner:] if rest[:inner] == self.within else rest


def name_split(folder: str) -> str:
    """`train`, `val` or `test` if a folder is named after one, else ""."""
    return SPLIT_NAMES.get(folder.strip().lower(), "")


def find_layout(folders: Mapping[Folder, int]) -> Layout:
    """Find the class folders.

    Args:
        folders: those that hold pictures, with how many each holds itself.
    """
    root, folders = _strip_wrappers(folders)
    splits: tuple[str, ...] = ()
    within: Folder = ()
    tops = _list_tops(folders)
    if tops and all(map(name_split, tops)):
        splits = tops
        within, folders = _strip_wrappers(_sum_up((f[1:], n) for f, n in folders.items() if f))
    classes = _list_tops(folders)
    if len(classes) == 1 and classes[0].strip().lower() in PLAIN_NAMES:
        classes = ()
    return Layout(root, splits, within, classes)


def _strip_wrappers(folders: Mapping[Folder, int]) -> tuple[Folder, Mapping[Folder, int]]:
    """Take away the one folder around everything, as long as most pictures then lie in folders."""
    root: list[str] = []
    while len(tops := _list_tops(folders)) == 1 and () not in folders:
        inner = {folder[1:]: count for folder, count in folders.items()}
        beside = inner.get((), 0)
        if name_split(tops[0]) or 2 * beside >= sum(inner.values()):
            break
        root += tops
        folders = inner
    return tuple(root), folders


def _list_tops(folders: Iterable[Folder]) -> tuple[str, ...]:
    return tuple(sorted({folder[0] for folder in folders if folder}))


def _sum_up(counts: Iterable[tuple[Folder, int]]) -> Mapping[Folder, int]:
    total: Counter[Folder] = Counter()
    for folder, count in counts:
        total[folder] += count
    return total
