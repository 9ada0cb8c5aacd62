"""What a label format says of pictures, and what it could not trust.

The words that formats, ingest and the writers share. A format is a module under `formats/` with
the names of the `LabelFormat` protocol. This file knows no format by name, and nothing of pixels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from pydantic import Field

from enginehouse.artifact import Config
from enginehouse.files import Files

Severity = Literal["error", "warning", "info"]
Unlisted = Literal["good", "left out"]


class LabelOptions(Config):
    """How label files are read, where a look at them does not tell."""

    columns: dict[str, str] = Field(
        {},
        description="What a column means to its header in the sheet, where the header is unusual: "
        "keys are image, label, x, y, width, height, x2, y2, split, group, time.",
    )
    sheet: str = Field(
        "", max_length=200, description="Sheet of the Excel file; empty: the first visible one."
    )
    classes: tuple[str, ...] = Field(
        (), description="All labels in index order; empty: as declared in the data, else sorted."
    )
    folder_class: Literal["first", "last", "path"] = Field(
        "first",
        description="In class folders within class folders, which of them is the class: the "
        "first, the last, or the whole path.",
    )


class SeveralLabels(LabelOptions):
    """The same, where a picture may bear several labels at once.

    Attributes:
        good: what a picture bears of which it is said that it has none of the defects.
    """

    good: str


@dataclass(frozen=True, slots=True)
class Box:
    """One labelled region of a picture, as the label file has it; not yet checked.

    Attributes:
        label: "" where the file names none.
        xywh: left, top, width, height in pixels of the picture as it is displayed (EXIF
            applied); as shares of its sides if `relative`.
        polygons: each a flat x, y, x, y, ... in the same frame.
        place: where in the label file: `annotation 7`, `Sheet1!B3`, `line 2`.
    """

    label: str
    xywh: tuple[float, float, float, float]
    polygons: tuple[tuple[float, ...], ...] = ()
    place: str = ""
    relative: bool = False


@dataclass(frozen=True, slots=True)
class Labelled:
    """What is said of one picture.

    Attributes:
        labels: of the whole picture; () where only boxes are given.
        split: `train`, `val`, `test`, or "" where none is given.
        group: what must stay in one split, or "".
        time: sortable text, or "".
        file: the label file that says so; "" where the folders say it.
        place: within it.
        size: width and height that the label file claims, in pixels; None if it is silent.
    """

    labels: tuple[str, ...] = ()
    boxes: tuple[Box, ...] = ()
    split: str = ""
    group: str = ""
    time: str = ""
    file: str = ""
    place: str = ""
    size: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Something that is not used, by name and reason: one row of the quarantine.

    Attributes:
        file: relative path of the picture or label file.
        place: within it (`annotation 7`); "" means the whole file.
        reason: a few words that can be counted: `truncated or corrupt`, `empty box`.
        detail: one sentence with what was found.
    """

    file: str
    reason: str
    detail: str
    place: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something a person should know. An error means the data cannot be trusted as a whole.

    Attributes:
        reason: a few words that can be counted: `box clipped`, `leak between splits`.
        file: relative path, or "" for the whole set.
        place: within it: `annotation 7`, `Sheet1!B3`, `line 2`.
        detail: one sentence: what was wanted, what was found.
        remedy: what to do.
    """

    severity: Severity
    reason: str
    file: str
    detail: str
    remedy: str = ""
    place: str = ""


@dataclass
class Reading:
    """All that one format says of a data set.

    Attributes:
        pictures: by path, as the file lies on disk (a key of `Files.listing`).
        classes: declared labels in index order, all of them; () where nothing declares any.
        class_ids: declared label to the id that the label file has for it (COCO, YOLO).
        unlisted: what a picture on disk is that the labels do not mention.
        by_folder: the labels are those of folders: each place can say but one.
        left_out: rows, annotations, label files and pictures that are not used.
        findings: likewise, what else there is to say.
    """

    pictures: dict[str, Labelled] = field(default_factory=dict)
    classes: tuple[str, ...] = ()
    class_ids: dict[str, int] = field(default_factory=dict)
    unlisted: Unlisted = "left out"
    by_folder: bool = False
    left_out: list[LeftOut] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


class LabelFormat(Protocol):
    """The names in a module under `formats/`."""

    LIBRARIES: tuple[str, ...]  # distributions whose versions its results depend on

    def find(self, files: Files) -> list[str]:
        """The label files of this format, recognised by content; [] if there are none.

        Must be cheap: of a large file only the beginning is looked at.
        """

    def read(self, files: Files, label_files: Sequence[str], options: LabelOptions) -> Reading:
        """Read the labels. What cannot be trusted is left out or found, never raised.

        Args:
            label_files: from `find`, or the one that the user named.
            options: `SeveralLabels` where a picture may bear more than one.
        """


# Canonical split of a folder's or cell's name, in lower case.
SPLIT_NAMES: Mapping[str, str] = {
    **dict.fromkeys(("train", "training", "trn"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "dev"), "val"),
    **dict.fromkeys(("test", "testing", "tst"), "test"),
}
