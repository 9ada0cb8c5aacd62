"""What goes wrong on a surface: scratch, pit, inclusion, stain; each drawn with its true boxes.

Knows nothing of files or cameras. A canvas is float64 [side, side, 3], reflectance 0..1, RGB;
`strength` 0..1 runs from hardly visible to plain.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from enginehouse.sample.surfaces import Field, Generator, grid, smooth, standardise

MIDDLE = 30.0  # a defect's middle lies within this many pixels of the canvas's middle


class Box(NamedTuple):
    """Pixels: left upper corner, width and height."""

    x: int
    y: int
    width: int
    height: int


class Site(NamedTuple):
    """Where a defect is drawn.

    Attributes:
        canvas: float64 [side, side, 3]; drawn into in place.
        contrast: standard deviation of the texture's reflectance, which hides a defect.
        angle: radians, the direction of the tool marks.
        strength: 0..1.
    """

    canvas: Field
    contrast: float
    angle: float
    strength: float


def box_of(mask: Field, level: float = 0.25) -> Box:
    """The smallest box around where a mask (0..1) is over `level`."""
    ys, xs = np.nonzero(mask > level)
    left, top = int(xs.min()), int(ys.min())
    return Box(left, top, int(xs.max()) - left + 1, int(ys.max()) - top + 1)


def _spot(rng: Generator, side: int) -> tuple[float, float]:
    """A place near the middle of the canvas: y, x from the middle."""
    y, x = rng.uniform(-MIDDLE, MIDDLE, 2)
    return float(y), float(x)


def _outline(rng: Generator, dy: Field, dx: Field, roughness: float) -> Field:
    """Radius factor near 1 for each direction: an irregular closed outline."""
    direction = np.arctan2(dy, dx)
    factor = np.ones_like(direction)
    for wave in range(1, 6):
        factor += (
            roughness / (1 + wave) * rng.normal() * np.cos(wave * direction + rng.uniform(0, 6.3))
        )
    return np.maximum(factor, 0.4)


def _edge(distance: Field, width: float) -> Field:
    """1 inside (negative distance), 0 outside, a smooth step of `width` pixels between."""
    return 1 / (1 + np.exp(np.clip(distance / (0.25 * width), -50, 50)))


def draw_scratch(rng: Generator, site: Site) -> list[Box]:
    """A thin bent line across the tool marks: dark groove, bright burr beside it, fading ends."""
    side = site.canvas.shape[0]
    y, x = grid(side)
    at_y, at_x = _spot(rng, side)
    angle = site.angle + rng.choice([-1, 1]) * rng.uniform(0.45, 1.5)
    u = (x - at_x) * np.cos(angle) + (y - at_y) * np.sin(angle)
    v = (y - at_y) * np.cos(angle) - (x - at_x) * np.sin(angle)
    half, bend = rng.uniform(20, 42), rng.uniform(-0.004, 0.004)
    v = v - bend * u**2
    width = rng.uniform(1.1, 1.6) + 0.4 * site.strength
    taper = _edge(np.abs(u) - half, 6.0)
    pressure = 1 + 0.25 * np.interp(u, np.linspace(-half, half, 9), rng.standard_normal(9))
    groove = np.exp(-((v / width) ** 2)) * taper
    burr = np.exp(-(((v - 1.9 * width) / width) ** 2)) * taper
    depth = site.contrast * (2.0 + 2.0 * site.strength) + 0.08 + 0.08 * site.strength
    shading = -depth * groove + 0.6 * depth * burr
    if rng.random() < 0.4:
        shading = -shading  # seen against the light, the groove shines and the burr is dark
    site.canvas[:] += (shading * pressure)[:, :, None]
    return [box_of(np.maximum(groove, 0.6 * burr))]


def draw_pit(rng: Generator, site: Site) -> list[Box]:
    """One to four small holes, darkest on the side of the light, with a bright far rim."""
    side = site.canvas.shape[0]
    y, x = grid(side)
    at_y, at_x = _spot(rng, side)
    light = rng.uniform(0, 2 * np.pi)
    boxes = []
    for _ in range(rng.integers(1, 5)):
        dy, dx = y - at_y - rng.uniform(-14, 14), x - at_x - rng.uniform(-14, 14)
        radius = rng.uniform(2.8, 3.8) + 1.4 * site.strength
        away = np.hypot(dx, dy) / _outline(rng, dy, dx, 0.2)
        hole = _edge(away - radius, 1.2)
        rim = np.exp(-((away - radius - 0.9) ** 2))
        side_lit = (np.cos(light) * dx + np.sin(light) * dy) / np.maximum(np.hypot(dx, dy), 1)
        depth = site.contrast * (2.0 + 1.0 * site.strength) + 0.15 + 0.12 * site.strength
        shading = -depth * hole * (1 - 0.4 * side_lit)
        shading += 0.7 * depth * rim * np.clip(side_lit, 0, 1)
        site.canvas[:] += shading[:, :, None]
        boxes.append(box_of(hole))
    return boxes


def draw_inclusion(rng: Generator, site: Site) -> list[Box]:
    """A foreign grain rolled into the metal: sharp, drawn out, the tool marks stop at it."""
    side = site.canvas.shape[0]
    y, x = grid(side)
    at_y, at_x = _spot(rng, side)
    angle = site.angle + rng.normal(0, 0.35)
    u = (x - at_x) * np.cos(angle) + (y - at_y) * np.sin(angle)
    v = (y - at_y) * np.cos(angle) - (x - at_x) * np.sin(angle)
    long, short = rng.uniform(9, 14) + 4 * site.strength, rng.uniform(4.0, 6.5)
    away = np.hypot(u / long, v / short) / _outline(rng, v, u, 0.3)
    mask = _edge((away - 1) * short, 0.9)
    speckle = standardise(smooth(rng.standard_normal((side, side)), 1.0, 1.0))
    tone = site.canvas.mean(axis=(0, 1)) * rng.uniform([1.05, 0.97, 0.8], [1.15, 1.0, 0.9])
    drop = 0.08 + site.contrast * (1.0 + 1.0 * site.strength) + 0.1 * site.strength
    grain = (tone - drop) + (0.04 * speckle)[:, :, None]
    site.canvas[:] += mask[:, :, None] * (grain - site.canvas)
    return [box_of(mask)]


def draw_stain(rng: Generator, site: Site) -> list[Box]:
    """A dried drop: a wide tinted shade that the tool marks show through, darker at its edge."""
    side = site.canvas.shape[0]
    y, x = grid(side)
    at_y, at_x = _spot(rng, side)
    dy, dx = y - at_y, (x - at_x) * rng.uniform(0.75, 1.3)
    radius = rng.uniform(16, 30)
    away = np.hypot(dx, dy) / _outline(rng, dy, dx, 0.22)
    inside = _edge(away - radius, rng.uniform(3, 9))
    edge = np.exp(-(((away - radius) / 2.2) ** 2))
    cloud = 1 + 0.3 * standardise(smooth(rng.standard_normal((side, side)), 7, 7))
    loss = 0.13 + 0.8 * site.contrast + 0.13 * site.strength
    share = loss * (inside * cloud + rng.uniform(0.2, 0.8) * edge)
    tint = np.array([(0.8, 1.0, 1.3), (1.25, 1.0, 0.8), (1.0, 1.0, 1.0)][rng.integers(3)])
    site.canvas[:] *= 1 - share[:, :, None] * tint
    return [box_of(inside)]


DEFECTS: dict[str, Callable[[Generator, Site], list[Box]]] = {
    "scratch": draw_scratch,
    "pit": draw_pit,
    "inclusion": draw_inclusion,
    "stain": draw_stain,
}
