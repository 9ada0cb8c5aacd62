"""Evaluate: one engine on one split becomes a scorecard."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from enginehouse.artifact import Config, Record

Split = Literal["train", "val", "test"]


class EvaluateConfig(Config):
    """What is scored."""

    split: Split = Field("test", description="Split that is scored.")
    good_class: str = Field(
        "", description="Class that means a good part; escapes and overkill are counted by it."
    )


class Scorecard(Record):
    """What an engine scored. Files: `predictions.npy`, float32 [n, classes], in pack order.

    Attributes:
        recalls: per class; classes without pictures in the split are left out.
        confusion: rows are true classes, columns predictions.
        escapes: defects passed as good; overkill: good parts rejected; None without a good class.
    """

    kind: ClassVar[str] = "scorecard"

    split: Split
    pack: str
    classes: tuple[str, ...]
    num_pictures: int
    accuracy: float
    macro_f1: float
    recalls: dict[str, float]
    confusion: tuple[tuple[int, ...], ...]
    escapes: int | None
    overkill: int | None
    num_defects: int | None
    num_good: int | None
