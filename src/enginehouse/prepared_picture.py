"""From a file to what the network takes: the one door for packing, `predict` and whoever serves.

Does with pixels what `preparation.py` says. Knows nothing of labels, data sets or models.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from enginehouse.choices import load_choice
from enginehouse.picture import REDUCE_ABOVE, decode_picture, resize_picture
from enginehouse.preparation import Cleaning, Preparation, Window, cut_windows


class CleanedPicture(NamedTuple):
    """A picture after all cleaning steps.

    Attributes:
        array: uint8 [height, width, 3], RGB.
        flags: one sentence per step that left the picture as it is.
    """

    array: NDArray[np.uint8]
    flags: tuple[str, ...]


def load_picture(path: Path, preparation: Preparation) -> NDArray[np.uint8]:
    """Decode and prepare: uint8 [n, 3, size, size], RGB; without tiles n is 1.

    Raises:
        UnreadablePicture: the file is no usable picture.
        OSError: the file cannot be read at all.
    """
    return prepare_picture(decode_picture(path).array, preparation)


def prepare_picture(array: NDArray[np.uint8], preparation: Preparation) -> NDArray[np.uint8]:
    """Clean, cut and resize.

    Args:
        array: the decoded picture, uint8 [height, width, 3], RGB.

    Returns:
        uint8 [n, 3, size, size], RGB, one per window, in the order of `cut_windows`.
    """
    cleaned = clean_picture(array, preparation.clean).array
    height, width = cleaned.shape[:2]
    return resize_windows(cleaned, cut_windows(width, height, preparation.tiles), preparation.size)


def clean_picture(array: NDArray[np.uint8], steps: Sequence[Cleaning]) -> CleanedPicture:
    """All cleaning steps, one after the other, on uint8 [height, width, 3], RGB.

    Raises:
        RecipeError: there is no such step here.
    """
    flags = []
    for step in steps:
        cleaner = load_choice("cleaners", step.step)
        array, flag = cleaner.clean(array, cleaner.Options(**step.options))
        flags += [f"{step.step}: {flag}"] if flag else []
    return CleanedPicture(array, tuple(flags))


def resize_windows(
    array: NDArray[np.uint8], windows: Sequence[Window], size: int
) -> NDArray[np.uint8]:
    """Windows of a picture, uint8 [height, width, 3], as uint8 [n, 3, size, size]."""
    made = np.empty((len(windows), 3, size, size), np.uint8)
    for place, (x, y, width, height) in enumerate(windows):
        made[place] = resize_picture(array[y : y + height, x : x + width], size)
    return made


def locate_windows(width: int, height: int, preparation: Preparation) -> tuple[Window, ...]:
    """Where the windows of `prepare_picture` lie in the picture in the file, in its pixels.

    Args:
        width, height: of the upright picture in the file.
    """
    wide, high = find_decoded_size(width, height)
    frame = find_frame(wide, high, preparation.clean)
    across, down = width / wide, height / high  # 1, or about 2 where decoding halves
    return tuple(
        Window(
            round((frame.x + window.x) * across),
            round((frame.y + window.y) * down),
            round(window.width * across),
            round(window.height * down),
        )
        for window in cut_windows(frame.width, frame.height, preparation.tiles)
    )


def find_decoded_size(width: int, height: int) -> tuple[int, int]:
    """Width and height to which a picture of that size in the file is decoded."""
    if width * height > REDUCE_ABOVE:
        return -(-width // 2), -(-height // 2)
    return width, height


def find_frame(width: int, height: int, steps: Sequence[Cleaning]) -> Window:
    """Which part of a decoded picture of that size the cleaning steps leave."""
    frame = Window(0, 0, width, height)
    for step in steps:
        cleaner = load_choice("cleaners", step.step)
        if hasattr(cleaner, "find_frame"):
            options = cleaner.Options(**step.options)
            inner = cleaner.find_frame(frame.width, frame.height, options)
            frame = Window(frame.x + inner.x, frame.y + inner.y, inner.width, inner.height)
    return frame
