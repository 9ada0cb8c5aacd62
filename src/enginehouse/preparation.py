"""What happens to a decoded picture before the network sees it, as data that travels.

Cleaning steps, then windows (or the whole picture), then one resize. A `Preparation` goes with
the pack, the model and the engine's contract, so whoever serves does what training did, through
`prepared_picture.py`. This file knows no pixels: it says what is wanted, where the windows lie,
and how their scores become the picture's.

Three frames of pixels occur. The picture as it lies in the file, upright: boxes are in these. The
decoded picture: the same, but halved where it is very large. The cleaned picture: the part of the
decoded one that cropping leaves; windows are cut in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from enginehouse.artifact import Config


class Cleaning(Config):
    """One cleaning step, by name."""

    step: str = Field(description="Name of a cleaning step.")
    options: dict[str, float] = Field(
        {}, description="Its numbers, where they differ from the defaults."
    )


class Tiling(Config):
    """Windows of one size over a large picture."""

    size: int = Field(
        ge=16, le=8192, description="Side of the square window, in pixels of the picture."
    )
    overlap: float = Field(
        0.25, ge=0, le=0.9, description="Least share of a window that its neighbour covers, too."
    )


class Preparation(Config):
    """What happens to a decoded picture before the network sees it.

    Attributes:
        size: side of the square that the network takes, in pixels.
        clean: steps on the whole picture, in order, with all their numbers.
        tiles: windows that are cut from it; None: the whole picture, squashed to the square.
        good: with tiles, the class that means nothing was found in a window; "" without.
    """

    size: int
    clean: tuple[Cleaning, ...] = ()
    tiles: Tiling | None = None
    good: str = ""


class Window(NamedTuple):
    """A part of a picture: left and top edge, width and height, in pixels."""

    x: int
    y: int
    width: int
    height: int


class Cleaned(NamedTuple):
    """What a cleaning step makes of a picture.

    Attributes:
        array: uint8 [height, width, 3], RGB.
        flag: why the step left the picture as it is though there was something to clean, or "".
    """

    array: NDArray[np.uint8]
    flag: str = ""


class Cleaner(Protocol):
    """The names in a module under `cleaners/`.

    A step that changes more than colours has `find_frame(width, height, options) -> Window`, too:
    which part of a picture of that size is left, at the same scale.
    """

    LIBRARIES: tuple[str, ...]  # distributions whose versions its results depend on
    Options: type[Config]  # its numbers, bounded and described

    def clean(self, array: NDArray[np.uint8], options: Any) -> Cleaned:
        """Clean a picture, uint8 [height, width, 3], RGB, without changing the array itself."""


def cut_windows(width: int, height: int, tiling: Tiling | None) -> tuple[Window, ...]:
    """The windows over a cleaned picture, row by row; without tiling the whole picture is one.

    They cover the picture, evenly spread, so that the last one ends at its edge, and overlap by
    at least the share that is wanted. A window never exceeds the picture: along a side that is
    shorter than a window there is one, as long as that side.
    """
    if tiling is None:
        return (Window(0, 0, width, height),)
    wide, high = min(tiling.size, width), min(tiling.size, height)
    return tuple(
        Window(x, y, wide, high)
        for y in _spread(height, high, tiling.overlap)
        for x in _spread(width, wide, tiling.overlap)
    )


def _spread(length: int, window: int, overlap: float) -> list[int]:
    """Where the windows along one side begin."""
    step = max(1, int(window * (1 - overlap)))
    gaps = -(-(length - window) // step)
    return [round(place * (length - window) / gaps) for place in range(gaps + 1)] if gaps else [0]


def measure_shares(windows: NDArray[np.float64], boxes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Share of each box's area that each window shows, [windows, boxes].

    Args:
        windows, boxes: left, top, width, height in the same pixels, [n, 4].
    """
    start = np.maximum(windows[:, None, :2], boxes[None, :, :2])
    stop = np.minimum(
        windows[:, None, :2] + windows[:, None, 2:], boxes[None, :, :2] + boxes[None, :, 2:]
    )
    shares: NDArray[np.float64] = (stop - start).clip(0).prod(axis=2) / boxes[:, 2:].prod(axis=1)
    return shares


def fold_scores(
    scores: NDArray[np.float32], classes: Sequence[str], good: str
) -> NDArray[np.float32]:
    """The probabilities of a picture from those of its windows.

    The window that speaks most against good, by its lead over good, speaks for the picture: one
    window that answers with a defect makes the picture defective, however many are clean.

    Args:
        scores: float32 [n, classes], one row per window; without tiles n is 1.
        classes: their names by index.
        good: the class that means nothing was found; "" without tiles.

    Returns:
        float32 [classes].
    """
    worst = 0
    if len(scores) > 1:
        place = list(classes).index(good)
        # Not the least probability of good: among several classes good may still be the answer.
        lead = np.delete(scores, place, axis=1).max(axis=1) - scores[:, place]
        worst = int(lead.argmax())
    folded: NDArray[np.float32] = scores[worst]
    return folded
