"""Crop: only the region of interest is kept, given by shares of the picture.

Shares and not pixels, so that a camera of another resolution at the same place needs no change.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from enginehouse.artifact import Config
from enginehouse.preparation import Cleaned, Window

LIBRARIES = ("numpy",)


class Options(Config):
    """The edges of what is kept, as shares of width and height from the left and the top."""

    left: float = Field(0, ge=0, lt=1, description="Left edge, as a share of the width.")
    top: float = Field(0, ge=0, lt=1, description="Top edge, as a share of the height.")
    right: float = Field(1, gt=0, le=1, description="Right edge, as a share of the width.")
    bottom: float = Field(1, gt=0, le=1, description="Bottom edge, as a share of the height.")

    @model_validator(mode="after")
    def _check(self) -> Options:
        for low, high in (("left", "right"), ("top", "bottom")):
            if getattr(self, low) >= getattr(self, high):
                raise ValueError(
                    f"{low} ({getattr(self, low)}) must be smaller than {high} "
                    f"({getattr(self, high)})"
                )
        if (self.left, self.top, self.right, self.bottom) == (0, 0, 1, 1):
            raise ValueError("the whole picture is kept; say which part is, or leave the step out")
        return self


def find_frame(width: int, height: int, options: Options) -> Window:
    """What is kept of a picture of that size; at least one pixel."""
    x, wide = _cut(width, options.left, options.right)
    y, high = _cut(height, options.top, options.bottom)
    return Window(x, y, wide, high)


def _cut(length: int, low: float, high: float) -> tuple[int, int]:
    start = min(round(low * length), length - 1)
    return start, max(1, round(high * length) - start)


def clean(array: NDArray[np.uint8], options: Options) -> Cleaned:
    """Keep the region of interest."""
    x, y, width, height = find_frame(array.shape[1], array.shape[0], options)
    return Cleaned(array[y : y + height, x : x + width])
