"""What train leaves behind, and what every later form of the network carries along."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from enginehouse.artifact import Config, Record
from enginehouse.choices import Choice
from enginehouse.preparation import Preparation


class ModelConfig(Config):
    """Which network."""

    family: Annotated[str, Choice("models")] = Field(
        "torchvision", description="Model family: torchvision, or tiny for smoke tests."
    )
    name: str = Field("resnet18", description="Architecture by its name in the family.")


class Normalised(Record):
    """What every later form of the network carries along.

    Attributes:
        preparation: how a decoded picture becomes the network's input, one or many.
        mean, std: per channel on the 0..1 scale; the input is (x / 255 - mean) / std.
    """

    model: ModelConfig
    classes: tuple[str, ...]
    preparation: Preparation
    mean: tuple[float, float, float]
    std: tuple[float, float, float]

    @property
    def size(self) -> int:
        """Side of the square input in pixels."""
        return self.preparation.size


class TrainedModel(Normalised):
    """The best weights (`weights.safetensors`), chosen on the validation split.

    Reports: `first_batch.png`, the tensors that entered the net. Notes: `history` (one row per
    epoch), `best_epoch`, `preflight`, `class_weights` (None when the classes are balanced
    enough), `precision`, `device`.
    """

    kind: ClassVar[str] = "model"
    schema_number: ClassVar[int] = 2

    val_accuracy: float
    val_macro_f1: float
