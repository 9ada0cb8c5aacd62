"""`enginehouse check`: ingest and validate on any folder, sheet or label file, and nothing else."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from enginehouse.artifact import Workspace
from enginehouse.files import Files
from enginehouse.ingest.ingest import IngestConfig
from enginehouse.labels import Finding
from enginehouse.project import Project
from enginehouse.validate.record import Validated
from enginehouse.validate.suite_result import (
    compare_with_suite,
    looks_like_result,
    looks_like_suite,
)
from enginehouse.validate.validate import ValidateConfig
from flows.inspection import write_verdict
from flows.source import PREFIX, tell_source
from flows.verdict import Verdict, add_findings, make_verdict, read_rows
from tasks.validate import validate_task

GREAT_EXPECTATIONS = "great_expectations"  # what the format is called where there are only results


def check(
    project: Project, source: Path, ingest: IngestConfig, validation: ValidateConfig
) -> Verdict:
    """Judge a source; what is wrong with the data is in the verdict, never raised.

    Args:
        source: a folder, a DVC repository, a .dvc file, or a label file with its pictures.

    Raises:
        RecipeError: no such format, or an expectation of the recipe cannot be evaluated.
    """
    verdict, read = tell_source(project, source, ingest)
    if read is None:
        return verdict
    if (results := compare_results(read.files)) is not None:
        verdict = make_verdict(source)
        verdict["format"] = GREAT_EXPECTATIONS
        add_findings(verdict, results)
        return verdict
    validated = validate_task.call(read.context, "validate", validation, manifest=read.manifest)
    assert isinstance(validated, Validated)
    with tempfile.TemporaryDirectory() as scratch:
        here = Workspace(read.context.store, Path(scratch))
        rows = read_rows(here.path(validated, "findings.parquet"))
    add_findings(verdict, (Finding(**row) for row in rows))
    told = (read.resolved, read.context.store, read.manifest, validated)
    verdict["report"] = write_verdict(
        project, read.resolved.folder.name, *told, shelf=PREFIX
    ).as_uri()
    return verdict


def compare_results(files: Files) -> list[Finding] | None:
    """The verdict on results of Great Expectations that lie in a folder instead of pictures.

    Returns:
        None if the folder holds pictures, or no suite with a result.
    """
    if files.pictures:
        return None
    suites = {path: data for path, data in _read_json(files) if looks_like_suite(data)}
    results = {path: data for path, data in _read_json(files) if looks_like_result(data)}
    if not suites or not results:
        return None
    findings = []
    for path, result in results.items():
        faults = {name: compare_with_suite(suite, result) for name, suite in suites.items()}
        name, sentences = min(faults.items(), key=lambda item: len(item[1]))
        findings += [
            Finding(
                "error",
                "validation result that cannot be believed",
                path,
                f"Compared with {name}: {sentence}.",
                "Run the whole suite again on the data.",
            )
            for sentence in sentences
        ]
    return findings


def _read_json(files: Files) -> Iterator[tuple[str, Any]]:
    for path in files.others:
        if path.lower().endswith(".json"):
            try:
                yield path, json.loads(files.read(path))
            except ValueError:  # what no result is, ingest tells
                continue
