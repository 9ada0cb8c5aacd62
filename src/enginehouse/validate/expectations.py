"""The expectations, as plain data: which column of which table must lie in which range."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from enginehouse.validate.tables import Tables
    from enginehouse.validate.validate import ValidateConfig

Severity = Literal["critical", "warning", "info"]

SINGLE = "add pictures of other classes, or point at the folder whose sub-folders are the classes"
SINGLE_BOXED = (
    "add pictures without boxes; or cut the pictures into tiles, prepare.tiles, and set "
    "validation.min_classes to 1; or set ingest.image_class to majority"
)

# What each check for single cases says of what it found, and what to do then.
CHECKS: Mapping[str, tuple[str, str]] = {
    "errors_found": ("the data cannot be trusted", "mend it and run again"),
    "copies_across_splits": (
        "a leak: a duplicate picture in two splits",
        "remove it from all but one split",
    ),
    "parts_across_splits": (
        "a leak: pictures of one part in two splits",
        "move all pictures of a part into one split, or check ingest.group_pattern",
    ),
    "near_copies_across_splits": (
        "near duplicates in two splits (a likely leak)",
        "look at the pairs; keep pictures of one scene in one split",
    ),
    "near_copies_across_labels": (
        "near duplicates under different labels (label doubt)",
        "look at the pairs and decide which label is right",
    ),
    "near_copies": (
        "near duplicates",
        "if they show one part, group them with ingest.group_pattern, so that they stay in one "
        "split",
    ),
    "label_leaks": (
        "something other than the picture tells the class (a leak)",
        "save all pictures in one way, or train on those that are alike",
    ),
    "no_training": (
        "the given splits leave nothing to train on",
        "name a split train, or set prepare.split_by to part",
    ),
    "box_labels_missing": (
        "a label of boxes is missing from a split",
        "add pictures with such boxes to the split",
    ),
    "outliers": ("pictures unlike the rest", "look at them; remove those that show nothing"),
    "drift": (
        "the data has drifted from the last accepted version",
        "look at what is new; retrain on purpose, not by accident",
    ),
}


@dataclass(frozen=True)
class Expectation:
    """`column` of `table` is set, and lies between `low` and `high` (None: no bound).

    Attributes:
        says: what it means when it fails, for people.
        remedy: what to do then.
    """

    table: str
    column: str
    low: float | None
    high: float | None
    severity: Severity
    says: str
    remedy: str

    @property
    def name(self) -> str:
        """`classes.parts`, unique in the suite."""
        return f"{self.table}.{self.column}"

    @property
    def wanted(self) -> str:
        """The range in words."""
        low = "" if self.low is None else f"at least {self.low:g}"
        high = "" if self.high is None else f"at most {self.high:g}"
        return " and ".join(filter(None, (low, high)))


def list_expectations(config: ValidateConfig, tables: Tables) -> list[Expectation]:
    """The suite for a config and for what the data brings along, most telling first.

    Where the set is empty nothing is asked of its pictures and classes: whatever is said of no
    rows holds.
    """
    found = [_none_of("errors_found", "critical"), *_expect_files(config, tables)]
    if tables.is_empty:
        return found
    if tables.is_labelled:
        found += _expect_classes(config, tables)
    if tables.has_boxes:
        found.append(
            Expectation(
                *("set", "box_imbalance", None, config.max_imbalance, "warning"),
                says="very unequal labels of boxes",
                remedy="label more of the rarest",
            )
        )
    return [*found, *_expect_pictures(config), *_expect_no_cases(config, tables)]


def _expect_files(config: ValidateConfig, tables: Tables) -> list[Expectation]:
    lenient = config.allow_fragment and not tables.is_empty
    return [
        Expectation(
            *("set", "pictures", 1 if tables.is_empty else config.min_rows, None),
            severity="warning" if lenient else "critical",
            says="no usable picture" if tables.is_empty else "too few usable pictures",
            remedy="point at a folder that holds pictures and their labels"
            if tables.is_empty
            else "add pictures, or lower validation.min_rows",
        ),
        Expectation(
            *("set", "unlabelled", None, 0, "warning" if config.allow_fragment else "critical"),
            says="no labels: pictures of which nothing is said",
            remedy="label them, or name the label file's format in ingest.format",
        ),
        Expectation(
            *("set", "quarantined_share", None, config.max_quarantined, "critical"),
            says="too large a share of unusable files",
            remedy="mend or remove the files in the quarantine table",
        ),
        Expectation(
            *("set", "left_out_share", None, config.max_quarantined, "critical"),
            says="too large a share of unusable rows and annotations",
            remedy="mend what is named in the quarantine table",
        ),
    ]


def _expect_classes(config: ValidateConfig, tables: Tables) -> list[Expectation]:
    lenient: Severity = "warning" if config.allow_fragment else "critical"
    classes = Expectation(
        *("set", "classes", config.min_classes, None, lenient),
        says="too few classes",
        remedy=SINGLE_BOXED if tables.has_boxes else SINGLE,
    )
    imbalance = Expectation(
        *("set", "imbalance", None, config.max_imbalance, "warning"),
        says="very unequal classes",
        remedy="add pictures to the smallest class",
    )
    if tables.splits:
        missing = Expectation(
            *("classes", "missing_from", None, 0),
            severity="warning" if config.allow_fragment and tables.lacks_are_small else "critical",
            says="a class is missing from a given split",
            remedy="add pictures of the class to that split, or take the class out of all",
        )
        return [classes, missing, imbalance]

    # In a fragment every class is small. Where others are not, this one was forgotten.
    meeting = int((tables["classes"]["distinct_parts"] >= config.min_per_class).sum())
    enough = Expectation(
        *("classes", "distinct_parts", config.min_per_class, None),
        severity=lenient if meeting < 2 else "critical",
        says="too few distinct pictures, or parts, in a class to split it without a leak",
        remedy="add pictures of other parts to it, or take the class out; or check "
        "ingest.group_pattern",
    )
    return [classes, enough, imbalance]


def _expect_pictures(config: ValidateConfig) -> list[Expectation]:
    lenient: Severity = "warning" if config.allow_fragment else "critical"
    return [
        Expectation(
            *("pictures", "labels_of_content", 1, 1, "critical"),
            says="the same picture under two labels",
            remedy="decide which label is right and remove the other copy",
        ),
        Expectation(
            *("pictures", "width", config.min_side, None, lenient),
            says="a picture narrower than allowed",
            remedy="remove it, or lower validation.min_side",
        ),
        Expectation(
            *("pictures", "height", config.min_side, None, lenient),
            says="a picture lower than allowed",
            remedy="remove it, or lower validation.min_side",
        ),
        Expectation(
            *("set", "duplicate_share", None, config.max_duplicates, "warning"),
            says="duplicate pictures (only the first of each is used)",
            remedy="remove the copies",
        ),
        Expectation(
            *("pictures", "brightness", config.min_brightness, config.max_brightness, "warning"),
            says="a picture that is nearly black or white",
            remedy="look at it; remove it if it shows nothing",
        ),
        Expectation(
            *("pictures", "sharpness", config.min_sharpness, None, "warning"),
            says="a picture without any detail",
            remedy="look at it; remove it if it shows nothing",
        ),
    ]


def _expect_no_cases(config: ValidateConfig, tables: Tables) -> list[Expectation]:
    """What `checks.py` counts in columns of the set, wanted to be none."""
    # Within a given split they do no harm; a split that is yet to be made would tear them apart.
    would_leak = not tables.splits and tables["set"]["near_share"].iloc[0] > config.max_near
    return [
        _none_of("copies_across_splits", "critical"),
        _none_of("parts_across_splits", "critical"),
        _none_of("near_copies_across_splits", config.near_leak),
        _none_of("near_copies_across_labels", "warning"),
        _none_of("label_leaks", "warning"),
        _none_of("box_labels_missing", "warning"),
        _none_of("no_training", "warning"),
        _none_of("outliers", "warning"),
        _none_of("drift", "warning"),
        _none_of("near_copies", "warning" if would_leak else "info"),
    ]


def _none_of(check: str, severity: Severity) -> Expectation:
    return Expectation("set", check, None, 0, severity, *CHECKS[check])
