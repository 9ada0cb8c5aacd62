"""The road: which stage takes what from which. One wiring, walked with tasks or by look-up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from enginehouse.build.record import Engine
from enginehouse.engine import Device, Target, load_backend
from enginehouse.errors import EngineError, Unavailable
from enginehouse.evaluate.config import EvaluateConfig
from enginehouse.evaluate.record import Scorecard
from enginehouse.export.record import OnnxModel
from enginehouse.ingest.record import DataVersion, Manifest
from enginehouse.prepare.record import Pack
from enginehouse.quantize.record import QuantizedModel
from enginehouse.recipe import Recipe
from enginehouse.road import Road
from enginehouse.train.record import Pretrained, TrainedModel
from enginehouse.validate.record import Validated
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


def walk(
    recipe: Recipe,
    data: DataVersion,
    step: Step,
    inspection: Inspection,
    pretrained: Pretrained | None = None,
) -> Road:
    """Walk from a data version to scored engines.

    Args:
        step: `step(task, place, config, **inputs) -> record`, see `with_tasks`, `by_look_up`.
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


def _add_engine(road: Road, recipe: Recipe, target: Target, step: Step) -> None:
    onnx = _export(road, recipe, target.precision, step)
    made = make_engine(step, target, onnx, road.pack, recipe.evaluate)
    if made.engine:
        road.engines[target.name] = made.engine
    if made.scores:
        road.validations[target.name], road.scorecards[target.name] = made.scores
    if made.waiting:
        road.waiting[target.name] = made.waiting


class Scores(NamedTuple):
    """What an engine scored on validation, where its operating point was fixed, and on test."""

    validation: Scorecard
    test: Scorecard


class Made(NamedTuple):
    """An engine as far as it could be made here, and why no further."""

    engine: Engine | None
    scores: Scores | None
    waiting: str


def make_engine(
    step: Step, target: Target, onnx: OnnxModel, pack: Pack, config: EvaluateConfig
) -> Made:
    """Build and score the engine of one target as far as this machine can.

    Raises:
        EngineError: a required target's engine failed to build or run.
    """
    backend = load_backend(target.backend)
    try:
        device = backend.describe_build_device(target)
        engine = step(build_task, f"build.{target.name}", target, onnx=onnx, device=device)
    except Unavailable as reason:
        return Made(None, None, f"cannot be built here: {reason.message}")
    except EngineError as error:
        if target.required:
            raise
        return Made(None, None, f"failed to build: {error.message}")
    try:
        device = backend.describe_run_device(target)
    except Unavailable as reason:
        return Made(engine, None, f"built, but cannot be run here: {reason.message}")
    scores = score_engine(step, target.name, engine, pack, device, config)
    return Made(engine, scores, "")


def score_engine(
    step: Step, name: str, engine: Engine, pack: Pack, device: Device, config: EvaluateConfig
) -> Scores:
    """Score an engine on validation, then on test at the operating point that was fixed there."""
    inputs = {"engine": engine, "pack": pack, "device": device}
    validation = step(evaluate_task, f"evaluate.{name}.val", config, **inputs)
    test = step(evaluate_task, f"evaluate.{name}", config, **inputs, validation=validation)
    return Scores(validation, test)


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
