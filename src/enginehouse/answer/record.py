"""What answer leaves behind."""

from __future__ import annotations

from typing import Annotated, ClassVar

from enginehouse.artifact import Record
from enginehouse.choices import Choice


class Answers(Record):
    """What a trained network says of every picture of a split.

    Files: `predictions.npy`, float32 [n, classes], the probabilities of whole pictures, folded
    from those of their windows where there are tiles; `index.parquet`, in that order, with the
    columns path and given (the class indices that the picture bears in the data).

    Attributes:
        problem: what a label is to the network.
        pack: identity of the pack whose split it is.
    """

    kind: ClassVar[str] = "answers"

    problem: Annotated[str, Choice("problems")]
    classes: tuple[str, ...]
    split: str
    pack: str
