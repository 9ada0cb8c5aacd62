"""What a model family is: the names in the modules under `models/`.

A family builds architectures by name, and knows where weights for them can be had.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import torch

Weights = dict[str, "torch.Tensor"]  # tensors by name, on the CPU


@dataclass(frozen=True)
class DefaultWeights:
    """The weights that a library offers for an architecture.

    Attributes:
        path: the file, here.
        source: where it came from, for people.
        mean, std: what they were trained with, per channel on the 0..1 scale.
    """

    path: Path
    source: str
    mean: tuple[float, float, float]
    std: tuple[float, float, float]


class Family(Protocol):
    """The names in a module under `models/`."""

    LIBRARIES: tuple[str, ...]  # distributions whose versions its networks depend on

    def list_names(self) -> list[str]:
        """Its architectures, sorted."""

    def check_name(self, name: str) -> None:
        """Check that the architecture exists. Raises RecipeError, naming the nearest ones."""

    def build_model(self, name: str, num_classes: int) -> torch.nn.Module:
        """The architecture in training mode, its weights random from torch's current seed.

        Nothing is downloaded. Returns a module from float32 [n, 3, size, size] (normalised) to
        logits [n, num_classes]. Raises RecipeError: no such architecture.
        """

    def find_default(self, name: str) -> DefaultWeights:
        """The weights that the library offers; downloaded once, into the library's own cache.

        Raises RecipeError: there are none, or they could not be had; says what to do.
        """

    def adapt_weights(self, name: str, weights: Weights) -> Weights:
        """Tensors of a file by the names that this family's networks give them.

        What belongs to no part of the network that is built here is left out. Raises RecipeError:
        a file of the library's own that does not fit its network.
        """
