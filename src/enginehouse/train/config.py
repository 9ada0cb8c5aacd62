"""What a recipe says of training. Every group is a form of its own in the Prefect UI."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from enginehouse.artifact import Config
from enginehouse.choices import Choice, check_options
from enginehouse.train.augment import AugmentConfig
from enginehouse.train.finetune import FinetuneConfig
from enginehouse.train.machine import PrecisionWish, SpeedConfig
from enginehouse.train.record import ModelConfig


class LossConfig(Config):
    """What training makes small."""

    name: Annotated[str, Choice("losses")] = Field(
        "cross_entropy", description="Name of a loss that fits the problem."
    )
    options: dict[str, float] = Field(
        {}, description="Its numbers, where they differ from the defaults."
    )
    label_smoothing: float = Field(
        0.0, ge=0, lt=1, description="How far targets are moved towards knowing nothing."
    )

    @model_validator(mode="after")
    def _check(self) -> LossConfig:
        check_options("losses", "loss", self.name, self.options)
        return self


class TrainConfig(Config):
    """Which network, and how it is trained."""

    # What no result depends on, bit for bit on a CPU; no key hashes it.
    aside: ClassVar[frozenset[str]] = frozenset({"workers", "log_every", "checkpoint_minutes"})

    model: ModelConfig = Field(ModelConfig(), description="Which network.")
    finetune: FinetuneConfig = Field(
        FinetuneConfig(), description="What of the network learns, and how fast."
    )
    epochs: int = Field(15, ge=1, le=1000, description="Most passes over the training split.")
    batch_size: int = Field(
        32, ge=2, le=65536, description="Pictures per step, over all devices together."
    )
    micro_batch: int = Field(
        0,
        ge=0,
        le=65536,
        description="Most pictures at once on a device; gradients add up to the whole batch. "
        "0: as many as the batch has, fewer where memory runs out.",
    )
    optimizer: Literal["adamw", "sgd"] = Field("adamw", description="AdamW, or SGD (Nesterov).")
    learning_rate: float = Field(1e-3, gt=0, le=10, description="Highest learning rate.")
    momentum: float = Field(0.9, ge=0, lt=1, description="SGD's momentum; AdamW's first beta.")
    weight_decay: float = Field(
        0.01, ge=0, le=1, description="Weight decay; of biases and norms there is none."
    )
    schedule: Literal["cosine", "linear", "constant"] = Field(
        "cosine", description="How the learning rate falls after the warmup."
    )
    warmup_epochs: float = Field(
        0.5, ge=0, le=100, description="Epochs in which the learning rate rises."
    )
    clip_norm: float = Field(1.0, gt=0, le=1000, description="Gradients are cut to this norm.")
    ema_decay: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="Decay per step of a moving average of the weights, which is then what is "
        "scored and kept; 0: none.",
    )
    patience: int = Field(
        10,
        ge=1,
        le=1000,
        description="Stop after so many epochs without a better validation score.",
    )
    loss: LossConfig = Field(LossConfig(), description="What training makes small.")
    balance: Literal["weights", "sampler", "none"] = Field(
        "weights",
        description="What is done for rare classes: weigh them higher in the loss, draw them "
        "more often, or nothing.",
    )
    max_imbalance: float = Field(
        1.5, ge=1, le=1000, description="Largest ratio of class sizes that needs no balance."
    )
    augment: AugmentConfig = Field(AugmentConfig(), description="How training pictures are varied.")
    precision: PrecisionWish = Field(
        "auto", description="Number format of matrix products; auto: bf16 where the device has it."
    )
    speed: SpeedConfig = Field(SpeedConfig(), description="How the device is used.")
    devices: int = Field(
        1, ge=1, le=64, description="Processes that train together, each on a GPU (or CPU)."
    )
    workers: int = Field(
        0,
        ge=0,
        le=64,
        description="Processes that read pictures ahead; 0: the one that trains. The result is "
        "the same. Worth it where a GPU waits for data.",
    )
    log_every: int = Field(20, ge=1, le=100_000, description="Steps per line of metrics.")
    checkpoint_minutes: float = Field(
        5.0, ge=0, le=1440, description="Time between checkpoints; 0: one after every step."
    )
    seed: int = Field(0, ge=0, lt=2**31, description="Seed of weights, order and variations.")

    @model_validator(mode="after")
    def _check(self) -> TrainConfig:
        if self.warmup_epochs >= self.epochs:
            raise ValueError(
                f"warmup_epochs ({self.warmup_epochs}) must be smaller than epochs ({self.epochs})"
            )
        if self.batch_size < 2 * self.devices:
            raise ValueError(
                f"batch_size ({self.batch_size}) must be at least two for each of {self.devices} "
                "devices"
            )
        if self.batch_size % self.devices:
            raise ValueError(
                f"batch_size ({self.batch_size}) must be a multiple of devices ({self.devices})"
            )
        return self
