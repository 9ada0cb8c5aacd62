"""What evaluate leaves behind."""

from __future__ import annotations

from typing import ClassVar, Literal

from enginehouse.artifact import Config, Record

Split = Literal["train", "val", "test"]


class RecallPoint(Config):
    """What is found when so many false alarms are put up with.

    Attributes:
        limit: most false alarms per megapixel of clean windows.
        threshold: a window alarms when its probability of not being good exceeds this.
        recall: share of the defects that at least one alarming window shows.
    """

    limit: float
    threshold: float
    recall: float


class DefectScores(Config):
    """How many of the labelled defects are found, each counted once, and at what price.

    Areas are those of the windows in picture pixels; where windows overlap they count twice, as
    the engine looks twice.

    Attributes:
        num_boxes: labelled defects in the split.
        num_windows, num_clean: all windows, and those that touch no defect.
        clean_megapixels: area of the clean windows.
        recall: share of the defects that a window shows whose answer is not the good class.
        false_alarms: clean windows with such an answer, per megapixel; None without clean ones.
        points: the same at other thresholds; () without clean windows.
    """

    num_boxes: int
    num_windows: int
    num_clean: int
    clean_megapixels: float
    recall: float
    false_alarms: float | None
    points: tuple[RecallPoint, ...]


class Scorecard(Record):
    """What an engine scored. Files: `predictions.npy`, float32 [n, classes], in pack order.

    Of a tiled pack, `predictions.npy` and `defects` speak of windows, and all else of whole
    pictures, whose windows' answers are folded as `predict` does.

    Attributes:
        recalls: per class; classes without pictures in the split are left out.
        confusion: rows are true classes, columns predictions.
        escapes: defects passed as good; overkill: good parts rejected; None without a good class.
        defects: of a tiled pack; None of others, and where the split has no labelled defect.
    """

    kind: ClassVar[str] = "scorecard"
    schema_number: ClassVar[int] = 2

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
    defects: DefectScores | None
