"""Statistics of one picture: what a table can say about pixels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

HASHED_SIDE = 32  # pixels


class Statistics(NamedTuple):
    """What is measured of one picture; the same on every machine.

    Attributes:
        brightness: mean luma (ITU-R BT.601), 0..255.
        contrast: its standard deviation.
        sharpness: variance of the 4-neighbour Laplacian of luma (Pech-Pacheco et al., 2000),
            0 below 3 pixels a side.
        phash: perceptual hash (imagehash's `phash`, 64 bits), hex.
    """

    brightness: float
    contrast: float
    sharpness: float
    phash: str


def measure_picture(picture: NDArray[np.uint8]) -> Statistics:
    """Measure a picture.

    Args:
        picture: uint8 [height, width, 3], RGB.
    """
    import cv2

    luma = np.asarray(cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY), np.uint8)
    mean, deviation = cv2.meanStdDev(luma)
    return Statistics(
        round(float(mean.item()), 3),
        round(float(deviation.item()), 3),
        round(_measure_sharpness(luma), 3),
        _hash_luma(luma),
    )


def _measure_sharpness(luma: NDArray[np.uint8]) -> float:
    """In whole numbers throughout, and their squares summed at once: it must cost little."""
    import cv2

    inside = cv2.Laplacian(luma, cv2.CV_16S, ksize=1)[1:-1, 1:-1]
    if not inside.size:
        return 0.0
    mean = cv2.sumElems(inside)[0] / inside.size
    return float(max(cv2.norm(inside, cv2.NORM_L2SQR) / inside.size - mean**2, 0))


def _hash_luma(luma: NDArray[np.uint8]) -> str:
    """The hash looks at 32 x 32 pixels; halving leads there faster than its own one step."""
    import cv2
    import imagehash
    from PIL import Image

    small = luma
    while min(small.shape) >= 4 * HASHED_SIDE:
        height, width = (side // 2 for side in small.shape)
        even = small[: 2 * height, : 2 * width]
        small = np.asarray(
            cv2.resize(even, (width, height), interpolation=cv2.INTER_AREA), np.uint8
        )
    sides = (HASHED_SIDE, HASHED_SIDE)
    image = Image.fromarray(small).resize(sides, Image.Resampling.BILINEAR)
    bits: NDArray[np.bool_] = imagehash.phash(image).hash
    return np.packbits(bits).tobytes().hex()
