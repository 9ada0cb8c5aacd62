"""Make the sample data set: about a thousand pictures of machined surfaces, four kinds of defect.

The folder it writes:

    images/<class>/P0123_2.jpg   picture 2 of part 123 (some are .png)
    boxes.xlsx                   one row per defect: image_id, x, y, width, height, label
    LICENSE.txt

Same seed and same library versions: same bytes. Three faults are planted for validation to find:
a truncated picture, an exact copy under another part's name, and a text file with a .jpg name.
"""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from enginehouse.artifact import Report, silent
from enginehouse.errors import DataError
from enginehouse.sample.camera import choose_window, take_picture
from enginehouse.sample.defects import DEFECTS, Box, Site
from enginehouse.sample.surfaces import Generator, draw_surface

NORMAL = "normal"
NORMAL_SHARE = 0.4
SIDE = 288  # pixels of the canvas that the windows are cut from
PNG_EVERY = 25  # every 25th picture of each class, so that the format tells nothing of the class
COLUMNS = ("image_id", "x", "y", "width", "height", "label")
EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time a zip archive can hold
LICENSE = """\
These pictures were drawn by the program enginehouse.sample (seed {seed}); no camera saw them.
They are the Enginehouse authors' own work, under the Apache License, Version 2.0:
https://www.apache.org/licenses/LICENSE-2.0
"""
NOTES = "Shift 2: lamp changed before part 300, please do not mix with last week's pictures.\n"


class Shot(NamedTuple):
    """One picture as written: its name below images/ and the boxes in it."""

    name: str
    label: str
    boxes: list[Box]


def make_sample(
    folder: Path, seed: int = 7, num_parts: int = 500, report: Report = silent
) -> dict[str, Any]:
    """Write the sample data set into a folder.

    Args:
        folder: made if missing; must not hold `images` yet.
        seed: same seed, same bytes.
        num_parts: each gives one to three pictures, two on average; at least 10.
        report: gets one call per part.

    Returns:
        `pictures`, `classes` (label to count), `bytes` and `faults` (what to name).

    Raises:
        DataError: `images` is there already, or too few parts for every class to have two.
    """
    if num_parts < 10:
        raise DataError(f"{num_parts} parts cannot fill five classes.", "Ask for 10 or more.")
    images = folder / "images"
    if images.exists():
        raise DataError(f"{images} exists already.", "Name another folder, or remove that one.")
    labels = _deal_labels(np.random.default_rng([seed, 0]), num_parts)
    written: dict[str, int] = dict.fromkeys([NORMAL, *DEFECTS], 0)
    shots: list[Shot] = []
    for part, label in enumerate(labels, start=1):
        shots += _make_part(images, np.random.default_rng([seed, part]), part, label, written)
        report("drawing the sample", part, num_parts)
    faults = _plant_faults(images, shots, num_parts)
    _write_sheet(folder / "boxes.xlsx", sorted(shots))
    (folder / "LICENSE.txt").write_text(LICENSE.format(seed=seed), encoding="utf-8", newline="\n")
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {
        "pictures": len(shots),
        "classes": {name: sum(shot.label == name for shot in shots) for name in written},
        "bytes": sum(path.stat().st_size for path in files),
        "faults": faults,
    }


def _deal_labels(rng: Generator, num_parts: int) -> list[str]:
    """A class for every part: the share of normal ones, the rest dealt evenly, then shuffled."""
    num_normal = round(NORMAL_SHARE * num_parts)
    kinds = list(DEFECTS)
    labels = [NORMAL] * num_normal
    labels += [kinds[index % len(kinds)] for index in range(num_parts - num_normal)]
    return [labels[index] for index in rng.permutation(num_parts)]


def _make_part(
    images: Path, rng: Generator, part: int, label: str, written: dict[str, int]
) -> list[Shot]:
    """Draw one part and take its pictures; `written` counts the pictures of each class."""
    surface = draw_surface(rng, SIDE)
    contrast = rng.uniform(0.015, 0.045)
    tone = rng.uniform(0.36, 0.62) * rng.uniform([0.95, 0.98, 0.94], [1.03, 1.0, 1.06])
    canvas = tone * (1 + (contrast / 0.5 * surface.texture)[:, :, None])
    boxes: list[Box] = []
    if label != NORMAL:
        boxes = DEFECTS[label](rng, Site(canvas, contrast, surface.angle, rng.random()))
    shots = []
    for number in range(1, part % 3 + 2):
        window = choose_window(rng, SIDE, boxes)
        picture = take_picture(rng, canvas, surface.angle, window)
        written[label] += 1
        as_png = written[label] % PNG_EVERY == PNG_EVERY // 2
        name = f"{label}/P{part:04d}_{number}.{'png' if as_png else 'jpg'}"
        _write_picture(images / name, picture, quality=int(rng.integers(85, 91)))
        inside = [Box(box.x - window.x, box.y - window.y, *box[2:]) for box in boxes]
        shots.append(Shot(name, label, inside))
    return shots


def _write_picture(path: Path, picture: NDArray[np.uint8], quality: int) -> None:
    """JPEG in colour, PNG in grey (as cheap line cameras give)."""
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.fromarray(picture)
    if path.suffix == ".png":
        image.convert("L").save(path, optimize=True)
    else:
        image.save(path, quality=quality, optimize=True)


def _plant_faults(images: Path, shots: list[Shot], num_parts: int) -> dict[str, str]:
    """Truncate the last pit, copy the first scratch as another part, leave notes among stains."""
    jpegs = [shot for shot in shots if shot.name.endswith(".jpg")]
    cut = [shot for shot in jpegs if shot.label == "pit"][-1]
    whole = (images / cut.name).read_bytes()
    (images / cut.name).write_bytes(whole[: len(whole) * 2 // 5])
    original = next(shot for shot in jpegs if shot.label == "scratch")
    copy = original._replace(name=f"scratch/P{num_parts + 1:04d}_1.jpg")
    (images / copy.name).write_bytes((images / original.name).read_bytes())
    shots.append(copy)
    stray = "stain/notes.jpg"
    (images / stray).write_text(NOTES, encoding="utf-8", newline="\n")
    return {"truncated": cut.name, "duplicate": copy.name, "not an image": stray}


def _write_sheet(path: Path, shots: list[Shot]) -> None:
    """The boxes as an Excel sheet whose bytes hold no time of writing."""
    from openpyxl import Workbook

    book = Workbook()
    sheet = book.active
    sheet.title = "boxes"
    sheet.append(COLUMNS)
    for shot in shots:
        for box in shot.boxes:
            sheet.append((shot.name, *box, shot.label))
    draft = io.BytesIO()
    book.save(draft)
    time = rb"(<dcterms:(?:created|modified)[^>]*>)[^<]*"
    with zipfile.ZipFile(draft) as source, zipfile.ZipFile(path, "w") as target:
        for name in source.namelist():
            content = re.sub(time, rb"\g<1>1980-01-01T00:00:00Z", source.read(name))
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            target.writestr(entry, content)
