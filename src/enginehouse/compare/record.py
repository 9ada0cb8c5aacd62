"""What compare leaves behind: how near an engine is to its ONNX file."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from enginehouse.artifact import Config, Record


class Step(Config):
    """One step of the parity chain, on real pictures.

    Attributes:
        name: as `torch fp32 -> fake-quant`.
        max_difference, mean_difference: over pictures, of the largest difference of a probability
            in each.
        flips: pictures whose answer differs.
    """

    name: str
    num_pictures: int
    max_difference: float
    mean_difference: float
    flips: int


class CompareConfig(Config):
    """How near an engine must be to its ONNX file."""

    num_pictures: int = Field(64, ge=1, le=4096, description="Validation pictures compared.")
    max_mean_difference: float = Field(
        0.02,
        gt=0,
        le=1,
        description="Largest allowed mean over the pictures of the largest difference of a "
        "probability in each.",
    )
    max_flips: float = Field(
        0.05,
        ge=0,
        le=1,
        description="Largest share of pictures whose answer may differ; above 0, one always may.",
    )


class Parity(Record):
    """The last step of the parity chain: ONNX -> engine."""

    kind: ClassVar[str] = "parity"

    step: Step
