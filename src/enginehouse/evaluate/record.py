"""What evaluate leaves behind."""

from __future__ import annotations

from typing import ClassVar, Literal

from enginehouse.artifact import Config, Record
from enginehouse.evaluate.point import Interval, OperatingPoint, Rate, Unit
from enginehouse.problem import ClassScore

Split = Literal["train", "val", "test"]


class TradeOff(Config):
    """One rate where the other is held at a limit, by the threshold that is best on this split.

    Attributes:
        limit: largest share of the other.
        by_class: of escapes, the same per defect class.
    """

    limit: float
    rate: Rate
    by_class: dict[str, Rate] = {}


class Outcome(Config):
    """What becomes of pictures, or parts, at the operating point.

    Escapes and overkill are counted by the threshold alone, as if nobody looked again; how many
    of them lie in the recheck band, where people see them, stands beside.

    Attributes:
        escapes: defective units passed as good; None without defective units.
        overkill: good units rejected; None without good units.
        rechecked: units in the recheck band.
        escapes_rechecked, overkill_rechecked: of the escapes and of the overkill, those in it.
        escapes_by_class: among the units that bear the class.
        escapes_at: at given overkill rates. overkill_at: at given escape rates.
    """

    unit: Unit
    escapes: Rate | None
    overkill: Rate | None
    rechecked: Rate
    escapes_rechecked: int
    overkill_rechecked: int
    escapes_by_class: dict[str, Rate]
    escapes_at: tuple[TradeOff, ...]
    overkill_at: tuple[TradeOff, ...]

    def shorten(self) -> Outcome:
        """Without what is told by class."""
        return self.model_copy(update={"escapes_by_class": {}, "escapes_at": ()})


class Masked(Config):
    """The same pictures once more, with grey holes: how much hangs on few spots.

    Attributes:
        holes: per picture. side: of a hole, in pixels.
        recalls: per class that occurs.
        escapes: at the operating point, of its unit; None without one.
    """

    holes: int
    side: int
    macro_f1: float
    recalls: dict[str, float]
    escapes: Rate | None


class Slice(Config):
    """The pictures with one value of a column.

    Attributes:
        interval: of macro F1; None where too few parts are in it.
        escapes, overkill: pictures at the operating point; None without one, or without such.
        worse: an interval lies on the bad side of the same number over all pictures.
    """

    name: str
    value: str
    num_pictures: int
    num_parts: int
    macro_f1: float
    interval: Interval | None
    escapes: Rate | None
    overkill: Rate | None
    worse: bool


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

    Notes: `operating`, sentences about how the operating point was fixed, or why there is none.

    Attributes:
        engine, pack: identities of what was scored, and with what.
        accuracy, macro_f1: of the decisions of the pack's problem, not of the operating point.
        intervals: of these two, by name.
        class_scores: by class, in index order.
        confusion: rows are true classes, columns answers; () where there may be several labels.
        point: fixed on `val`, and on `test` the one that was fixed there; None without a good
            class or without defects.
        pictures, parts: what becomes of them at the point; None without one.
        masked: None on `val`, and where no holes are wanted.
        defects: of a tiled pack; None of others, and where the split has no labelled defect.
    """

    kind: ClassVar[str] = "scorecard"
    schema_number: ClassVar[int] = 3

    split: Split
    engine: str
    pack: str
    classes: tuple[str, ...]
    num_pictures: int
    num_parts: int
    accuracy: float
    macro_f1: float
    intervals: dict[str, Interval]
    class_scores: dict[str, ClassScore]
    confusion: tuple[tuple[int, ...], ...]
    point: OperatingPoint | None
    pictures: Outcome | None
    parts: Outcome | None
    masked: Masked | None
    slices: tuple[Slice, ...]
    defects: DefectScores | None

    @property
    def outcome(self) -> Outcome | None:
        """What becomes of the units that the operating point was fixed for."""
        if self.point is None:
            return None
        return self.parts if self.point.rules.unit == "part" else self.pictures

    @property
    def recalls(self) -> dict[str, float]:
        """By class, of those that have pictures."""
        return {
            name: score.recall
            for name, score in self.class_scores.items()
            if score.recall is not None
        }

    def shorten(self) -> Scorecard:
        """Without what grows with classes and slices: for a tag of the registry."""
        return self.model_copy(
            update={
                **{"class_scores": {}, "confusion": (), "masked": None, "slices": ()},
                **{"pictures": self.pictures and self.pictures.shorten()},
                **{"parts": self.parts and self.parts.shorten()},
            }
        )
