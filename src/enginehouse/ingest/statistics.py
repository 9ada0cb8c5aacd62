"""Statistics of one picture: what a table can say about pixels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

LUMA = np.array([0.299, 0.587, 0.114], np.float32)  # ITU-R BT.601


def measure_picture(picture: NDArray[np.uint8]) -> dict[str, float]:
    """Brightness, contrast and sharpness of a picture.

    Args:
        picture: uint8 [height, width, 3], RGB.

    Returns:
        brightness: mean luma, 0..255; contrast: its standard deviation; sharpness: variance of
        the 4-neighbour Laplacian of luma (Pech-Pacheco et al., 2000), 0 below 3 pixels a side.
    """
    luma = picture.astype(np.float32) @ LUMA
    centre = luma[1:-1, 1:-1]
    laplacian = luma[:-2, 1:-1] + luma[2:, 1:-1] + luma[1:-1, :-2] + luma[1:-1, 2:] - 4 * centre
    return {
        "brightness": round(float(luma.mean()), 3),
        "contrast": round(float(luma.std()), 3),
        "sharpness": round(float(laplacian.var()), 3) if laplacian.size else 0.0,
    }
