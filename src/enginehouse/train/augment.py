"""Random changes of training pictures that leave their class alone; never used elsewhere.

Each picture's change depends on the numbers of its `Draw` alone. Mixing pictures with each other
is another matter: `mixing.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, model_validator

from enginehouse.artifact import Config
from enginehouse.train.erasing import cut_out
from enginehouse.train.geometry import turn_and_zoom, turn_quarters
from enginehouse.train.randomness import Draw, seeded

if TYPE_CHECKING:
    import torch

Angle = Annotated[float, Field(ge=-360, le=360)]
Zoom = Annotated[float, Field(ge=0.25, le=4)]


class AugmentConfig(Config):
    """How training pictures are varied."""

    flip_horizontal: bool = Field(True, description="Mirror half of the pictures left to right.")
    flip_vertical: bool = Field(False, description="Mirror half of the pictures top to bottom.")
    shift: float = Field(
        0.06, ge=0, le=0.5, description="Largest shift in each direction, as a share of the side."
    )
    angles: tuple[Angle, ...] = Field(
        (),
        max_length=360,
        description="Angles in degrees, counter-clockwise, of which each picture gets one: 0, 90, "
        "180, 270 for parts that lie any way round; -5, 0, 5 for parts that lie nearly straight. "
        "None: no rotation. Corners are filled by repeating the edge.",
    )
    scale: tuple[Zoom, Zoom] = Field(
        (1.0, 1.0),
        description="Smallest and largest magnification about the middle; below 1, the edge is "
        "repeated around the picture.",
    )
    brightness: float = Field(
        0.15, ge=0, lt=1, description="Largest relative change of brightness, up or down."
    )
    contrast: float = Field(
        0.0, ge=0, lt=1, description="Largest relative change of contrast, up or down."
    )
    noise: float = Field(
        0.0, ge=0, le=64, description="Standard deviation of Gaussian noise, in grey levels."
    )
    cutout: int = Field(
        0, ge=0, le=64, description="Squares per picture that are painted over with the mean."
    )
    cutout_side: float = Field(
        0.25, gt=0, le=1, description="Side of those squares, as a share of the picture's."
    )
    rand_augment: int = Field(
        0,
        ge=0,
        le=8,
        description="RandAugment: random operations per picture; 0: none. Some of them move "
        "colours far: look at first_batch.png.",
    )
    rand_augment_magnitude: int = Field(9, ge=0, le=30, description="How strong those are.")
    mixup: float = Field(
        0.0,
        ge=0,
        le=8,
        description="MixUp: alpha of the Beta distribution by which two pictures and their "
        "labels are blended; 0: none. With cutmix too, each batch gets one of the two.",
    )
    cutmix: float = Field(
        0.0,
        ge=0,
        le=8,
        description="CutMix: alpha of the Beta distribution of the share of a picture that is "
        "replaced by another's; 0: none.",
    )

    @model_validator(mode="after")
    def _check_scale(self) -> AugmentConfig:
        low, high = self.scale
        if low > high:
            raise ValueError(f"scale must be a smallest and a largest, found {low} and {high}")
        return self

    @property
    def mixes(self) -> bool:
        """Whether pictures are mixed with each other."""
        return self.mixup > 0 or self.cutmix > 0


def augment(
    pictures: torch.Tensor, config: AugmentConfig, draw: Draw, fill: Sequence[float]
) -> torch.Tensor:
    """Vary each picture on its own.

    Args:
        pictures: uint8 [n, 3, size, size].
        config: the largest changes.
        draw: the random numbers of the batch.
        fill: colour of what is painted over, per channel, 0..255.

    Returns:
        float32 [n, 3, size, size] on the 0..255 scale, in channels_last memory.
    """
    device = pictures.device
    flip_x, flip_y, shift_x, shift_y, light = draw.uniform(5)
    if config.rand_augment:
        pictures = _rand_augment(pictures, config, draw, fill)
    size = pictures.shape[2]
    columns = _find_places(size, flip_x, config.flip_horizontal, shift_x, config.shift)
    rows = _find_places(size, flip_y, config.flip_vertical, shift_y, config.shift)
    varied = _gather(pictures, rows, columns)  # nobody else's, so it may be changed in place
    if config.angles or config.scale != (1, 1):
        varied = _turn(varied, config, draw)
    factor = 1 + (2 * light.to(device) - 1) * config.brightness
    if config.contrast:
        varied = _change_contrast(varied, config.contrast, draw)
    varied.mul_(factor.view(-1, 1, 1, 1))
    if config.noise:
        varied.add_(_draw_noise(varied, draw), alpha=config.noise)
    varied.clamp_(0, 255)
    if config.cutout:
        centres = draw.uniform(2 * config.cutout).view(config.cutout, 2, -1)
        varied = cut_out(varied, centres, config.cutout_side, fill)
    return varied


def _gather(pictures: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    """Pixel (i, j) of picture k is taken from (rows[k, i], columns[k, j]).

    Lines are moved as a whole, and the pixels in them channel by channel to where the network wants
    them: a third of the time that indexing by both at once takes.

    Returns:
        float32 [n, 3, size, size], in channels_last memory.
    """
    import torch

    device, (num, channels, size, _) = pictures.device, pictures.shape
    firsts = size * torch.arange(num * channels, device=device).view(num, channels, 1)
    lines = (firsts + rows.to(device).unsqueeze(1)).flatten()
    moved = pictures.reshape(-1, size).index_select(0, lines).view(num, channels, size, size)
    across = columns.to(device).unsqueeze(1).expand(num, size, size)
    gathered = torch.empty(num, size, size, channels, device=device)
    for channel in range(channels):
        gathered[..., channel] = moved[:, channel].gather(2, across)
    return gathered.permute(0, 3, 1, 2)


def _find_places(
    size: int, flip: torch.Tensor, may_flip: bool, shift: torch.Tensor, largest: float
) -> torch.Tensor:
    """Where each pixel along one axis is taken from: int64 [n, size]."""
    import torch

    offset = ((2 * shift - 1) * largest * size).round().long()
    places = (torch.arange(size) + offset.unsqueeze(1)).clamp(0, size - 1)
    mirrored = (flip < 0.5) & may_flip
    return torch.where(mirrored.unsqueeze(1), size - 1 - places, places)


def _turn(pictures: torch.Tensor, config: AugmentConfig, draw: Draw) -> torch.Tensor:
    """One of the angles and a magnification each; quarter turns move pixels, and nothing else."""
    import torch

    which, how_large = draw.uniform(2)
    angles = torch.tensor(config.angles or (0.0,))
    degrees = angles[(which * len(angles)).long().clamp(max=len(angles) - 1)]
    quarters = (degrees / 90).round()
    low, high = config.scale
    zoom = low * (high / low) ** how_large  # as often twice as large as half as large
    turned = turn_quarters(pictures, quarters.long() % 4)
    return turn_and_zoom(turned, degrees - 90 * quarters, zoom)


def _change_contrast(pictures: torch.Tensor, largest: float, draw: Draw) -> torch.Tensor:
    """Towards each picture's mean, or away from it; float32 [n, 3, size, size]."""
    strength = draw.uniform(1)[0].to(pictures.device).view(-1, 1, 1, 1)
    mean = pictures.mean((1, 2, 3), keepdim=True)
    return mean + (pictures - mean) * (1 + (2 * strength - 1) * largest)


def _draw_noise(pictures: torch.Tensor, draw: Draw) -> torch.Tensor:
    """Standard normal numbers, float32 [n, 3, size, size], drawn where the pictures are."""
    import torch

    noise = torch.empty(pictures.shape, device=pictures.device)
    generator = torch.Generator(pictures.device)
    for numbers, seed in zip(noise, draw.seeds(), strict=True):
        numbers.normal_(generator=generator.manual_seed(seed))
    return noise


def _rand_augment(
    pictures: torch.Tensor, config: AugmentConfig, draw: Draw, fill: Sequence[float]
) -> torch.Tensor:
    """RandAugment (https://arxiv.org/abs/1909.13719), uint8 [n, 3, size, size]."""
    import torch
    from torchvision.transforms import v2

    transform = v2.RandAugment(
        config.rand_augment, config.rand_augment_magnitude, fill=[float(value) for value in fill]
    )
    varied = []
    for picture, seed in zip(pictures, draw.seeds(), strict=True):
        with seeded(seed):
            varied.append(transform(picture))
    return torch.stack(varied)
