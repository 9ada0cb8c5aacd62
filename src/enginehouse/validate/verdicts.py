"""What became of each expectation, in sentences for people and as findings for tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from enginehouse.errors import DataError, RecipeError
from enginehouse.labels import Finding
from enginehouse.labels import Severity as FindingSeverity
from enginehouse.validate.expectations import Expectation, Severity
from enginehouse.validate.instance import Instance
from enginehouse.validate.suite_result import Outcome
from enginehouse.validate.user_expectation import UserExpectation, describe

if TYPE_CHECKING:
    import pandas as pd

NAMED = 5  # cases that a sentence names before it only counts
ERRORS = 20  # findings of ingest that become a sentence each
LISTED = 500  # cases of one expectation that become a finding each
OF_FILES = ("pictures", "boxes", "quarantine")  # tables whose ids are paths
SEVERITIES: Mapping[Severity, FindingSeverity] = {
    "critical": "error",
    "warning": "warning",
    "info": "info",
}


@dataclass(frozen=True)
class Verdict:
    """What became of one expectation.

    Attributes:
        sentences: what failed; () if it holds.
        findings: likewise, one per case.
    """

    name: str
    table: str
    severity: Severity
    sentences: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def success(self) -> bool:
        """Whether the expectation holds."""
        return not self.sentences


def judge(
    expectation: Expectation,
    outcomes: Sequence[Outcome],
    instances: Sequence[Instance] | None,
    table: pd.DataFrame,
) -> Verdict:
    """The verdict on one of our expectations.

    Args:
        outcomes: what the library says of it.
        instances: the cases behind it; None: the rows of the table tell.

    Raises:
        DataError: the library did not evaluate it.
    """
    verdict = Verdict(expectation.name, expectation.table, expectation.severity)
    for outcome in outcomes:
        if outcome.state not in ("passed", "failed"):
            raise DataError(
                f"Great Expectations gave no result for {expectation.name}: {outcome.name} "
                f"{outcome.detail}.",
                "Check the installed great-expectations version against requirements.lock.",
            )
    if all(outcome.state == "passed" for outcome in outcomes):
        return verdict
    if expectation.name == "set.errors_found":
        return _tell_errors(verdict, instances or ())
    cases = instances if instances else _list_rows(expectation, table)
    is_count = expectation.low is None and expectation.high == 0
    wanted = "" if is_count else f"wanted {expectation.wanted}"
    advice = "; ".join(filter(None, (wanted, expectation.remedy)))
    sentence = f"{expectation.says}: {_join(cases)} ({advice})"
    if wanted:
        cases = [replace(case, detail=f"{case.detail}; {wanted}") for case in cases]
    return _fail(verdict, sentence, expectation.says, cases, expectation.remedy)


def judge_user_expectation(own: UserExpectation, name: str, outcome: Outcome) -> Verdict:
    """The verdict on one of the user's expectations.

    No rows meet every expectation; only an empty quarantine is no reason to worry.

    Raises:
        RecipeError: the library could not evaluate it.
    """
    verdict = Verdict(name, own.table, own.severity)
    where = describe(own, name)
    if outcome.state not in ("passed", "failed", "no rows"):
        raise RecipeError(
            f"{where}: it {outcome.detail}.", "Check its arguments against the table's columns."
        )
    if outcome.state == "passed" or (outcome.state == "no rows" and own.table == "quarantine"):
        return verdict
    found = outcome.result.get("partial_unexpected_index_list") or []
    cases = [
        Instance(
            str(each["id"]) if own.table in OF_FILES else "",
            ", ".join(f"{key} {value}" for key, value in each.items() if key != "id")
            + f" in {each['id']}",
        )
        for each in found
    ]
    words = f"{where}: {outcome.name} {outcome.detail}"
    sentence = f"{words}; {_join(cases)}" if cases else words
    return _fail(verdict, sentence, own.type, cases or [Instance("", words)], "")


def _tell_errors(verdict: Verdict, errors: Sequence[Instance]) -> Verdict:
    """One sentence per error; they are the manifest's findings, so none is added here."""
    sentences = [
        ": ".join(filter(None, (" ".join(filter(None, (e.file, e.place))), e.detail)))
        + (f" ({e.remedy})" if e.remedy else "")
        for e in errors[:ERRORS]
    ]
    if len(errors) > ERRORS:
        sentences.append(f"{len(errors) - ERRORS} more errors, which findings.parquet names")
    return Verdict(verdict.name, verdict.table, verdict.severity, tuple(sentences))


def _fail(
    verdict: Verdict, sentence: str, reason: str, cases: Sequence[Instance], remedy: str
) -> Verdict:
    severity = SEVERITIES[verdict.severity]
    findings = [
        Finding(severity, reason, case.file, case.detail, case.remedy or remedy, case.place)
        for case in cases[:LISTED]
    ]
    if len(cases) > LISTED:
        more = f"{len(cases) - LISTED} more, which are not listed"
        findings.append(Finding(severity, reason, "", more, remedy))
    return Verdict(verdict.name, verdict.table, verdict.severity, (sentence,), tuple(findings))


def _list_rows(expectation: Expectation, table: pd.DataFrame) -> list[Instance]:
    values = table[expectation.column]
    bad = values.isna()
    if expectation.low is not None:
        bad |= values < expectation.low
    if expectation.high is not None:
        bad |= values > expectation.high
    is_file = expectation.table in OF_FILES
    words = expectation.column.replace("_", " ")
    return [
        Instance(str(name) if is_file else "", f"{name} has {words} {value:g}")
        for name, value in zip(table["id"][bad], values[bad], strict=True)
    ]


def _join(cases: Sequence[Instance]) -> str:
    more = f" and {len(cases) - NAMED} more" if len(cases) > NAMED else ""
    return "; ".join(case.detail for case in cases[:NAMED]) + more
