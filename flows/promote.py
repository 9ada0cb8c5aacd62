"""The flow `promote`: the engines' aliases follow the wish, on a worker that has the device."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

from prefect import State, flow
from prefect.states import Completed
from pydantic import Field

from enginehouse.artifact import Workspace
from enginehouse.errors import Interrupted
from enginehouse.project import find_project
from flows.reconcile import Promotion, reconcile
from flows.road import with_tasks
from tasks._stage import PROGRESS, RunContext
from tasks._stopping import to_state
from tasks.registry import Registry


@flow(name="promote", persist_result=False)
def promote(
    recipe: Annotated[
        str, Field(min_length=1, max_length=40, description="Recipe, i.e. the registered model.")
    ],
    version: Annotated[
        int,
        Field(ge=0, description="Version to wish for first; 0: follow alias champion as it is."),
    ] = 0,
) -> State[Promotion]:
    """Reconcile the engines' aliases with the wish.

    Raises:
        RegistryError: MLflow is away, or the wish points at nothing.
        Interrupted: somebody asked to stop (the flow run is then cancelled).
    """
    project = find_project()
    store = project.open_store()
    registry = Registry(project.state)

    def say_waiting() -> None:
        PROGRESS.info("promote: another promotion of %s is going on; waiting for it", recipe)

    with store.lock(f"promote-{recipe}", say_waiting), tempfile.TemporaryDirectory() as scratch:
        workspace = Workspace(store, Path(scratch))
        context = RunContext(store, recipe, {})
        if version:
            registry.set_alias(recipe, "candidate", version)
            registry.set_alias(recipe, "champion", version)
        try:
            with context.stop.heed():
                promotion = reconcile(recipe, registry, workspace, with_tasks(context))
        except Interrupted as stop:
            return to_state(stop)
    return Completed(name=promotion.word.title(), message=promotion.reason, data=promotion)
