"""Validate: Great Expectations over the manifest; a failed critical one stops the run."""

from __future__ import annotations

from pydantic import Field

from enginehouse.artifact import Config, Workspace
from enginehouse.ingest.record import Manifest
from enginehouse.validate.expectations import list_expectations
from enginehouse.validate.great import Verdict, run_suites
from enginehouse.validate.record import Validated
from enginehouse.validate.tables import make_tables

LIBRARIES = ("great-expectations", "pandas", "pyarrow")


class ValidateConfig(Config):
    """What data must be like to be let through."""

    min_rows: int = Field(20, ge=1, description="Fewest usable pictures.")
    min_classes: int = Field(2, ge=2, description="Fewest classes.")
    min_per_class: int = Field(
        3, ge=3, description="Fewest distinct pictures per class: one for each split."
    )
    max_quarantined: float = Field(
        0.05, ge=0, le=1, description="Largest share of files that may be unusable."
    )
    max_duplicates: float = Field(
        0.05, ge=0, le=1, description="Share of repeated pictures above which there is a warning."
    )
    max_imbalance: float = Field(
        20, ge=1, description="Largest class over smallest, above which there is a warning."
    )
    min_side: int = Field(16, ge=1, description="Shortest allowed side of a picture in pixels.")
    min_brightness: float = Field(
        5,
        ge=0,
        le=255,
        description="Mean luma below which there is a warning (no light).",
    )
    max_brightness: float = Field(
        250, ge=0, le=255, description="Mean luma above which there is a warning (burnt out)."
    )
    min_sharpness: float = Field(
        0.5, ge=0, description="Laplacian variance below which there is a warning (no picture)."
    )


def validate(manifest: Manifest, config: ValidateConfig, here: Workspace) -> Validated:
    """Judge a manifest; the record says what failed, and the flow decides what that means."""
    tables = make_tables(here.paths(manifest), manifest.classes)
    expectations = list_expectations(config)
    verdicts = run_suites(tables, expectations, here.scratch / "data_docs", here.report)
    pages = [
        str(path.relative_to(here.scratch))
        for path in here.scratch.rglob("*")
        if path.is_file() and path.suffix != ".gif"
    ]
    return Validated(
        reports=here.seal(pages),
        notes={"expectations": [[v.name, v.table, v.severity, v.success] for v in verdicts]},
        manifest=manifest.identity,
        num_expectations=len(verdicts),
        failures=_sentences(verdicts, "critical"),
        warnings=_sentences(verdicts, "warning"),
    )


def _sentences(verdicts: list[Verdict], severity: str) -> tuple[str, ...]:
    return tuple(v.sentence for v in verdicts if not v.success and v.severity == severity)
