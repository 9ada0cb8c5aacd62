"""The sample data set: the same bytes for the same seed, boxes around defects, planted faults."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from openpyxl import load_workbook
from PIL import Image

from enginehouse.errors import DataError, UnreadablePicture
from enginehouse.picture import decode_picture
from enginehouse.sample.defects import DEFECTS, Site
from enginehouse.sample.make import make_sample
from enginehouse.sample.surfaces import draw_surface
from enginehouse.store import hash_file

CLASSES = {"normal", "scratch", "pit", "inclusion", "stain"}


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sample")
    make_sample(folder, seed=3, num_parts=30)
    return folder


def digests(folder: Path) -> dict[str, str]:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {path.relative_to(folder).as_posix(): hash_file(path) for path in files}


def test_the_same_seed_gives_the_same_bytes_in_another_process(
    sample: Path, tmp_path: Path
) -> None:
    arguments = [str(tmp_path / "again"), "--seed", "3", "--pictures", "60"]
    command = [sys.executable, "-m", "enginehouse.sample", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "61 pictures" in done.stdout
    assert digests(tmp_path / "again") == digests(sample)
    make_sample(tmp_path / "other", seed=4, num_parts=10)
    same = set(digests(tmp_path / "other").values()) & set(digests(sample).values())
    assert same == {hash_file(sample / "images/stain/notes.jpg")}


def test_parts_give_one_to_three_pictures_of_bounded_size(sample: Path) -> None:
    images = sample / "images"
    assert {path.name for path in images.iterdir()} == CLASSES
    parts: dict[str, list[Path]] = {}
    for path in images.rglob("P*"):
        parts.setdefault(path.name.split("_")[0], []).append(path)
        with Image.open(path) as image:
            assert all(96 <= side <= 160 for side in image.size)
    assert {len(paths) for paths in parts.values()} == {1, 2, 3}
    assert all(len({path.parent for path in paths}) == 1 for paths in parts.values())


def test_the_planted_faults_are_there_and_nothing_else_is_wrong(sample: Path) -> None:
    unreadable = {}
    pixels: dict[bytes, list[str]] = {}
    for path in sorted((sample / "images").rglob("*.*")):
        try:
            pixels.setdefault(decode_picture(path).array.tobytes(), []).append(path.name)
        except UnreadablePicture as error:
            unreadable[path.name] = error.reason
    assert sorted(unreadable.values()) == ["not an image", "truncated or corrupt"]
    assert unreadable["notes.jpg"] == "not an image"
    repeated = [names for names in pixels.values() if len(names) > 1]
    assert len(repeated) == 1
    assert "P0031_1.jpg" in repeated[0]


def test_every_defect_picture_has_boxes_that_lie_inside_it(sample: Path) -> None:
    rows = list(load_workbook(sample / "boxes.xlsx").active.iter_rows(values_only=True))
    assert rows[0] == ("image_id", "x", "y", "width", "height", "label")
    defects = {
        path.relative_to(sample / "images").as_posix()
        for path in (sample / "images").rglob("P*")
        if path.parent.name != "normal"
    }
    assert {row[0] for row in rows[1:]} == defects
    for name, x, y, width, height, label in rows[1:]:
        assert name.startswith(f"{label}/")
        with Image.open(sample / "images" / name) as image:
            assert min(x, y) >= 0 and x + width <= image.width and y + height <= image.height


@pytest.mark.parametrize("label", sorted(DEFECTS))
def test_a_defect_changes_its_boxes_most(label: str) -> None:
    rng = np.random.default_rng([11, len(label)])
    surface = draw_surface(rng, 200)
    clean = 0.5 + 0.03 * np.repeat(surface.texture[:, :, None], 3, axis=2)
    drawn = clean.copy()
    boxes = DEFECTS[label](rng, Site(drawn, 0.03, surface.angle, 0.5))
    change = np.abs(drawn - clean).sum(axis=2)
    inside = np.zeros_like(change, bool)
    for box in boxes:
        inside[box.y : box.y + box.height, box.x : box.x + box.width] = True
    assert change[inside].sum() > 0.7 * change.sum()
    assert change[inside].mean() > 20 * change[~inside].mean()


def test_it_refuses_a_folder_in_use_and_too_few_parts(sample: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="exists already"):
        make_sample(sample)
    with pytest.raises(DataError, match="9 parts"):
        make_sample(tmp_path, num_parts=9)
