"""What the twins are made of: pictures that differ from each other, and the words for a twin."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

WIDTH, HEIGHT = 80, 60


@dataclass(frozen=True)
class Twin:
    """One small data set, and how `check` must end on it.

    Attributes:
        build: writes it into an empty folder; may return the file that is to be checked.
        mention: regular expressions, each found somewhere in the output.
        images, boxes: how many are kept; None: not said.
        labels: names of the labels in index order; None: not said.
    """

    kind: str
    build: Callable[[Path], Path | None]
    expect: Literal["accept", "warn", "quarantine", "reject"]
    mention: tuple[str, ...] = ()
    images: int | None = None
    boxes: int | None = None
    labels: tuple[str, ...] | None = None
    never: tuple[str, ...] = field(default=())  # regular expressions that must not be found

    @property
    def name(self) -> str:
        """What the test is called."""
        return f"{self.kind}-{self.build.__name__.removeprefix('build_')}"


def draw(seed: str, width: int = WIDTH, height: int = HEIGHT) -> NDArray[np.uint8]:
    """A picture of coloured blocks; other seeds give pictures that no hash takes for the same."""
    rng = np.random.default_rng(zlib.crc32(seed.encode()))
    blocks = rng.integers(0, 255, (6, 8, 3)).astype(np.uint8)
    return np.asarray(Image.fromarray(blocks).resize((width, height), Image.Resampling.BICUBIC))


def save(path: Path, array: NDArray[Any] | None = None, **options: Any) -> Path:
    """Write a picture; without pixels one that its path decides."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = draw("/".join(path.parts[-2:])) if array is None else array
    Image.fromarray(pixels).save(path, **options)
    return path


def class_folders(
    folder: Path, classes: Iterable[str] = ("gear", "screw"), train: int = 4, val: int = 2
) -> int:
    """Class folders under train and val; returns the number of pictures."""
    classes = tuple(classes)
    for split, count in (("train", train), ("val", val)):
        for label in classes:
            for number in range(count):
                save(folder / split / label / f"{split}_{label}_{number}.jpg")
    return len(classes) * (train + val)


def coco(
    folder: Path,
    annotations: list[dict[str, Any]],
    names: Iterable[str] = ("a.jpg", "b.jpg", "c.jpg"),
    categories: dict[int, str] | None = None,
    **images: Any,
) -> None:
    """Pictures under `shots/` and `labels.json`; image ids are 11, 12, ... in order.

    Args:
        annotations: image_id, bbox, category_id and id are filled in where they are missing.
        images: fields that replace those of every image.
    """
    names = tuple(names)
    for name in names:
        save(folder / "shots" / name)
    whole = {
        "images": [
            {"id": 11 + i, "file_name": name, "width": WIDTH, "height": HEIGHT} | images
            for i, name in enumerate(names)
        ],
        "annotations": [
            {"id": 101 + i, "image_id": 11 + i % 3, "category_id": 1, "bbox": [5, 5, 20, 10]}
            | {"area": 200, "iscrowd": 0}
            | annotation
            for i, annotation in enumerate(annotations)
        ],
        "categories": [
            {"id": number, "name": name}
            for number, name in (categories or {1: "scratch", 2: "pit"}).items()
        ],
    }
    write(folder / "labels.json", json.dumps(whole))


def write(path: Path, content: str | bytes, encoding: str = "utf-8") -> Path:
    """Write a file of text or bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
    return path
