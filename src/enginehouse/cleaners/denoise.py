"""Denoise: grain is smoothed, edges are kept, by a bilateral filter."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from enginehouse.artifact import Config
from enginehouse.preparation import Cleaned

LIBRARIES = ("numpy", "opencv-python-headless")


class Options(Config):
    """How far around each pixel is looked, and what still counts as the same surface."""

    diameter: int = Field(7, ge=3, le=25, description="Diameter of the neighbourhood, in pixels.")
    levels: float = Field(
        25, gt=0, le=255, description="Grey levels that are noise; a larger step is an edge."
    )
    spread: float = Field(
        3, gt=0, le=25, description="Pixels over which a neighbour's weight falls off."
    )


def clean(array: NDArray[np.uint8], options: Options) -> Cleaned:
    """Bilateral filter (Tomasi and Manduchi 1998) over all three colours together."""
    import cv2

    smooth = cv2.bilateralFilter(array, options.diameter, options.levels, options.spread)
    return Cleaned(np.asarray(smooth, np.uint8))
