"""The JSON of Great Expectations, read: what an entry of a suite or of a result is about.

Knows versions 0.x and 1.x, and a short form in which expectations are just names; imports
nothing of the library.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def key_of(entry: object) -> str:
    """Type and arguments of an expectation as one text, equal for equal expectations."""
    return json.dumps([type_of(entry), plain_kwargs(kwargs_of(entry))], sort_keys=True)


def name_of_suite(data: Mapping[str, Any]) -> str:
    """The name of a suite, or of the suite that a result is of; "" if none is given."""
    meta = data.get("meta")
    places = [data, meta if isinstance(meta, dict) else {}]
    keys = ("suite_name", "expectation_suite_name")
    names = [place.get(key) for place in places for key in keys]
    own = data.get("name") if "expectations" in data else None
    return next((str(name) for name in (*names, own) if name), "")


def config_of(result: Mapping[str, Any]) -> object:
    """What a result says it is the result of."""
    for name in ("expectation_config", "expectation", "expectation_type", "type", "name"):
        if result.get(name):
            return result[name]
    return None


def type_of(entry: object) -> str:
    """The type of an expectation, in the short form its name; "" if there is none."""
    if isinstance(entry, dict):
        names = ("type", "expectation_type", "expectation", "name")
        entry = next((entry[name] for name in names if entry.get(name)), None)
    return entry if isinstance(entry, str) else ""


def kwargs_of(entry: object) -> dict[str, Any]:
    """The arguments of an expectation, without those that say how it was run."""
    kwargs = entry.get("kwargs") if isinstance(entry, dict) else None
    if not isinstance(kwargs, dict):
        return {}
    return {k: v for k, v in kwargs.items() if k not in ("batch_id", "result_format")}


def describe_entry(entry: object) -> str:
    """`expect_column_values_to_not_be_null on image_id`."""
    kwargs = kwargs_of(entry)
    names = ("column", "column_A", "column_B", "column_list")
    columns = [str(kwargs[name]) for name in names if name in kwargs]
    return type_of(entry) + (f" on {', '.join(columns)}" if columns else "")


def plain_kwargs(kwargs: Mapping[str, Any]) -> dict[str, str]:
    """Arguments as texts; 1 and 1.0 are one, and a null is no argument."""

    def number(value: Any) -> Any:
        if isinstance(value, dict):
            return {str(key): number(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [number(item) for item in value]
        return float(value) if isinstance(value, int) and not isinstance(value, bool) else value

    return {
        key: json.dumps(number(value), sort_keys=True, default=str)
        for key, value in kwargs.items()
        if value is not None
    }
