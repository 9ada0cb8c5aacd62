"""What evaluate leaves behind."""

from __future__ import annotations

from typing import ClassVar, Literal

from enginehouse.artifact import Record

Split = Literal["train", "val", "test"]


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
