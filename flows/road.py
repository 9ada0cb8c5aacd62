"""The road: which stage takes what from which. One wiring, walked with tasks or by look-up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from enginehouse.build.record import Engine
from enginehouse.engine import Target, load_backend
from enginehouse.errors import EngineError, Unavailable
from enginehouse.evaluate.evaluate import EvaluateConfig
from enginehouse.evaluate.record import Scorecard
from enginehouse.export.record import OnnxModel
from enginehouse.ingest.record import DataVersion
from enginehouse.prepare.record import Pack
from enginehouse.quantize.record import QuantizedModel
from enginehouse.recipe import Recipe
from enginehouse.road import Road
from enginehouse.train.record import TrainedModel
from flows.inspection import Inspection
from tasks._stage import RunContext, StageTask
from tasks.build import build_task
from tasks.evaluate import evaluate_task
from tasks.export import export_task
from tasks.ingest import ingest_task
from tasks.measure import measure_task
from tasks.prepare import prepare_task
from tasks.quantize import quantize_task
from tasks.train import train_task
from tasks.validate import validate_task

Step = Callable[..., Any]


def walk(recipe: Recipe, data: DataVersion, step: Step, inspection: Inspection) -> Road:
    """Walk from a data version to scored engines.

    Args:
        step: `step(task, place, config, **inputs) -> record`, see `with_tasks`, `by_look_up`.
        inspection: judges the data before anything is trained.

    Raises:
        ValidationFailed: the data was not let through.
        EnginehouseError: a stage failed.
    """
    manifest = step(ingest_task, "ingest", recipe.ingest, data=data)
    judged = {"manifest": manifest}
    if previous := inspection.find_previous(manifest):
        judged["previous"] = previous
    validated = step(validate_task, "validate", recipe.validation, **judged)
    inspection.conclude(manifest, validated)
    pack = step(
        *(prepare_task, "prepare", recipe.prepare),
        data=data,
        manifest=manifest,
        validated=validated,
    )
    model = step(train_task, "train", recipe.train, pack=pack)
    road = Road(data, manifest, validated, pack, model)
    twins = [recipe.twin(target) for target in recipe.targets if target.required]
    for target in (*twins, *recipe.targets):
        _add_engine(road, recipe, target, step)
    first = next(target for target in recipe.targets if target.required)
    if first.name in road.scorecards:
        road.latency = step(
            *(measure_task, "measure", recipe.measure),
            engine=road.engines[first.name],
            reference=road.engines[recipe.reference.name],
            model=model,
            pack=pack,
            device=load_backend(first.backend).describe_run_device(first),
        )
    return road


def _add_engine(road: Road, recipe: Recipe, target: Target, step: Step) -> None:
    onnx = _export(road, recipe, target.precision, step)
    engine, scorecard, waiting = make_engine(step, target, onnx, road.pack, recipe.evaluate)
    if engine:
        road.engines[target.name] = engine
    if scorecard:
        road.scorecards[target.name] = scorecard
    if waiting:
        road.waiting[target.name] = waiting


def make_engine(
    step: Step, target: Target, onnx: OnnxModel, pack: Pack, config: EvaluateConfig
) -> tuple[Engine | None, Scorecard | None, str]:
    """Build and score the engine of one target as far as this machine can; and why no further.

    Raises:
        EngineError: a required target's engine failed to build or run.
    """
    backend = load_backend(target.backend)
    try:
        device = backend.describe_build_device(target)
        engine = step(build_task, f"build.{target.name}", target, onnx=onnx, device=device)
    except Unavailable as reason:
        return None, None, f"cannot be built here: {reason.message}"
    except EngineError as error:
        if target.required:
            raise
        return None, None, f"failed to build: {error.message}"
    try:
        device = backend.describe_run_device(target)
    except Unavailable as reason:
        return engine, None, f"built, but cannot be run here: {reason.message}"
    place = f"evaluate.{target.name}"
    return engine, step(evaluate_task, place, config, engine=engine, pack=pack, device=device), ""


def _export(road: Road, recipe: Recipe, precision: str, step: Step) -> OnnxModel:
    if precision not in road.onnx:
        network: TrainedModel | QuantizedModel = road.model
        if precision == "int8":
            network = road.quantized = step(
                quantize_task, "quantize", recipe.quantize, model=road.model, pack=road.pack
            )
        road.onnx[precision] = step(
            *(export_task, f"export.{precision}", recipe.export),
            model=network,
            pack=road.pack,
            data=road.data,
        )
    return road.onnx[precision]


def with_tasks(context: RunContext) -> Step:
    """A step that runs each stage as a Prefect task."""

    def step(task: StageTask, place: str, config: Any, **inputs: Any) -> Any:
        return task.submit(context, place, config, **inputs)

    return step


def by_look_up(context: RunContext) -> Step:
    """A step that only looks up, without Prefect; raises NotCached where a stage would run."""

    def step(task: StageTask, place: str, config: Any, **inputs: Any) -> Any:
        return task.look_up(context, place, config, **inputs)

    return step


def plainly(context: RunContext) -> Step:
    """A step that runs each stage as a plain function call under the same cache."""

    def step(task: StageTask, place: str, config: Any, **inputs: Any) -> Any:
        return task.call(context, place, config, **inputs)

    return step
