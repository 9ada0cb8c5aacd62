"""The road: which stage takes what from which. One wiring, walked with tasks or by look-up."""

from __future__ import annotations

from typing import Any

from enginehouse.ingest.record import DataVersion, Manifest
from enginehouse.recipe import Recipe
from enginehouse.road import Road
from enginehouse.train.record import Pretrained
from enginehouse.validate.record import Validated
from flows.candidates import Step, find_device, judge_target, shrink, take_over
from flows.inspection import Inspection
from tasks._stage import RunContext, StageTask
from tasks.ingest import ingest_task
from tasks.prepare import prepare_task
from tasks.train import train_task
from tasks.validate import validate_task


def walk(
    recipe: Recipe,
    data: DataVersion,
    step: Step,
    inspection: Inspection,
    pretrained: Pretrained | None = None,
) -> Road:
    """Walk from a data version to scored engines.

    Args:
        step: `step(task, place, config, /, **inputs) -> record`, see `with_tasks`, `by_look_up`; an
            input may have any name, as those of candidates do.
        inspection: judges the data before anything is trained.
        pretrained: what the recipe's `weights` came to (`tasks.weights`); None: random ones.

    Raises:
        ValidationFailed: the data was not let through.
        EnginehouseError: a stage failed.
    """
    assert (pretrained is None) == (recipe.weights == "none"), "weights were not resolved"
    manifest, validated = let_through(recipe, data, step, inspection)
    pack = step(
        *(prepare_task, "prepare", recipe.prepare),
        data=data,
        manifest=manifest,
        validated=validated,
    )
    start = {"pretrained": pretrained} if pretrained else {}
    model = step(train_task, "train", recipe.train, pack=pack, **start)
    road = Road(data, manifest, validated, pack, model)
    for candidate in recipe.list_candidates():
        shrink(road, recipe, candidate, step)
    run_here = {target.name: find_device(target) for target in recipe.targets}
    for target in recipe.targets:
        if device := run_here[target.name]:
            judge_target(road, recipe, target, device, step)
    for target in recipe.targets:
        if target.name not in road.tried:
            take_over(road, recipe, target, step)
    return road


def let_through(
    recipe: Recipe, data: DataVersion, step: Step, inspection: Inspection
) -> tuple[Manifest, Validated]:
    """Read a data version and judge it; arguments and errors as in `walk`."""
    manifest = step(ingest_task, "ingest", recipe.ingest, data=data)
    judged = {"manifest": manifest}
    if previous := inspection.find_previous(manifest):
        judged["previous"] = previous
    validated = step(validate_task, "validate", recipe.validation, **judged)
    inspection.conclude(manifest, validated)
    return manifest, validated


def with_tasks(context: RunContext) -> Step:
    """A step that runs each stage as a Prefect task."""

    def step(task: StageTask, place: str, config: Any, /, **inputs: Any) -> Any:
        return task.submit(context, place, config, **inputs)

    return step


def by_look_up(context: RunContext) -> Step:
    """A step that only looks up, without Prefect; raises NotCached where a stage would run."""

    def step(task: StageTask, place: str, config: Any, /, **inputs: Any) -> Any:
        return task.look_up(context, place, config, **inputs)

    return step


def plainly(context: RunContext) -> Step:
    """A step that runs each stage as a plain function call under the same cache."""

    def step(task: StageTask, place: str, config: Any, /, **inputs: Any) -> Any:
        return task.call(context, place, config, **inputs)

    return step
