"""What train takes and leaves behind, and what every later form of the network carries along."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from enginehouse.artifact import Config, Record
from enginehouse.choices import Choice
from enginehouse.preparation import Preparation


class HeadConfig(Config):
    """What stands between the features and the logits."""

    dropout: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="Share of features dropped in training, beside what the architecture drops.",
    )
    hidden: int = Field(
        0, ge=0, le=8192, description="Units of a hidden layer with ReLU; 0: no hidden layer."
    )


class ModelConfig(Config):
    """Which network."""

    family: Annotated[str, Choice("models")] = Field(
        "torchvision",
        description="Model family: torchvision, timm (when installed), or tiny for smoke tests.",
    )
    name: str = Field("resnet18", description="Architecture by its name in the family.")
    head: HeadConfig = Field(HeadConfig(), description="What stands before the logits.")
    attention: Literal["none", "se", "cbam"] = Field(
        "none", description="Attention after the last stage of a convolutional network."
    )
    norm: Literal["batch", "group"] = Field(
        "batch",
        description="group: GroupNorm in place of every BatchNorm, for very small batches.",
    )
    output_stride: Literal[8, 16, 32] = Field(
        32,
        description="Pixels per cell of the last feature map; 16 and 8 dilate the last stages "
        "instead of striding, so that small defects keep more cells. 32: as the architecture is.",
    )
    small_input: bool = Field(
        False,
        description="For pictures of about 32 px: the first convolution keeps the resolution "
        "(3x3, stride 1) and the first pooling is left out.",
    )


class Pretrained(Record):
    """Weights to start from: one file, `weights`, as it was found.

    Notes: `source`, where it came from, for people.

    Attributes:
        mean, std: what they were trained with, which the network keeps as its input; None: not
            known, so the input is normalised by the pack's.
    """

    kind: ClassVar[str] = "pretrained"

    mean: tuple[float, float, float] | None = None
    std: tuple[float, float, float] | None = None


class Normalised(Record):
    """What every later form of the network carries along.

    Attributes:
        problem: what a label is to it.
        preparation: how a decoded picture becomes the network's input, one or many.
        mean, std: per channel on the 0..1 scale; the input is (x / 255 - mean) / std.
        temperature: logits are divided by it before they become probabilities.
    """

    model: ModelConfig
    problem: Annotated[str, Choice("problems")] = "single_label"
    classes: tuple[str, ...]
    preparation: Preparation
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    temperature: float = 1.0

    @model_validator(mode="after")
    def _check_temperature(self) -> Normalised:
        assert self.temperature > 0
        return self

    @property
    def size(self) -> int:
        """Side of the square input in pixels."""
        return self.preparation.size


class TrainedModel(Normalised):
    """The best weights (`weights.safetensors`), chosen on the validation split.

    Reports: `first_batch.png`, the tensors that entered the net; `validation.npy`, float32
    [n, classes], what the best weights say of the validation split, in pack order. Notes:
    `history` (one row per epoch), `best_epoch`, `preflight`, `balance` (what was done about uneven
    classes: `weights`, `sampler` or `none`), `class_weights` (None where they are not weighed),
    `precision`, `device`, `devices`, `micro_batch`, `diagnosis` (symptom, evidence, remedy),
    `warnings`, `resumed` (step at which each rerun went on).
    """

    kind: ClassVar[str] = "model"
    schema_number: ClassVar[int] = 3

    val_accuracy: float
    val_macro_f1: float
