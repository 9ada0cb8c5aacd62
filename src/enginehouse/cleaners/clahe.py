"""CLAHE on luma: contrast that is raised place by place, so that faint marks show everywhere.

Colours keep their hue, as only the brightness is changed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from enginehouse.artifact import Config
from enginehouse.preparation import Cleaned

LIBRARIES = ("numpy", "opencv-python-headless")


class Options(Config):
    """How far contrast is raised, and how locally."""

    clip: float = Field(
        2.0, gt=0, le=40, description="Most by which contrast, and noise with it, is raised."
    )
    grid: int = Field(8, ge=1, le=64, description="Fields along each side; each has its own curve.")


def clean(array: NDArray[np.uint8], options: Options) -> Cleaned:
    """Contrast-limited adaptive histogram equalisation (Zuiderveld 1994) of Y of YCrCb."""
    import cv2

    grid = (min(options.grid, array.shape[1]), min(options.grid, array.shape[0]))
    colours = cv2.cvtColor(array, cv2.COLOR_RGB2YCrCb)
    equalise = cv2.createCLAHE(clipLimit=options.clip, tileGridSize=grid)
    colours[..., 0] = equalise.apply(np.ascontiguousarray(colours[..., 0]))
    return Cleaned(np.asarray(cv2.cvtColor(colours, cv2.COLOR_YCrCb2RGB), np.uint8))
