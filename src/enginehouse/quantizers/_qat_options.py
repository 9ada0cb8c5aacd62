"""What can be set of training on with rounding."""

from __future__ import annotations

from pydantic import Field

from enginehouse.artifact import Config


class Options(Config):
    """How the network is trained on."""

    epochs: int = Field(3, ge=1, le=100, description="Passes over the training split.")
    learning_rate: float = Field(
        1e-4, ge=1e-7, le=0.1, description="Highest learning rate (AdamW, falling as a cosine)."
    )
    batch_size: int = Field(32, ge=2, le=4096, description="Pictures per step.")
    freeze_batchnorm: float = Field(
        0.3,
        ge=0,
        le=1,
        description="Share of the epochs after which BatchNorm keeps its statistics; 0: from the "
        "start, 1: never.",
    )
    freeze_ranges: float = Field(
        0.6,
        ge=0,
        le=1,
        description="Share of the epochs after which the ranges of activations stand still; "
        "likewise.",
    )
    distill: float = Field(
        0.9,
        ge=0,
        le=1,
        description="Weight of the teacher's answers (of the network in fp32); the labels have "
        "the rest.",
    )
    distill_temperature: float = Field(
        2.0,
        ge=1,
        le=20,
        description="Logits are divided by it before they are held against the teacher's; higher: "
        "what the teacher thinks unlikely counts more.",
    )
