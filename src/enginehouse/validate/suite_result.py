"""A validation result of Great Expectations, compared with the suite that it is a result of.

A result can lack an expectation that failed, hold exceptions, or be true of no rows at all, and
still say `success: true`. So the suite is what is walked, never the result. Imports nothing of
the library.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from enginehouse.validate.suite_json import (
    config_of,
    describe_entry,
    key_of,
    kwargs_of,
    name_of_suite,
    plain_kwargs,
    type_of,
)

State = Literal["passed", "failed", "missing", "raised", "no rows", "no verdict"]


@dataclass(frozen=True)
class Outcome:
    """What a result says of one expectation of the suite.

    Attributes:
        name: `expect_column_values_to_not_be_null on image_id`, or the short form's name.
        state: `no rows` means that nothing was compared.
        detail: what was found, for people; "" when passed.
        result: the numbers, as the library gives them.
    """

    name: str
    state: State
    detail: str
    result: Mapping[str, Any]


def looks_like_suite(data: object) -> bool:
    """Whether this JSON is an expectation suite."""
    if not isinstance(data, dict) or not isinstance(data.get("expectations"), list):
        return False
    entries = data["expectations"]
    named = {"name", "expectation_suite_name", "meta"} & data.keys()
    return all(type_of(entry) for entry in entries) and bool(entries or named or len(data) == 1)


def looks_like_result(data: object) -> bool:
    """Whether this JSON is a validation result, or a checkpoint's with some inside."""
    if not isinstance(data, dict) or "success" not in data:
        return False
    if isinstance(data.get("run_results"), dict):
        return True
    results = data.get("results")
    return isinstance(results, list) and all(
        isinstance(each, dict) and ("success" in each or config_of(each)) for each in results
    )


def compare_with_suite(suite: object, result: object) -> list[str]:
    """What keeps a result from being believed, in sentences; [] if all of its suite passed.

    Args:
        suite: parsed JSON of an expectation suite.
        result: parsed JSON of a validation result, or of a checkpoint's.
    """
    if not looks_like_suite(suite):
        return ["the suite is not an expectation suite: a list `expectations` was wanted"]
    if not looks_like_result(result):
        return ["the result is not a validation result: `success` and a list `results` were wanted"]
    assert isinstance(suite, dict) and isinstance(result, dict)
    inner = _find_result(suite, result)
    expected, results = suite["expectations"], inner.get("results")
    faults = [] if expected else ["the suite holds no expectation, so nothing was checked"]
    if not isinstance(results, list):
        return [*faults, "the result holds no list `results`"]
    names = name_of_suite(suite), name_of_suite(inner)
    if all(names) and names[0] != names[1]:
        faults.append(f"the result is of suite {names[1]!r}, the suite is {names[0]!r}")
    outcomes = match_results(expected, results)
    faults += [f"{o.name} {o.detail}" for o in outcomes if o.state != "passed"]
    if len(results) != len(expected):
        faults.append(
            f"the suite has {len(expected)} expectation(s), the result {len(results)}: "
            f"{sum(o.state == 'missing' for o in outcomes)} missing"
        )
    faults += _compare_statistics(inner, results)
    return faults + _compare_success(result, inner, bool(faults))


def match_results(expected: Sequence[Any], results: Sequence[Any]) -> list[Outcome]:
    """The outcome of each expectation of a suite, in the suite's order.

    Matched by id, else by type and arguments, else by type where the arguments of the suite are
    among those of the result; each result once.

    Args:
        expected: the suite's list `expectations`.
        results: the result's list `results`.
    """
    left = [each for each in results if isinstance(each, dict)]
    found: dict[int, dict[str, Any]] = {}
    for is_same in (_same_id, _same_key, _is_within):
        for place, entry in enumerate(expected):
            if place in found:
                continue
            for candidate in left:
                if is_same(entry, config_of(candidate)):
                    found[place] = candidate
                    left.remove(candidate)
                    break
    return [_read_outcome(entry, found.get(place)) for place, entry in enumerate(expected)]


def _read_outcome(entry: object, found: Mapping[str, Any] | None) -> Outcome:
    name = describe_entry(entry)
    if found is None:
        return Outcome(name, "missing", "is missing from the result", {})
    numbers = found.get("result")
    numbers = numbers if isinstance(numbers, dict) else {}
    if message := _find_exception(found.get("exception_info")):
        return Outcome(name, "raised", f"could not be evaluated: {message}", numbers)
    success = found.get("success")
    if not isinstance(success, bool):
        detail = f"has no verdict (success: {json.dumps(success)})"
        return Outcome(name, "no verdict", detail, numbers)
    if empty := _find_emptiness(type_of(entry), numbers):
        return Outcome(name, "no rows", empty, numbers)
    if success:
        return Outcome(name, "passed", "", numbers)
    return Outcome(name, "failed", f"failed{_describe_failure(entry, numbers)}", numbers)


def _find_exception(info: object) -> str:
    """The message of an exception; its information may be nested by metric."""
    if not isinstance(info, dict):
        return ""
    if info.get("raised_exception"):
        return " ".join(str(info.get("exception_message") or "an exception").split())
    return next(filter(None, map(_find_exception, info.values())), "")


def _find_emptiness(kind: str, numbers: Mapping[str, Any]) -> str:
    elements, missing = numbers.get("element_count"), numbers.get("missing_count")
    if elements == 0:
        return "was evaluated on 0 rows, so nothing was compared"
    if elements and elements == missing and not kind.endswith("to_be_null"):
        return f"found all {elements} values missing, so nothing was compared"
    return ""


def _describe_failure(entry: object, numbers: Mapping[str, Any]) -> str:
    words = []
    if count := numbers.get("unexpected_count"):
        of = numbers.get("element_count")
        words.append(f"{count} of {of} values" if of else f"{count} values")
        if examples := numbers.get("partial_unexpected_list"):
            words.append("such as " + ", ".join(map(str, examples[:3])))
    elif numbers.get("observed_value") is not None:
        words.append(f"observed {numbers['observed_value']}")
    if isinstance(entry, dict) and entry.get("severity") in ("warning", "info"):
        words.append(f"severity {entry['severity']}")
    return f": {', '.join(words)}" if words else ""


def _compare_statistics(inner: Mapping[str, Any], results: Sequence[Any]) -> list[str]:
    statistics = inner.get("statistics")
    if not isinstance(statistics, dict):
        return []
    passed = sum(isinstance(each, dict) and each.get("success") is True for each in results)
    counted = {"evaluated_expectations": len(results), "successful_expectations": passed}
    return [
        f"its statistics say {name} {statistics[name]}, its list holds {count}"
        for name, count in counted.items()
        if name in statistics and statistics[name] != count
    ]


def _compare_success(
    result: Mapping[str, Any], inner: Mapping[str, Any], has_faults: bool
) -> list[str]:
    says = [each["success"] for each in (result, inner) if "success" in each]
    if has_faults and True in says:
        return ["the result says success: true all the same"]
    if not has_faults and not all(each is True for each in says):
        return [f"the result says success: {json.dumps(says[0])}"]
    return []


def _find_result(suite: Mapping[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    """The validation result itself; of a checkpoint's the one of this suite, else the first."""
    runs = result.get("run_results")
    if not isinstance(runs, dict):
        return result
    entries = [each for each in runs.values() if isinstance(each, dict)]
    # Version 0.x wraps each in one more layer.
    inside = [each.get("validation_result", each) for each in entries]
    inside = [each for each in inside if isinstance(each, dict)]
    mine = [each for each in inside if name_of_suite(each) == name_of_suite(suite)]
    return next(iter([*mine, *inside]), {})


def _same_id(entry: object, config: object) -> bool:
    if not isinstance(entry, dict) or not isinstance(config, dict):
        return False
    names = ("id", "ge_cloud_id", "expectation_id")
    ids = [{str(each[name]) for name in names if each.get(name)} for each in (entry, config)]
    return bool(ids[0] & ids[1])


def _same_key(entry: object, config: object) -> bool:
    return key_of(entry) == key_of(config)


def _is_within(entry: object, config: object) -> bool:
    wanted, given = plain_kwargs(kwargs_of(entry)), plain_kwargs(kwargs_of(config))
    return type_of(entry) == type_of(config) and wanted.items() <= given.items()
