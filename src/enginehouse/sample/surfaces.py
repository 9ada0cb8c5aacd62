"""Machined metal as numpy draws it: milled, turned, ground and brushed, and what belongs on it.

Knows nothing of defects, cameras or files. A surface is float64 [side, side] around 0 with a
standard deviation near 1: how much more or less light than the average each point sends back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Field = NDArray[np.float64]
Generator = np.random.Generator


class Surface(NamedTuple):
    """A texture and the direction (radians) in which its tool marks run, where they are lines."""

    texture: Field
    angle: float


def grid(side: int) -> tuple[Field, Field]:
    """Coordinates y, x of every pixel, measured from the middle."""
    y, x = np.mgrid[0:side, 0:side].astype(np.float64) - (side - 1) / 2
    return y, x


def smooth(field: Field, along: float, across: float, angle: float = 0.0) -> Field:
    """Gaussian blur in the Fourier domain, wrapping around the edges.

    Args:
        field: float64 [height, width].
        along: standard deviation in pixels in the direction of `angle`.
        across: the same, at a right angle to it.
        angle: radians from the x axis towards the y axis.
    """
    fy = np.fft.fftfreq(field.shape[0])[:, None]
    fx = np.fft.rfftfreq(field.shape[1])[None, :]
    u, v = fx * np.cos(angle) + fy * np.sin(angle), fy * np.cos(angle) - fx * np.sin(angle)
    transfer = np.exp(-2 * np.pi**2 * ((along * u) ** 2 + (across * v) ** 2))
    blurred: Field = np.fft.irfft2(np.fft.rfft2(field) * transfer, s=field.shape)
    return blurred


def standardise(field: Field) -> Field:
    """The same field with mean 0 and standard deviation 1."""
    standard: Field = (field - field.mean()) / field.std()
    return standard


def directional_noise(
    rng: Generator, side: int, angle: float, along: float, across: float
) -> Field:
    """Noise drawn out in one direction, standard deviation 1."""
    return standardise(smooth(rng.standard_normal((side, side)), along, across, angle))


def _cut_profile(rng: Generator, distance: Field, pitch: float, roughness: float) -> Field:
    """Tool marks: a cut that repeats every `pitch` pixels of `distance`, each pass different."""
    passes = int(distance.max() / pitch) + 3
    wander = np.interp(
        distance / pitch, np.arange(passes), rng.normal(0, 0.12, passes).cumsum() * 0.3
    )
    phase = 2 * np.pi * (distance / pitch + wander)
    depth = np.interp(distance / pitch, np.arange(passes), rng.uniform(0.5, 1.5, passes))
    knots = np.arange(0, distance.max() + 3, 0.8)
    scatter = np.interp(distance, knots, rng.standard_normal(knots.size))
    return depth * (np.sin(phase) + 0.35 * np.sin(2 * phase + 1.0)) + roughness * scatter


def _milled(rng: Generator, side: int) -> Surface:
    """Arcs of a face mill, and the weaker arcs that its trailing edge leaves."""
    y, x = grid(side)
    angle, pitch = rng.uniform(0, 2 * np.pi), rng.uniform(5.0, 10.0)
    texture = np.zeros_like(x)
    for turn, weight in ((0.0, 1.0), (np.pi, rng.uniform(0.1, 0.5))):
        reach = rng.uniform(200, 500)
        away = angle + turn + rng.normal(0, 0.1)
        distance = np.hypot(x - reach * np.cos(away), y - reach * np.sin(away))
        texture += weight * _cut_profile(rng, distance, pitch, 0.5)
    texture += 0.5 * directional_noise(rng, side, angle + np.pi / 2, 5, 0.7)
    return Surface(texture, angle + np.pi / 2)


def _turned(rng: Generator, side: int) -> Surface:
    """Rings of a faced end with the two light wedges that rings show under a lamp."""
    y, x = grid(side)
    angle, reach = rng.uniform(0, 2 * np.pi), rng.uniform(0.1, 1.4) * side
    dy, dx = y - reach * np.sin(angle), x - reach * np.cos(angle)
    distance = np.hypot(dx, dy)
    texture = _cut_profile(rng, distance, rng.uniform(2.6, 5.0), 0.9)
    wedge = np.cos(2 * (np.arctan2(dy, dx) - rng.uniform(0, np.pi)))
    texture += rng.uniform(0.2, 0.8) * wedge * np.minimum(1, distance / 20)
    return Surface(texture, angle + np.pi / 2)


def _ground(rng: Generator, side: int) -> Surface:
    """Long fine lines of a grinding wheel in bands of differing strength."""
    angle = rng.uniform(0, np.pi)
    fine = directional_noise(rng, side, angle, 60, 0.6)
    bands = directional_noise(rng, side, angle, 90, rng.uniform(3, 9))
    return Surface(fine * (1 + 0.25 * bands) + 0.45 * bands, angle)


def _brushed(rng: Generator, side: int) -> Surface:
    """Short overlapping strokes of a brush or belt."""
    angle = rng.uniform(0, np.pi)
    long = directional_noise(rng, side, angle + rng.normal(0, 0.04), rng.uniform(14, 28), 0.8)
    short = directional_noise(rng, side, angle + rng.normal(0, 0.08), 7, 0.6)
    return Surface(long + 0.6 * short, angle)


FINISHES: dict[str, Callable[[Generator, int], Surface]] = {
    "milled": _milled,
    "turned": _turned,
    "ground": _ground,
    "brushed": _brushed,
}


def draw_surface(rng: Generator, side: int) -> Surface:
    """A surface of one of `FINISHES`, with grain, soft unevenness and now and then a heavy mark.

    Heavy marks run with the tool, as a scratch seldom does, and soft unevenness is weaker than a
    stain: both belong to good parts too.
    """
    finish = list(FINISHES.values())[rng.integers(len(FINISHES))]
    texture, angle = finish(rng, side)
    texture = standardise(texture)
    texture += 0.3 * rng.standard_normal(texture.shape)
    texture += rng.uniform(0.1, 0.5) * directional_noise(rng, side, 0.0, 26, 26)
    if rng.random() < 0.35:
        y, x = grid(side)
        offset = -x * np.sin(angle) + y * np.cos(angle) - rng.uniform(-60, 60)
        texture += rng.uniform(-1.6, 1.6) * np.exp(-((offset / rng.uniform(0.8, 1.6)) ** 2))
    return Surface(standardise(texture), angle)
