"""The candidates of a recipe: made smaller, tried on each target, and chosen among."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

from enginehouse.build.record import Engine
from enginehouse.choose.record import ChooseConfig, Rung
from enginehouse.engine import STEPS, Device, Target, load_backend
from enginehouse.errors import EngineError, ExportError, Unavailable
from enginehouse.evaluate.config import EvaluateConfig
from enginehouse.evaluate.record import Scorecard
from enginehouse.export.record import OnnxModel
from enginehouse.prepare.record import Pack
from enginehouse.quantize.record import PLAIN, Candidate
from enginehouse.recipe import Recipe
from enginehouse.road import Road, Tried
from tasks._stage import PROGRESS
from tasks.build import build_task
from tasks.choose import choose_task
from tasks.compare import compare_task
from tasks.evaluate import evaluate_task
from tasks.export import export_task
from tasks.measure import measure_task
from tasks.quantize import quantize_task

Step = Callable[..., Any]  # as in `flows.road`


def shrink(road: Road, recipe: Recipe, candidate: Candidate, step: Step) -> None:
    """Make the network smaller in one way, down to its ONNX file."""
    name = candidate.label
    quantized = road.quantized[name] = step(
        *(quantize_task, f"quantize.{name}", recipe.quantize.configure(candidate)),
        model=road.model,
        pack=road.pack,
    )
    try:
        road.onnx[name] = step(
            *(export_task, f"export.{name}", recipe.export),
            model=quantized,
            trained=road.model,
            pack=road.pack,
            data=road.data,
        )
    except ExportError as error:
        if name == PLAIN:
            raise
        road.failed[name] = f"failed to export: {error.message}"
        PROGRESS.warning("%s %s", name, road.failed[name])


def find_device(target: Target) -> Device | None:
    """The device that runs a target's engine, if it is in this machine."""
    try:
        return load_backend(target.backend).describe_run_device(target)
    except Unavailable:
        return None


def judge_target(road: Road, recipe: Recipe, target: Target, device: Device, step: Step) -> None:
    """Try every candidate on a target; what the rules choose is then scored on test.

    Raises:
        EngineError: of a required target, fp32 came to no engine, or to a wrong one.
    """
    tried = road.tried[target.name] = {
        candidate.label: _try(road, recipe, target, candidate, device, step)
        for candidate in recipe.list_candidates(target)
    }
    plain = tried[PLAIN]
    if plain.validation is None:  # nothing to hold the others against
        told = plain.waiting or plain.failed
        if plain.failed and target.required:
            raise EngineError(
                f"Target {target.name!r} has no fp32 engine, which all others are held against: "
                f"it {plain.failed}",
                "Choose another backend or architecture, or make the target optional.",
            )
        road.waiting[target.name] = told
        road.chosen[target.name] = PLAIN  # should a worker come to an engine after all
        return
    scored = [each for each in tried.values() if each.validation]
    engines = {each.name: each.engine for each in scored}
    latency = road.latencies[target.name] = step(
        *(measure_task, f"measure.{target.name}", recipe.measure),
        model=road.model,
        pack=road.pack,
        device=device,
        **engines,
    )
    rungs = tuple(Rung(name=each.name, precision=each.precision) for each in scored)
    decision = road.decisions[target.name] = step(
        *(choose_task, f"choose.{target.name}", ChooseConfig(rules=recipe.choose, rungs=rungs)),
        pack=road.pack,
        device=device,
        latency=latency,
        **{each.name: each.validation for each in scored},
    )
    road.chosen[target.name] = decision.chosen
    shipped = {target.name: tried[decision.chosen], recipe.twin(target).name: plain}
    for name, each in shipped.items():
        assert each.engine and each.validation
        road.engines[name], road.validations[name] = each.engine, each.validation
        road.scorecards[name] = step(
            *(evaluate_task, f"evaluate.{name}", recipe.evaluate),
            engine=each.engine,
            pack=road.pack,
            device=device,
            validation=each.validation,
        )


def _try(
    road: Road, recipe: Recipe, target: Target, candidate: Candidate, device: Device, step: Step
) -> Tried:
    """Build, compare and score one candidate on a target, on validation."""
    name = candidate.label
    tried = Tried(name, candidate.precision)
    if reason := road.failed.get(name):
        tried.failed = reason
        return tried
    inputs: dict[str, Any] = {"pack": road.pack, "device": device}
    place = f"{target.name}.{name}"
    try:
        tried.engine = build_engine(step, place, target, road.onnx[name])
        tried.parity = step(
            *(compare_task, f"compare.{place}", recipe.compare),
            engine=tried.engine,
            onnx=road.onnx[name],
            **inputs,
        )
        tried.validation = step(
            *(evaluate_task, f"evaluate.{place}.val", recipe.evaluate),
            engine=tried.engine,
            **inputs,
        )
    except Unavailable as reason_why:
        word = "run" if tried.engine else "built"
        tried.waiting = f"cannot be {word} here: {reason_why.message}"
    except EngineError as error:
        word = "failed to build"
        if tried.engine:
            word = "failed on validation" if tried.parity else "differs from its ONNX file"
        tried.failed = f"{word}: {error.message}"
        PROGRESS.warning("%s: %s %s", target.name, name, tried.failed)
    return tried


def take_over(road: Road, recipe: Recipe, target: Target, step: Step) -> None:
    """Build for a device that is not here what another target was found to do well with.

    Without any that was judged here, the smallest that the recipe allows. What fails to build
    gives way to the next larger. Nobody has run it: the engine is unverified until a worker with
    the device has.

    Raises:
        EngineError: of a required target, none could be built.
    """
    road.tried[target.name] = {}
    for candidate in _list_takeovers(road, recipe, target):
        name = candidate.label
        tried = road.tried[target.name][name] = Tried(name, candidate.precision)
        road.chosen[target.name] = name
        try:
            tried.engine = build_engine(step, f"{target.name}.{name}", target, road.onnx[name])
            road.engines[target.name] = tried.engine
            tried.waiting = f"built, but cannot be run here: {_explain_away(target)}"
        except Unavailable as reason:
            tried.waiting = f"cannot be built here: {reason.message}"
        except EngineError as error:
            if target.required and name == PLAIN:
                raise
            tried.failed = f"failed to build: {error.message}"
            PROGRESS.warning("%s: %s %s", target.name, name, tried.failed)
        road.waiting[target.name] = tried.waiting or tried.failed
        if tried.waiting:
            return


def _list_takeovers(road: Road, recipe: Recipe, target: Target) -> list[Candidate]:
    """What to build for a target that nobody can judge here, in the order to try; `none` last."""
    judged = [road.chosen[t.name] for t in recipe.targets if t.name in road.decisions]
    allowed = [each for each in recipe.list_candidates(target) if each.label in road.onnx]
    smallest_first = sorted(allowed, key=lambda each: -STEPS[each.precision])
    fitting = [each for name in judged for each in allowed if each.label == name]
    first = (fitting or smallest_first)[0]
    larger = [e for e in smallest_first if STEPS[e.precision] < STEPS[first.precision]]
    return [first, *larger]


def _explain_away(target: Target) -> str:
    """Why a target's engine cannot be run here."""
    try:
        load_backend(target.backend).describe_run_device(target)
    except Unavailable as reason:
        return reason.message
    raise AssertionError(f"{target.name} can be run here")


def build_engine(step: Step, place: str, target: Target, onnx: OnnxModel) -> Engine:
    """Build an ONNX file's engine for a target, in the file's precision.

    Raises:
        Unavailable: this machine cannot build for it.
        EngineError: the graph cannot be built.
    """
    made_for = target.model_copy(update={"precision": onnx.precision})
    device = load_backend(target.backend).describe_build_device(made_for)
    return cast(Engine, step(build_task, f"build.{place}", made_for, onnx=onnx, device=device))


class Scores(NamedTuple):
    """What an engine scored on validation, where its operating point was fixed, and on test."""

    validation: Scorecard
    test: Scorecard


def score_engine(
    step: Step, name: str, engine: Engine, pack: Pack, device: Device, config: EvaluateConfig
) -> Scores:
    """Score an engine on validation, then on test at the operating point that was fixed there."""
    inputs = {"engine": engine, "pack": pack, "device": device}
    validation = step(evaluate_task, f"evaluate.{name}.val", config, **inputs)
    test = step(evaluate_task, f"evaluate.{name}", config, **inputs, validation=validation)
    return Scores(validation, test)
