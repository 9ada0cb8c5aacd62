"""The one place that runs Great Expectations: suites in, outcomes and Data Docs out."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enginehouse.artifact import Report
from enginehouse.validate.expectations import Expectation
from enginehouse.validate.suite_json import key_of
from enginehouse.validate.suite_result import Outcome, match_results

if TYPE_CHECKING:
    import pandas as pd


def import_great_expectations() -> Any:
    """The library, without its telemetry and its log lines."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"  # read once, at import
    import great_expectations as gx

    logging.getLogger("great_expectations").setLevel(logging.ERROR)
    return gx


def build_expectation(expectation: Expectation) -> list[Any]:
    """The library's objects for one of our expectations."""
    import great_expectations.expectations as gxe

    common = {
        "column": expectation.column,
        "severity": expectation.severity,
        "notes": f"If it fails: {expectation.says}. Then {expectation.remedy}.",
        "meta": {"name": expectation.name},
    }
    return [
        gxe.ExpectColumnValuesToNotBeNull(**common),
        gxe.ExpectColumnValuesToBeBetween(
            **common, min_value=expectation.low, max_value=expectation.high
        ),
    ]


def run_suites(
    suites: Mapping[str, Sequence[Any]],
    frames: Mapping[str, pd.DataFrame],
    docs: Path,
    report: Report,
) -> dict[str, dict[str, Outcome]]:
    """Run one suite per table and write the Data Docs.

    Args:
        suites: table to the library's expectations.
        frames: tables by name, with an `id` column.
        docs: folder for the pages (`index.html` first).
        report: progress.

    Returns:
        By table, the outcome of each expectation by the `key_of` its configuration.
    """
    gx = import_great_expectations()
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    context.delete_data_docs_site("local_site")
    context.add_data_docs_site("data_docs", _docs_site(docs))
    source = context.data_sources.add_pandas("manifest")
    outcomes: dict[str, dict[str, Outcome]] = {}
    for done, (table, expectations) in enumerate(suites.items(), start=1):
        suite = gx.ExpectationSuite(name=table)
        for wanted in expectations:
            suite.add_expectation(wanted)  # of two equal ones the library keeps one
        batch = source.add_dataframe_asset(table).add_batch_definition_whole_dataframe("all")
        definition = gx.ValidationDefinition(
            name=table, data=batch, suite=context.suites.add(suite)
        )
        checkpoint = gx.Checkpoint(
            name=table,
            validation_definitions=[context.validation_definitions.add(definition)],
            actions=[_docs_action()],
            # With all values instead of the first 20, pages and time grow with the table.
            result_format={
                "result_format": "SUMMARY",
                "unexpected_index_column_names": ["id"],
                "include_unexpected_rows": False,
            },
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pandas and marshmallow speak to GX here, not to us
            run = context.checkpoints.add(checkpoint).run({"dataframe": frames[table]})
        result = next(iter(run.run_results.values())).to_json_dict()
        entries = [wanted.configuration.to_json_dict() for wanted in expectations]
        unique = {key_of(entry): entry for entry in entries}
        matched = match_results(list(unique.values()), result["results"])
        outcomes[table] = dict(zip(unique, matched, strict=True))
        report("checking expectations", done, len(suites))
    return outcomes


def _docs_site(folder: Path) -> dict[str, Any]:
    return {
        "class_name": "SiteBuilder",
        "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
        "store_backend": {
            "class_name": "TupleFilesystemStoreBackend",
            "base_directory": str(folder),
        },
    }


def _docs_action() -> Any:
    from great_expectations.checkpoint import UpdateDataDocsAction

    return UpdateDataDocsAction(name="data_docs", site_names=["data_docs"])
