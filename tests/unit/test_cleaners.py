"""The cleaning steps: what each does to a picture made for it, and what none may do."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import ValidationError

from enginehouse.choices import list_choices, load_choice
from enginehouse.cleaners import blur, clahe, crop, denoise, glare
from enginehouse.preparation import Window

STEPS = sorted(list_choices("cleaners"))
SOME = {"crop": {"left": 0.25, "bottom": 0.5}, "blur": {"median": 3}}


def draw_surface(height: int = 60, width: int = 80) -> NDArray[np.uint8]:
    """A brownish surface with grain and a dark stroke."""
    rng = np.random.default_rng(0)
    surface = rng.normal((140, 120, 100), 6, (height, width, 3)).clip(0, 255)
    surface[height // 2 : height // 2 + 3, 10 : width - 10] -= 60
    return surface.clip(0, 255).astype(np.uint8)


def clean(step: str, array: NDArray[np.uint8], **options: float) -> Any:
    cleaner = load_choice("cleaners", step)
    return cleaner.clean(array, cleaner.Options(**{**SOME.get(step, {}), **options}))


@pytest.mark.parametrize("step", STEPS)
def test_a_step_says_what_it_takes_and_leaves_its_input_alone(step: str) -> None:
    cleaner = load_choice("cleaners", step)
    assert cleaner.LIBRARIES
    for name, field in cleaner.Options.model_fields.items():
        assert field.description and field.metadata, name
    picture = draw_surface()
    picture[5:9, 5:9] = 255
    before = picture.copy()
    cleaned = clean(step, picture)
    assert np.array_equal(picture, before)
    assert cleaned.array.dtype == np.uint8
    assert cleaned.array.shape[2] == 3
    assert not np.array_equal(cleaned.array, picture)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("size", [(1, 1), (1, 40), (3, 2), (2000, 3)])
def test_a_step_takes_pictures_of_any_size(step: str, size: tuple[int, int]) -> None:
    assert clean(step, np.full((*size, 3), 90, np.uint8)).array.size


@pytest.mark.parametrize("step", STEPS)
def test_the_number_of_threads_changes_nothing(step: str) -> None:
    picture = draw_surface(300, 400)
    picture[100:110, 100:110] = 255
    usual = cv2.getNumThreads()
    try:
        cv2.setNumThreads(1)
        alone = clean(step, picture).array
        cv2.setNumThreads(4)
        assert np.array_equal(clean(step, picture).array, alone)
    finally:
        cv2.setNumThreads(usual)


def test_glare_is_painted_like_what_surrounds_it() -> None:
    picture = draw_surface()
    spoilt = picture.copy()
    spoilt[10:14, 20:25] = 255
    cleaned, flag = glare.clean(spoilt, glare.Options())
    assert not flag
    assert abs(cleaned[10:14, 20:25].mean((0, 1)) - (140, 120, 100)).max() < 12
    far = np.s_[25:]
    assert np.array_equal(cleaned[far], picture[far])


def test_what_is_bright_and_coloured_is_no_glare() -> None:
    picture = draw_surface()
    picture[10:14, 20:25] = (255, 200, 0)
    assert np.array_equal(glare.clean(picture, glare.Options()).array, picture)


def test_much_glare_is_flagged_and_not_painted_over() -> None:
    picture = draw_surface()
    picture[10:30, 20:50] = 255
    cleaned, flag = glare.clean(picture, glare.Options(grow=0))
    assert flag == "glare on 12.5% of the picture; at most 5.0% is painted over"
    assert np.array_equal(cleaned, picture)
    assert not glare.clean(picture, glare.Options(grow=0, max_share=0.2)).flag


def test_clahe_raises_faint_contrast_and_keeps_grey_grey() -> None:
    picture = np.full((64, 64, 3), 100, np.uint8)
    picture[::2] = 104
    cleaned = clahe.clean(picture, clahe.Options()).array
    assert cleaned.std() > 1.5 * picture.std()
    assert int(np.ptp(cleaned.astype(int), axis=2).max()) <= 1


def test_denoise_smooths_the_grain_and_keeps_the_edge() -> None:
    rng = np.random.default_rng(0)
    step = np.where(np.arange(64) < 32, 60, 180)[None, :, None]
    picture = (step + rng.normal(0, 5, (64, 64, 3))).clip(0, 255).astype(np.uint8)
    cleaned = denoise.clean(picture, denoise.Options()).array.astype(float)
    assert cleaned[:, 8:24].std() < 0.6 * picture[:, 8:24].std()
    assert (cleaned[:, 33] - cleaned[:, 30]).mean() > 110


def test_a_median_takes_specks_away_and_a_gaussian_grain() -> None:
    picture = np.full((20, 20, 3), 80, np.uint8)
    picture[10, 10] = 255
    assert (blur.clean(picture, blur.Options(median=3, sigma=0)).array == 80).all()
    soft = blur.clean(picture, blur.Options(sigma=2)).array
    assert 80 < soft[10, 10].max() < 90


def test_cropping_keeps_the_region_of_interest() -> None:
    picture = draw_surface(60, 80)
    options = crop.Options(left=0.25, top=0.1, right=0.75, bottom=0.5)
    assert crop.find_frame(80, 60, options) == Window(20, 6, 40, 24)
    assert np.array_equal(crop.clean(picture, options).array, picture[6:30, 20:60])
    assert crop.find_frame(1, 1, options) == Window(0, 0, 1, 1)


@pytest.mark.parametrize(
    ("step", "options", "message"),
    [
        ("crop", {}, "the whole picture is kept"),
        ("crop", {"left": 0.6, "right": 0.4}, r"left \(0.6\) must be smaller than right"),
        ("blur", {"median": 4}, "median must be odd"),
        ("blur", {"sigma": 0}, "nothing to do"),
        ("glare", {"max_share": 0}, "max_share"),
        ("clahe", {"clip": float("inf")}, "clip"),
        ("denoise", {"diameter": 2}, "diameter"),
    ],
)
def test_numbers_out_of_bounds_are_refused(
    step: str, options: dict[str, float], message: str
) -> None:
    with pytest.raises(ValidationError, match=message):
        load_choice("cleaners", step).Options(**options)
