"""The two frames of a picture: as it is stored, and upright, as everyone sees it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

Points = tuple[float, ...]  # flat: x, y, x, y, ...

# EXIF orientation to where a point of the stored picture lies in the upright one, from x, y and
# the stored width and height (Exif 2.32, tag 274).
TURNS: dict[int, Callable[[float, float, float, float], tuple[float, float]]] = {
    1: lambda x, y, w, h: (x, y),
    2: lambda x, y, w, h: (w - x, y),
    3: lambda x, y, w, h: (w - x, h - y),
    4: lambda x, y, w, h: (x, h - y),
    5: lambda x, y, w, h: (y, x),
    6: lambda x, y, w, h: (h - y, x),
    7: lambda x, y, w, h: (h - y, w - x),
    8: lambda x, y, w, h: (y, w - x),
}


class Frame(NamedTuple):
    """The true size of a picture.

    Attributes:
        width, height: pixels of the upright picture.
        orientation: EXIF tag that decoding applied.
    """

    width: int
    height: int
    orientation: int

    @property
    def stored(self) -> tuple[int, int]:
        """Width and height as they are stored."""
        exchanged = self.orientation >= 5
        return (self.height, self.width) if exchanged else (self.width, self.height)


def turn_points(points: Points, frame: Frame, size: tuple[int, int]) -> Points:
    """Points in the upright frame.

    Args:
        size: of the picture that they are given for: upright, or as it is stored.
    """
    if size == (frame.width, frame.height):  # also where both are square: people see it upright
        return points
    turn = TURNS[frame.orientation]
    pairs = zip(points[::2], points[1::2], strict=False)
    return tuple(n for x, y in pairs for n in turn(x, y, *size))
