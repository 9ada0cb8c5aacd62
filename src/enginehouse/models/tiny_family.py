"""Small plain CNNs that train in seconds on a CPU: for smoke tests and first tries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginehouse.choices import suggest
from enginehouse.errors import RecipeError
from enginehouse.family import DefaultWeights, Weights

if TYPE_CHECKING:
    import torch

LIBRARIES = ("torch",)

# Name to the channels of each level; every level after the first halves the side.
_CHANNELS = {"tiny_cnn": (16, 32, 64), "tiny_cnn_wide": (32, 64, 128)}


def list_names() -> list[str]:
    """The architectures of this family."""
    return sorted(_CHANNELS)


def check_name(name: str) -> None:
    """Check that the architecture exists.

    Raises:
        RecipeError: it does not; names the nearest ones.
    """
    if name not in _CHANNELS:
        raise RecipeError(
            f"model.name: the tiny family has no architecture named {name!r}"
            f"{suggest(name, _CHANNELS)}.",
            f"Use one of {', '.join(list_names())}, or family: torchvision.",
        )


def build_model(name: str, num_classes: int) -> torch.nn.Module:
    """Build a CNN for `num_classes`, in training mode, weights random from torch's current seed.

    It has what a quantizer meets in a ResNet: convolutions with BatchNorm, a max pool, residual
    additions (He et al., https://arxiv.org/abs/1512.03385) and a global average pool.

    Returns:
        A module from float32 [n, 3, size, size] (normalised, size at least 16) to logits
        [n, num_classes].

    Raises:
        RecipeError: no such architecture.
    """
    from torch import nn

    check_name(name)
    first, *later = _CHANNELS[name]
    layers: list[nn.Module] = [*_convolution(3, first), nn.ReLU(), nn.MaxPool2d(2)]
    width = first
    for channels in later:
        layers.append(_residual_block(width, channels))
        width = channels
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, num_classes)]
    return nn.Sequential(*layers, *head)


def find_default(name: str) -> DefaultWeights:
    """There are none.

    Raises:
        RecipeError: always.
    """
    check_name(name)
    raise RecipeError(
        f"weights: the tiny family offers none for {name}.",
        "Set weights: none, or a file of your own.",
    )


def adapt_weights(name: str, weights: Weights) -> Weights:
    """Unchanged: there are no weights with other names."""
    return weights


def _convolution(
    channels_in: int, channels_out: int, stride: int = 1
) -> tuple[torch.nn.Module, ...]:
    from torch import nn

    return (
        nn.Conv2d(channels_in, channels_out, 3, stride, padding=1, bias=False),
        nn.BatchNorm2d(channels_out),
    )


def _residual_block(channels_in: int, channels_out: int) -> torch.nn.Module:
    """Two convolutions beside a 1x1 one, added; the side is halved."""
    from torch import nn

    class ResidualBlock(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(
                *_convolution(channels_in, channels_out, stride=2),
                nn.ReLU(),
                *_convolution(channels_out, channels_out),
            )
            self.skip = nn.Sequential(
                nn.Conv2d(channels_in, channels_out, 1, stride=2, bias=False),
                nn.BatchNorm2d(channels_out),
            )
            self.relu = nn.ReLU()

        def forward(self, pictures: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.relu(self.body(pictures) + self.skip(pictures))
            return out

    return ResidualBlock()
