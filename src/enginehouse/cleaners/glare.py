"""Glare: spots that are bright and have no colour are painted over from their surroundings.

A spot where the light hides the surface tells nothing, and draws the eye of a network. Where
glare covers much of a picture, painting would invent a surface: such a picture is flagged and
left as it is.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from enginehouse.artifact import Config
from enginehouse.preparation import Cleaned

LIBRARIES = ("numpy", "opencv-python-headless")


class Options(Config):
    """What is glare, and how it is painted over."""

    brightness: int = Field(
        240, ge=1, le=255, description="Glare has at least this value (V of HSV, 0..255)."
    )
    saturation: int = Field(
        40, ge=0, le=255, description="Glare has at most this saturation (S of HSV, 0..255)."
    )
    grow: int = Field(3, ge=0, le=64, description="Pixels by which spots grow, for their halo.")
    radius: int = Field(3, ge=1, le=32, description="Pixels around a spot that it is painted from.")
    max_share: float = Field(
        0.05, gt=0, le=0.5, description="Largest share of a picture that is painted over."
    )


def clean(array: NDArray[np.uint8], options: Options) -> Cleaned:
    """Paint glare over by the method of Telea (2004), from the edge of each spot inwards."""
    import cv2

    hsv = cv2.cvtColor(array, cv2.COLOR_RGB2HSV)
    spots = (hsv[..., 2] >= options.brightness) & (hsv[..., 1] <= options.saturation)
    if not spots.any():
        return Cleaned(array)
    side = 2 * options.grow + 1
    disc = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (side, side))
    mask = cv2.dilate(spots.astype(np.uint8), disc)
    share = float(mask.mean())
    if share > options.max_share:
        return Cleaned(
            array,
            f"glare on {share:.1%} of the picture; at most {options.max_share:.1%} is painted over",
        )
    return Cleaned(np.asarray(cv2.inpaint(array, mask, options.radius, cv2.INPAINT_TELEA)))
