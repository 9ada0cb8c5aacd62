"""How a network is quantized, and what that leaves behind."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from enginehouse.artifact import Config
from enginehouse.choices import Choice
from enginehouse.train.record import Normalised

STATE = "state.safetensors"


class QuantizeConfig(Config):
    """How the network is made smaller."""

    quantizer: Annotated[str, Choice("quantizers")] = Field(
        "int8_ptq", description="Quantizer; int8_ptq is post-training INT8 with explicit Q/DQ."
    )
    num_pictures: int = Field(
        128, ge=8, le=10_000, description="Calibration pictures, class-balanced, from training."
    )
    seed: int = Field(0, ge=0, lt=2**31, description="Seed of the choice of calibration pictures.")


class QuantizedModel(Normalised):
    """Folded weights and calibrated observers (`state.safetensors`), ready to export.

    Notes: `calibration`, what was asked for, what was used, and how many of each class.
    """

    kind: ClassVar[str] = "quantized"
    schema_number: ClassVar[int] = 3

    config: QuantizeConfig
