"""The flow `retrain`: from a data version to a judged, registered, promoted release."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated, cast

from prefect import State, flow
from prefect.artifacts import (
    create_link_artifact,
    create_markdown_artifact,
    create_table_artifact,
)
from prefect.runtime import flow_run
from prefect.states import Completed
from pydantic import Field

from enginehouse.artifact import Workspace
from enginehouse.errors import Interrupted, RegistryError
from enginehouse.project import Project, find_project
from enginehouse.recipe import Recipe, check_recipe
from enginehouse.validate.record import Validated
from flows.inspection import Inspection
from flows.promote import promote
from flows.reconcile import Promotion
from flows.release import (
    Registered,
    Verdict,
    judge_road,
    list_precisions,
    register_road,
)
from flows.result import RunResult, find_nothing_new, publish
from flows.road import walk, with_tasks
from flows.run import Run, make_context, name_profile
from flows.summary import render_markdown, table_of_gates, table_of_stages
from tasks._stage import PROGRESS
from tasks._stopping import to_state
from tasks._training import watch_training
from tasks.data import resolve_data
from tasks.registry import Registry
from tasks.weights import resolve_weights

LINES_SHOWN = 30  # failures and warnings on the flow run's page; the data report has all


@flow(name="retrain", persist_result=False)
def retrain(
    recipe: Annotated[Recipe, Field(description="What to make, from which data.")],
    data: Annotated[
        str,
        Field(max_length=1000, description="Another data folder for this run, or empty."),
    ] = "",
    profile: Annotated[
        bool, Field(description="Write down where the time of training goes.")
    ] = False,
) -> State[RunResult]:
    """Train, shrink, build, judge, register and promote; only what changed is computed.

    Raises:
        EnginehouseError: bad input, or a stage failed; finished stages are kept.
        Interrupted: somebody asked to stop (the flow run is then cancelled).
    """
    project = find_project()
    check_recipe(recipe)
    try:
        result = run_road(project, recipe, data, profile)
    except Interrupted as stop:
        return to_state(stop)
    create_markdown_artifact(render_markdown(result), key="summary", description="Summary")
    create_table_artifact(table_of_gates(result), key="gates", description="Gates")
    create_table_artifact(
        list_precisions(result.run.road), key="precisions", description="What ships on each target"
    )
    create_table_artifact(table_of_stages(result), key="stages", description="Stages")
    return Completed(name=result.state_name, message=result.headline, data=result)


def run_road(project: Project, recipe: Recipe, data: str, profile: bool = False) -> RunResult:
    """Walk the road with tasks, then judge, register, promote and report."""
    store = project.open_store()
    resolved = resolve_data(project, data or recipe.data.path, PROGRESS.info)
    if resolved.hint:
        PROGRESS.info("data: %s; %s", resolved.status, resolved.hint)
    watches = {
        "train": watch_training(project.state, recipe.name, resolved.digest, PROGRESS.warning)
    }
    folder = name_profile(project, recipe) if profile else None
    context = make_context(store, recipe, resolved, watches, folder)
    step = with_tasks(context)

    def announce(page: Path, validated: Validated) -> None:
        tags = {"data": resolved.digest, "data_status": resolved.status}
        try:
            run_id = Registry(project.state).log_data_report(recipe.name, page, tags)
        except RegistryError as error:  # registration asks again; what can be computed, is
            PROGRESS.warning("data report: not in MLflow. %s", error.message)
            run_id = ""
        link_data_report(run_id, page, validated)

    inspection = Inspection(project, recipe.name, resolved, store, announce)
    pretrained = resolve_weights(project, recipe, store, PROGRESS.info)
    with context.stop.heed():
        road = walk(recipe, resolved.version, step, inspection, pretrained)

    def say_waiting() -> None:
        PROGRESS.info("register: another run of %s is registering; waiting for it", recipe.name)

    lock = store.lock(f"release-{recipe.name}", say_waiting)
    with lock, tempfile.TemporaryDirectory() as scratch:
        workspace = Workspace(store, Path(scratch), sources=context.sources)
        registry = Registry(project.state)
        run = Run(project, recipe, resolved, context, road, registry, workspace, step)
        if found := find_nothing_new(run):
            return found
        verdict = judge_road(run)
        made = register_road(run, verdict, flow_run.get_flow_run_ui_url() or "")
        return publish(run, verdict, made, _promote(verdict, made))


def link_data_report(run_id: str, page: Path, validated: Validated) -> None:
    """Show the data report on the flow run's page, whatever the verdict."""
    word = "rejected" if validated.failures else "accepted"
    lines = [*validated.failures, *validated.warnings][:LINES_SHOWN]
    create_link_artifact(page.as_uri(), "data report", key="data-report", description=word)
    place = f", and among the artifacts of MLflow run `{run_id}`" if run_id else ""
    text = "\n".join(f"- {line}" for line in lines)
    create_markdown_artifact(
        f"Data {word}. Data report: {page.as_uri()}{place}.\n\n{text}",
        key="data",
        description=f"Data {word}",
    )


def _promote(verdict: Verdict, made: Registered) -> Promotion:
    if verdict.word == "rejected":
        return Promotion("rejected", verdict.reason, made.model.number)
    return cast(Promotion, promote(made.model.name, made.model.number))
