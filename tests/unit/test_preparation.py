"""What happens to a picture before the network sees it: windows, cleaning, resizing, folding."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from enginehouse.picture import decode_picture, resize_picture
from enginehouse.preparation import (
    Cleaning,
    Preparation,
    Tiling,
    Window,
    cut_windows,
    fold_scores,
)
from enginehouse.prepared_picture import (
    clean_picture,
    find_decoded_size,
    find_frame,
    load_picture,
    locate_windows,
    prepare_picture,
)

CROP = Cleaning(step="crop", options={"left": 0.5, "top": 0.25, "right": 1, "bottom": 1})


def draw(height: int, width: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (height, width, 3)).astype(np.uint8)


@pytest.mark.parametrize("width", [64, 65, 100, 127, 128, 333])
@pytest.mark.parametrize("height", [64, 90, 200])
@pytest.mark.parametrize("overlap", [0, 0.25, 0.5, 0.9])
def test_windows_cover_the_picture_and_overlap_enough(
    width: int, height: int, overlap: float
) -> None:
    windows = cut_windows(width, height, Tiling(size=64, overlap=overlap))
    covered = np.zeros((height, width), int)
    for x, y, wide, high in windows:
        assert (wide, high) == (64, 64)
        assert 0 <= x <= width - 64
        assert 0 <= y <= height - 64
        covered[y : y + high, x : x + wide] += 1
    assert covered.min() >= 1
    columns = sorted({window.x for window in windows})
    steps = np.diff(columns)
    assert len(columns) * len({window.y for window in windows}) == len(windows)
    assert not len(steps) or steps.max() <= 64 * (1 - overlap) + 1e-9
    assert columns[-1] == width - 64


def test_a_window_never_exceeds_the_picture() -> None:
    tiling = Tiling(size=64, overlap=0.25)
    assert cut_windows(40, 30, tiling) == (Window(0, 0, 40, 30),)
    assert cut_windows(64, 64, tiling) == (Window(0, 0, 64, 64),)
    assert {(w.y, w.width, w.height) for w in cut_windows(150, 30, tiling)} == {(0, 64, 30)}
    assert cut_windows(1, 1, tiling) == (Window(0, 0, 1, 1),)


def test_without_tiles_the_whole_picture_is_squashed(tmp_path: Path) -> None:
    picture = draw(50, 90)
    prepared = prepare_picture(picture, Preparation(size=32))
    assert prepared.shape == (1, 3, 32, 32)
    assert np.array_equal(prepared[0], resize_picture(picture, 32))
    Image.fromarray(picture).save(tmp_path / "picture.png")
    assert np.array_equal(load_picture(tmp_path / "picture.png", Preparation(size=32)), prepared)


def test_a_window_is_resized_as_a_picture_of_its_own() -> None:
    picture = draw(80, 200)
    preparation = Preparation(size=32, tiles=Tiling(size=64, overlap=0.25), good="good")
    prepared = prepare_picture(picture, preparation)
    windows = cut_windows(200, 80, preparation.tiles)
    assert len(prepared) == len(windows) == 8
    for made, (x, y, width, height) in zip(prepared, windows, strict=True):
        alone = np.ascontiguousarray(picture[y : y + height, x : x + width])
        assert np.array_equal(made, resize_picture(alone, 32))


def test_cleaning_comes_before_the_windows() -> None:
    picture = draw(80, 200)
    preparation = Preparation(size=32, clean=(CROP,), tiles=Tiling(size=50, overlap=0))
    assert np.array_equal(
        prepare_picture(picture, preparation),
        prepare_picture(picture[20:, 100:], preparation.model_copy(update={"clean": ()})),
    )


def test_steps_follow_one_another_and_say_what_they_left() -> None:
    picture = np.full((40, 40, 3), 250, np.uint8)
    halves = CROP, Cleaning(step="glare"), CROP
    cleaned, flags = clean_picture(picture, halves)
    assert cleaned.shape == (22, 10, 3)
    assert flags == ("glare: glare on 100.0% of the picture; at most 5.0% is painted over",)


def test_windows_are_located_in_the_picture_in_the_file() -> None:
    preparation = Preparation(size=32, clean=(CROP, CROP), tiles=Tiling(size=50, overlap=0))
    assert find_frame(200, 80, preparation.clean) == Window(150, 35, 50, 45)
    assert locate_windows(200, 80, preparation) == (Window(150, 35, 50, 45),)
    assert locate_windows(200, 80, Preparation(size=32)) == (Window(0, 0, 200, 80),)


def test_a_very_large_picture_is_cut_in_its_halved_pixels(tmp_path: Path) -> None:
    width, height = 7201, 7001
    Image.new("L", (width, height), 90).save(tmp_path / "large.png", compress_level=1)
    decoded = decode_picture(tmp_path / "large.png")
    assert decoded.array.shape[1::-1] == find_decoded_size(width, height) == (3601, 3501)
    windows = locate_windows(width, height, Preparation(size=32, tiles=Tiling(size=2000)))
    assert len(windows) == 9
    last = windows[-1]
    assert (last.x + last.width, last.y + last.height) == (width, height)
    assert last.width == pytest.approx(4000, abs=1)


def test_the_window_least_likely_good_speaks_for_the_picture() -> None:
    scores = np.array([[0.9, 0.05, 0.05], [0.2, 0.1, 0.7], [0.3, 0.6, 0.1]], np.float32)
    assert fold_scores(scores, ("good", "pit", "scratch"), "good").tolist() == scores[1].tolist()
    assert fold_scores(scores, ("pit", "good", "scratch"), "good").tolist() == scores[0].tolist()


def test_one_window_needs_no_good_class() -> None:
    scores = np.array([[0.1, 0.9]], np.float32)
    assert fold_scores(scores, ("cat", "dog"), "").tolist() == scores[0].tolist()
