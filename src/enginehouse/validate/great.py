"""The one place that speaks to Great Expectations: expectations in, verdicts and Data Docs out."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enginehouse.artifact import Report
from enginehouse.errors import DataError
from enginehouse.validate.expectations import Expectation, Severity

if TYPE_CHECKING:
    import pandas as pd

NAMED = 5  # ids that a sentence names before it only counts


@dataclass(frozen=True)
class Verdict:
    """What became of one expectation."""

    name: str
    table: str
    severity: Severity
    success: bool
    sentence: str


def run_suites(
    tables: Mapping[str, pd.DataFrame],
    expectations: Sequence[Expectation],
    docs: Path,
    report: Report,
) -> list[Verdict]:
    """Check every expectation and write the Data Docs.

    Args:
        tables: data frames by name, with an `id` column.
        expectations: what to check.
        docs: folder for the pages (`index.html` first).
        report: progress.

    Raises:
        DataError: the results lack an expectation of the suite, or one could not be evaluated.
    """
    os.environ["GX_ANALYTICS_ENABLED"] = "false"  # read once, at import
    import great_expectations as gx

    logging.getLogger("great_expectations").setLevel(logging.ERROR)
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    context.delete_data_docs_site("local_site")
    context.add_data_docs_site("data_docs", _docs_site(docs))
    source = context.data_sources.add_pandas("manifest")
    results: dict[str, Any] = {}
    names = list(dict.fromkeys(e.table for e in expectations))
    for done, table in enumerate(names, start=1):
        suite = gx.ExpectationSuite(name=table)
        for expectation in (e for e in expectations if e.table == table):
            for wanted in _great_expectations(expectation):
                suite.add_expectation(wanted)
        batch = source.add_dataframe_asset(table).add_batch_definition_whole_dataframe("all")
        definition = gx.ValidationDefinition(
            name=table, data=batch, suite=context.suites.add(suite)
        )
        checkpoint = gx.Checkpoint(
            name=table,
            validation_definitions=[context.validation_definitions.add(definition)],
            actions=[_docs_action()],
            result_format={
                "result_format": "COMPLETE",
                "unexpected_index_column_names": ["id"],
                "include_unexpected_rows": False,
            },
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pandas and marshmallow speak to GX here, not to us
            run = context.checkpoints.add(checkpoint).run({"dataframe": tables[table]})
        for result in next(iter(run.run_results.values())).results:
            meta = result.expectation_config.meta
            results[f"{meta['name']}/{meta['part']}"] = result
        report("checking expectations", done, len(names))
    return [_judge(expectation, results, tables) for expectation in expectations]


def _great_expectations(expectation: Expectation) -> list[Any]:
    import great_expectations.expectations as gxe

    common = {
        "column": expectation.column,
        "severity": expectation.severity,
        "notes": f"If it fails: {expectation.says}. Then {expectation.remedy}.",
    }
    meta = {"name": expectation.name}
    return [
        gxe.ExpectColumnValuesToNotBeNull(**common, meta={**meta, "part": "set"}),
        gxe.ExpectColumnValuesToBeBetween(
            **common,
            min_value=expectation.low,
            max_value=expectation.high,
            meta={**meta, "part": "range"},
        ),
    ]


def _judge(
    expectation: Expectation, results: Mapping[str, Any], tables: Mapping[str, pd.DataFrame]
) -> Verdict:
    # A result can be missing while `success` says true, so the suite is what is walked.
    outcomes = [results.get(f"{expectation.name}/{part}") for part in ("set", "range")]
    broken = [o is None or o.exception_info.get("raised_exception", False) for o in outcomes]
    if any(broken):
        raise DataError(
            f"Great Expectations gave no result for {expectation.name} "
            f"({sum(broken)} of {len(broken)} checks missing or failed to run).",
            "Check the installed great-expectations version against requirements.lock.",
        )
    empty = tables[expectation.table].empty  # zero rows meet every expectation
    success = not empty and all(o.success for o in outcomes if o is not None)
    found = _name_rows(expectation, tables[expectation.table])
    bounds = f"{_bound(expectation.low, 'at least')}{_bound(expectation.high, 'at most')}".strip()
    sentence = f"{expectation.says}: {found} (wanted {bounds}; {expectation.remedy})"
    return Verdict(
        expectation.name,
        expectation.table,
        expectation.severity,
        success,
        "the table holds no rows" if empty else sentence,
    )


def _name_rows(expectation: Expectation, table: pd.DataFrame) -> str:
    values = table[expectation.column]
    bad = values.isna()
    if expectation.low is not None:
        bad |= values < expectation.low
    if expectation.high is not None:
        bad |= values > expectation.high
    rows = table[bad]
    shown = [
        f"{row['id']} has {row[expectation.column]:g}" for _, row in rows.head(NAMED).iterrows()
    ]
    more = f" and {len(rows) - NAMED} more" if len(rows) > NAMED else ""
    return ", ".join(shown) + more


def _bound(value: float | None, words: str) -> str:
    return "" if value is None else f"{words} {value:g} "


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
