"""The expectations, as plain data: which column of which table must lie in which range."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from enginehouse.validate.validate import ValidateConfig

Severity = Literal["critical", "warning"]


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


def list_expectations(config: ValidateConfig) -> list[Expectation]:
    """The suite for a config, most telling first."""
    return [
        Expectation(
            *("set", "classes", config.min_classes, None, "critical"),
            says="too few classes",
            remedy="point at the folder whose sub-folders are the classes",
        ),
        Expectation(
            *("classes", "distinct", config.min_per_class, None, "critical"),
            says="too few distinct pictures in a class",
            remedy="add pictures to it, or take the class out",
        ),
        Expectation(
            *("classes", "parts", config.min_per_class, None, "critical"),
            says="too few parts in a class to split without a leak",
            remedy="add pictures of other parts, or check ingest.group_pattern",
        ),
        Expectation(
            *("set", "pictures", config.min_rows, None, "critical"),
            says="too few usable pictures",
            remedy="add pictures, or lower validation.min_rows",
        ),
        Expectation(
            *("set", "quarantined_share", None, config.max_quarantined, "critical"),
            says="too large a share of unusable files",
            remedy="mend or remove the files in the quarantine table",
        ),
        Expectation(
            *("pictures", "labels_of_content", 1, 1, "critical"),
            says="the same picture under two labels",
            remedy="decide which label is right and remove the other copy",
        ),
        Expectation(
            *("pictures", "width", config.min_side, None, "critical"),
            says="a picture narrower than allowed",
            remedy="remove it, or lower validation.min_side",
        ),
        Expectation(
            *("pictures", "height", config.min_side, None, "critical"),
            says="a picture lower than allowed",
            remedy="remove it, or lower validation.min_side",
        ),
        Expectation(
            *("set", "duplicate_share", None, config.max_duplicates, "warning"),
            says="many repeated pictures (only the first of each is used)",
            remedy="remove the copies",
        ),
        Expectation(
            *("set", "imbalance", None, config.max_imbalance, "warning"),
            says="very unequal classes",
            remedy="add pictures to the smallest class",
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
