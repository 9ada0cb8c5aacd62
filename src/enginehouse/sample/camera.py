"""The camera over the belt: light, glare, focus, noise, and the window that it sees.

Knows nothing of what lies on the surface beyond the boxes that must stay in view.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from enginehouse.sample.defects import Box
from enginehouse.sample.surfaces import Field, Generator, grid, smooth

SIDES = (96, 112, 128, 144, 160)  # pixels; width and height are drawn apart
MARGIN = 3


def choose_window(rng: Generator, side: int, boxes: list[Box]) -> Box:
    """A window of the canvas in which every box lies whole, a margin away from the edges."""
    width, height = (int(size) for size in rng.choice(SIDES, 2))
    if rng.random() < 0.5:
        height = width
    starts, sizes = [], []
    for size, spans in (
        (width, [(box.x, box.x + box.width) for box in boxes]),
        (height, [(box.y, box.y + box.height) for box in boxes]),
    ):
        first = min((start for start, _ in spans), default=side) - MARGIN
        last = max((end for _, end in spans), default=0) + MARGIN
        sizes.append(next(fit for fit in SIDES if fit >= max(size, last - first)))
        low, high = max(0, last - sizes[-1]), min(side - sizes[-1], first)
        starts.append(int(rng.integers(low, high + 1)))
    return Box(starts[0], starts[1], sizes[0], sizes[1])


def _light(rng: Generator, side: int, angle: float) -> Field:
    """Lamp from one side, and glare drawn out across the tool marks in a third of the shots."""
    y, x = grid(side)
    towards = rng.uniform(0, 2 * np.pi)
    slope = rng.uniform(0, 0.35) / (side / 2)
    light: Field = rng.uniform(0.75, 1.2) * (
        1 + slope * (x * np.cos(towards) + y * np.sin(towards))
    )
    if rng.random() < 0.35:
        across = angle + np.pi / 2
        dy, dx = y - rng.uniform(-50, 50), x - rng.uniform(-50, 50)
        u = (dx * np.cos(across) + dy * np.sin(across)) / rng.uniform(30, 70)
        v = (dy * np.cos(across) - dx * np.sin(across)) / rng.uniform(10, 25)
        light = light + rng.uniform(0.15, 0.6) * np.exp(-(u**2) - v**2)
    return light


def take_picture(rng: Generator, canvas: Field, angle: float, window: Box) -> NDArray[np.uint8]:
    """One shot of a canvas.

    Args:
        rng: what light, focus and noise are drawn from.
        canvas: float64 [side, side, 3], reflectance.
        angle: radians, the direction of the tool marks.
        window: what the camera sees.

    Returns:
        uint8 [window.height, window.width, 3], RGB.
    """
    seen = canvas * _light(rng, canvas.shape[0], angle)[:, :, None]
    blur = rng.uniform(0.3, 0.9) if rng.random() < 0.75 else rng.uniform(0.9, 1.5)
    rows = slice(window.y, window.y + window.height)
    columns = slice(window.x, window.x + window.width)
    sharp = np.stack([smooth(seen[:, :, band], blur, blur) for band in range(3)], axis=2)
    shot = np.clip(sharp[rows, columns], 0.0, None)
    grain = rng.standard_normal((window.height, window.width, 1))
    shot = shot + grain * rng.uniform(0.006, 0.02) * np.sqrt(shot + 0.05)
    return np.round(255 * np.clip(shot, 0, 1)).astype(np.uint8)
