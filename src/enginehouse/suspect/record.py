"""What suspect leaves behind."""

from __future__ import annotations

from typing import Annotated, ClassVar

from enginehouse.artifact import Record
from enginehouse.choices import Choice


class Suspects(Record):
    """Every picture of a data set, those first whose label is doubted most.

    Files: `ranking.parquet` with the columns path, given, suggested (labels as a sheet of
    corrections has them), p_given, p_suggested, suspicion (0..1), suspicious (whether it is called
    an error), part, source, place (where the label is written), repeat_of (the picture of the same
    pixels that was judged for it, or ""), md5.

    Reports: `corrections.xlsx`, the same for people: correct it, and give it back to ingest.

    Attributes:
        problem: what a label is to the network.
        classes: what the network told apart, in index order.
        boxed: whether the labels of pictures come from boxes, which a sheet cannot correct.
        num_folds: networks that were asked.
        accuracy, macro_f1: of their answers, out of fold, against the labels as they are given.
    """

    kind: ClassVar[str] = "suspects"

    problem: Annotated[str, Choice("problems")]
    classes: tuple[str, ...]
    boxed: bool
    num_pictures: int
    num_suspicious: int
    num_folds: int
    accuracy: float
    macro_f1: float
