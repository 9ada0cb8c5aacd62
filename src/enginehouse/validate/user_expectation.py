"""The user's own expectations: as they stand in a recipe, and as the library takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, JsonValue

from enginehouse.artifact import Config
from enginehouse.choices import suggest
from enginehouse.errors import RecipeError
from enginehouse.validate.expectations import Severity

if TYPE_CHECKING:
    import pandas as pd


class UserExpectation(Config):
    """One expectation of the user's own, as it stands in the JSON of Great Expectations."""

    table: Literal["pictures", "classes", "boxes", "set", "quarantine"] = Field(
        description="Which table: pictures, boxes and quarantine have the columns of the "
        "manifest's; classes has id, pictures, distinct, parts; set is one row for all."
    )
    type: str = Field(
        pattern=r"^expect_[a-z0-9_]+$",
        max_length=200,
        description="Type of the expectation, such as expect_column_values_to_be_between.",
    )
    kwargs: dict[str, JsonValue] = Field(
        {}, description="Its arguments, such as {column: width, min_value: 64}."
    )
    severity: Severity = Field(
        "critical", description="critical stops the run, warning and info are only said."
    )


def build_user_expectation(own: UserExpectation, name: str, table: pd.DataFrame) -> Any:
    """The library's object for one of the user's expectations.

    Args:
        name: where it stands in the recipe, for messages.

    Raises:
        RecipeError: the library knows no such type, or not with these arguments, or the table
            has no such column.
    """
    from great_expectations.exceptions import ExpectationNotFoundError
    from great_expectations.expectations import registry

    where = describe(own, name)
    try:
        kind = registry.get_expectation_impl(own.type)
    except ExpectationNotFoundError as error:
        known = registry.list_registered_expectation_implementations()
        raise RecipeError(
            f"{where}: Great Expectations has no expectation of this type.",
            f"Write the type as its JSON has it{suggest(own.type, known)}.",
        ) from error
    _check_columns(own, where, [str(column) for column in table.columns])
    try:
        return kind(**{**own.kwargs, "severity": own.severity, "meta": {"name": name}})
    except (ValueError, TypeError) as error:
        raise RecipeError(
            f"{where}: its kwargs are refused: {' '.join(str(error).split())}.",
            "Write them as the JSON of Great Expectations has them.",
        ) from error


def describe(own: UserExpectation, name: str) -> str:
    """`expectations.0 (expect_column_to_exist on pictures)`, for messages."""
    return f"validation.{name} ({own.type} on {own.table})"


def _check_columns(own: UserExpectation, where: str, known: list[str]) -> None:
    """A column that is not there is a slip in the recipe, unless that is what is asked."""
    if own.type == "expect_column_to_exist":
        return
    for argument in ("column", "column_A", "column_B"):
        column = own.kwargs.get(argument)
        if isinstance(column, str) and column not in known:
            raise RecipeError(
                f"{where}: the table has no column {column!r}; it has {', '.join(known)}.",
                f"Name one of them{suggest(column, known)}.",
            )
