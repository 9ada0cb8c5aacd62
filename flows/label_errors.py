"""The flow `label-errors`: which labels of a data set are probably wrong, as a sheet to correct."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from prefect import State, flow
from prefect.artifacts import create_link_artifact, create_markdown_artifact
from prefect.states import Completed
from pydantic import Field

from enginehouse.errors import Interrupted
from enginehouse.project import find_project
from enginehouse.recipe import Recipe, check_recipe
from flows.folds import LabelErrors, render_errors, search
from flows.road import with_tasks
from tasks._stopping import to_state


@flow(name="label-errors", persist_result=False)
def label_errors(
    recipe: Annotated[Recipe, Field(description="Which data, and how to train on it.")],
    data: Annotated[
        str,
        Field(max_length=1000, description="Another data folder for this search, or empty."),
    ] = "",
    folds: Annotated[
        int, Field(ge=2, le=20, description="Networks that are trained, each without a part.")
    ] = 5,
    out: Annotated[
        str, Field(max_length=1000, description="Where the sheet goes; empty: to the reports.")
    ] = "",
) -> State[LabelErrors]:
    """Train one network per fold, let it judge what it did not see, and rank the labels.

    Raises:
        EnginehouseError: bad input, or a stage failed; finished stages are kept.
        Interrupted: somebody asked to stop (the flow run is then cancelled).
    """
    check_recipe(recipe)
    place = Path(out) if out else None
    try:
        result = search(find_project(), recipe, data, folds, place, with_tasks)
    except Interrupted as stop:
        return to_state(stop)
    create_link_artifact(result.sheet.as_uri(), "sheet", key="label-errors", description="Sheet")
    text = render_errors(result).replace("\n", "\n\n")
    create_markdown_artifact(text, key="label-errors-summary", description="Label errors")
    return Completed(name="Found", message=result.headline, data=result)
