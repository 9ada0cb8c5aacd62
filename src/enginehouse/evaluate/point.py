"""What an operating point is: the rules that it meets, its thresholds, and rates with intervals."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from enginehouse.artifact import Config
from enginehouse.choices import Choice

Unit = Literal["picture", "part"]


class Interval(Config):
    """Where a number lies with 95 % confidence."""

    low: float
    high: float


class Rate(Config):
    """How often something happened among so many, and where its true share lies.

    Attributes:
        low, high: of the share, with 95 % confidence (`intervals.py` says how).
    """

    num: int
    of: int
    low: float
    high: float

    @property
    def share(self) -> float:
        """The share that was found, 0..1."""
        return self.num / self.of


class OperatingConfig(Config):
    """What the operating point has to meet on validation."""

    max_escape_rate: float = Field(
        0.01,
        ge=0,
        le=0.5,
        description="Largest share of the defective pictures (or parts) of validation that may "
        "pass as good. Of few, none may: 0.01 of 30 is less than one.",
    )
    class_limits: dict[str, Annotated[float, Field(ge=0, lt=1)]] = Field(
        {},
        description="Stricter limits for single defect classes, by name: 0 lets none of them pass.",
    )
    unit: Unit = Field(
        "picture",
        description="What passes or is rejected: each picture, or the part, whose alarm is the "
        "largest of its pictures'.",
    )
    recheck_share: float = Field(
        0.02,
        ge=0,
        le=0.5,
        description="Largest share of the validation units that people look at again: those "
        "nearest to the threshold. 0: none.",
    )


class OperatingPoint(Config):
    """The thresholds that meet the limits on validation. They ship with the engine.

    A unit with an alarm of at least `threshold` is rejected; one from `recheck_low` up to, but
    without, `recheck_high` is one for people. How an alarm is measured: `operating.py`.

    Attributes:
        rules: what it had to meet.
        problem: whose alarm it is.
        good: the class that means a good part.
        threshold, recheck_low, recheck_high: alarms, 0..1; equal ones: no band.
        class_thresholds: of a problem with several labels, from which probability on a class
            alarms; else {}.
        escapes, overkill: what it met on validation; overkill is None without good units.
    """

    rules: OperatingConfig
    problem: Annotated[str, Choice("problems")]
    good: str
    threshold: float
    recheck_low: float
    recheck_high: float
    class_thresholds: dict[str, float]
    escapes: Rate
    overkill: Rate | None
