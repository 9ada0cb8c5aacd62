"""Validate: Great Expectations over the manifest; a failed critical one stops the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field

from enginehouse.artifact import Config, Workspace
from enginehouse.ingest.record import Manifest
from enginehouse.validate.checks import run_checks
from enginehouse.validate.expectations import list_expectations
from enginehouse.validate.great import build_expectation, import_great_expectations, run_suites
from enginehouse.validate.instance import Instance
from enginehouse.validate.record import Validated
from enginehouse.validate.suite_json import key_of
from enginehouse.validate.suite_result import Outcome
from enginehouse.validate.tables import Tables, add_counts, make_tables
from enginehouse.validate.user_expectation import UserExpectation, build_user_expectation
from enginehouse.validate.verdicts import Verdict, judge, judge_user_expectation

if TYPE_CHECKING:
    import pandas as pd

LIBRARIES = ("great-expectations", "numpy", "pandas", "pyarrow", "scipy")

FINDING_COLUMNS = ["severity", "reason", "file", "place", "detail", "remedy"]


class ValidateConfig(Config):
    """What data must be like to be let through."""

    min_rows: int = Field(20, ge=1, description="Fewest usable pictures.")
    min_classes: int = Field(2, ge=1, description="Fewest classes.")
    min_per_class: int = Field(
        3,
        ge=3,
        description="Fewest distinct pictures per class, one for each split. Where the data "
        "brings its own splits, each must have each class instead.",
    )
    allow_fragment: bool = Field(
        False,
        description="Let a set that is too small to train on through with a warning: too few "
        "pictures or classes, or no labels.",
    )
    max_quarantined: float = Field(
        0.05,
        ge=0,
        le=1,
        description="Largest share of files, and of rows and annotations, that may be unusable.",
    )
    max_duplicates: float = Field(
        0, ge=0, le=1, description="Share of repeated pictures above which there is a warning."
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
    near_distance: int = Field(
        4,
        ge=0,
        le=16,
        description="Bits of 64 in which the perceptual hashes of near duplicates may differ.",
    )
    max_near: float = Field(
        0.1,
        ge=0,
        le=1,
        description="Share of pictures with near duplicates above which there is a warning, "
        "where no splits are given: a split would tear them apart.",
    )
    near_leak: Literal["warning", "critical"] = Field(
        "warning", description="What near duplicates in two given splits are."
    )
    leak_min_pictures: int = Field(
        10, ge=3, description="Fewest pictures that tell their class by format, size or folder."
    )
    leak_share: float = Field(
        0.95, gt=0.5, le=1, description="Share of one class among them that makes it a leak."
    )
    outlier_z: float = Field(
        6, gt=0, description="Robust z-score above which a picture is unlike the rest."
    )
    max_share_drift: float = Field(
        0.2,
        gt=0,
        description="Population stability index of class and format shares against the last "
        "accepted data, above which there is a warning.",
    )
    max_statistic_drift: float = Field(
        0.2,
        gt=0,
        le=1,
        description="Kolmogorov-Smirnov distance of brightness, contrast, sharpness and size to "
        "the last accepted data, above which there is a warning.",
    )
    expectations: tuple[UserExpectation, ...] = Field(
        (), max_length=500, description="Further expectations, as Great Expectations' JSON."
    )

    @classmethod
    def for_check(cls) -> Self:
        """For data that no recipe asks for: only what is wrong is refused, not what is small."""
        return cls(allow_fragment=True, max_quarantined=1)


def validate(
    manifest: Manifest, config: ValidateConfig, here: Workspace, previous: Manifest | None = None
) -> Validated:
    """Judge a manifest; the record says what failed, and the flow decides what that means.

    Args:
        previous: the version that was accepted before, to tell drift from; None if none was.

    Raises:
        RecipeError: one of the user's expectations cannot be evaluated.
        DataError: Great Expectations left one of ours out.
    """
    import pandas as pd

    before = None
    if previous:
        before = pd.read_parquet(here.path(previous, "manifest.parquet"))
    files = here.paths(manifest)
    tables = make_tables(manifest, files)
    checked = run_checks(tables, _read_errors(files["findings.parquet"]), before, config)
    tables = add_counts(tables, checked.counts)
    verdicts = _judge_all(tables, checked.instances, config, here)
    findings = [asdict(finding) for verdict in verdicts for finding in verdict.findings]
    pd.DataFrame(findings, columns=FINDING_COLUMNS, dtype="str").to_parquet(
        here.scratch / "findings.parquet", index=False
    )
    checked.pairs.to_parquet(here.scratch / "near_duplicates.parquet", index=False)
    reports = [
        str(path.relative_to(here.scratch))
        for path in here.scratch.rglob("*")
        if path.is_file() and path.suffix != ".gif"
    ]
    return Validated(
        reports=here.seal(reports),
        notes={
            "expectations": [[v.name, v.table, v.severity, v.success] for v in verdicts],
            "warnings": _sentences(verdicts, "warning"),
        },
        manifest=manifest.identity,
        num_expectations=len(verdicts),
        failures=tuple(_sentences(verdicts, "critical")),
    )


def _judge_all(
    tables: Tables, instances: Mapping[str, list[Instance]], config: ValidateConfig, here: Workspace
) -> list[Verdict]:
    import_great_expectations()
    ours = list_expectations(config, tables)
    suites: dict[str, list[Any]] = {}
    built = {each.name: build_expectation(each) for each in ours}
    for each in ours:
        suites.setdefault(each.table, []).extend(built[each.name])
    users = {f"expectations.{n}": own for n, own in enumerate(config.expectations)}
    for name, own in users.items():
        built[name] = [build_user_expectation(own, name, tables[own.table])]
        suites.setdefault(own.table, []).extend(built[name])
    outcomes = run_suites(suites, tables.frames, here.scratch / "data_docs", here.report)

    def look_up(name: str, table: str) -> list[Outcome]:
        keys = [key_of(each.configuration.to_json_dict()) for each in built[name]]
        return [outcomes[table][key] for key in keys]

    return [
        *(judge(e, look_up(e.name, e.table), instances.get(e.name), tables[e.table]) for e in ours),
        *(
            judge_user_expectation(own, name, look_up(name, own.table)[0])
            for name, own in users.items()
        ),
    ]


def _read_errors(path: Path) -> list[Instance]:
    import pandas as pd

    findings: pd.DataFrame = pd.read_parquet(path)
    errors = findings[findings["severity"] == "error"]
    rows: list[Any] = list(errors.itertuples())
    return [Instance(row.file, row.detail, row.place, row.remedy) for row in rows]


def _sentences(verdicts: list[Verdict], severity: str) -> list[str]:
    return [text for v in verdicts if v.severity == severity for text in v.sentences]
