"""How a network is quantized, and what that leaves behind."""

from __future__ import annotations

from typing import Annotated, ClassVar, cast

from pydantic import Field, model_validator

from enginehouse.artifact import Config
from enginehouse.choices import Choice, check_options, load_choice
from enginehouse.engine import Precision
from enginehouse.train.record import Normalised

STATE = "state.safetensors"
PLAIN = "none"  # the quantizer that leaves the network as it is: what all others are held against
Setting = float | str
# What stages call their other inputs; those by candidate stand beside them.
TAKEN = frozenset({"model", "pack", "device", "latency", "config", "here"})


class Candidate(Config):
    """One way to make the network smaller."""

    quantizer: Annotated[str, Choice("quantizers")] = Field(
        "int8_ptq",
        description="Quantizer: int8_ptq (calibrated after training), int8_qat (trained on with "
        "rounding), fp16 or bf16 (casts).",
    )
    name: str = Field(
        "",
        pattern=r"^([a-z][a-z0-9_]{0,29})?$",
        description="Name in tables; empty: the quantizer's.",
    )
    options: dict[str, Setting] = Field(
        {}, description="Its settings, where they differ from the defaults."
    )

    @property
    def label(self) -> str:
        """What it is called."""
        return self.name or self.quantizer

    @property
    def precision(self) -> Precision:
        """What its graph comes to."""
        return cast(Precision, load_choice("quantizers", self.quantizer).PRECISION)

    @model_validator(mode="after")
    def _check(self) -> Candidate:
        if self.label in TAKEN:
            raise ValueError(f"name: {self.label!r} is no name for a candidate; choose another")
        check_options("quantizers", "quantizer", self.quantizer, self.options)
        return self


class QuantizePlan(Config):
    """The ways to make the network smaller that are tried, beside leaving it as it is."""

    candidates: tuple[Candidate, ...] = Field(
        (Candidate(),),
        max_length=8,
        description="What is tried; each target takes the smallest that loses nothing there.",
    )
    num_pictures: int = Field(
        128, ge=8, le=10_000, description="Calibration pictures, class-balanced, from training."
    )
    seed: int = Field(0, ge=0, lt=2**31, description="Seed of the choice of calibration pictures.")

    @model_validator(mode="after")
    def _check_names(self) -> QuantizePlan:
        names = [PLAIN, *(each.label for each in self.candidates)]
        if len(set(names)) < len(names):
            raise ValueError(
                f"candidates: each needs a name of its own, and {PLAIN} is always there; got "
                f"{', '.join(names[1:])}"
            )
        return self

    def configure(self, candidate: Candidate) -> QuantizeConfig:
        """What the stage gets for one of the candidates."""
        return QuantizeConfig(
            quantizer=candidate.quantizer,
            options=candidate.options,
            num_pictures=self.num_pictures,
            seed=self.seed,
        )


class QuantizeConfig(Config):
    """How the network is made smaller in one way."""

    quantizer: Annotated[str, Choice("quantizers")] = "int8_ptq"
    options: dict[str, Setting] = {}
    num_pictures: int = 128
    seed: int = 0


class QuantizedModel(Normalised):
    """What a quantizer worked out (`state.safetensors`), ready to export.

    Notes: `calibration`, what was asked for, what was used, and how many of each class; and those
    of the quantizer (`sensitivity`, `search`, `history`).

    Attributes:
        calibration: digest of the pictures that it was calibrated on.
        kept_float: names of the layers that stay in float.
    """

    kind: ClassVar[str] = "quantized"
    schema_number: ClassVar[int] = 4

    quantizer: Annotated[str, Choice("quantizers")]
    options: dict[str, Setting]
    calibration: str
    kept_float: tuple[str, ...]
