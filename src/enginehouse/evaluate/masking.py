"""Grey holes in pictures, at places that depend on the picture's name alone."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

GREY = 127


def cut_holes(
    pictures: NDArray[np.uint8], names: Sequence[str], num_holes: int, side: int
) -> NDArray[np.uint8]:
    """The pictures with square holes, which may overlap; the given ones stay as they are.

    Args:
        pictures: uint8 [n, 3, size, size].
        names: of each, which its places are drawn from.
        num_holes: per picture.
        side: of a hole, in pixels.
    """
    masked = pictures.copy()
    for picture, name in zip(masked, names, strict=True):
        seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8])
        size = picture.shape[-1]
        places = np.random.default_rng(seed).integers(0, size - side + 1, (num_holes, 2))
        for top, left in places:
            picture[:, top : top + side, left : left + side] = GREY
    return masked
