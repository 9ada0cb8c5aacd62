"""Reconciling: make the engines' aliases follow the wish, or say what is missing.

Alias `champion` on the model is the wish; clients read the engines' aliases only. Everything is
decided from the registry's state, so a run that was killed at any step is finished by the next.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from pydantic import BaseModel, ValidationError

from enginehouse.artifact import RecordUnreadable, Workspace
from enginehouse.build.record import Engine
from enginehouse.engine import Target, load_backend
from enginehouse.errors import EngineError, RegistryError, Unavailable
from enginehouse.evaluate.record import Scorecard
from enginehouse.export.record import OnnxModel
from enginehouse.gates import judge
from enginehouse.prepare.record import Pack
from enginehouse.quantize.record import PLAIN
from enginehouse.recipe import Recipe
from enginehouse.store import Store
from flows.candidates import Step, build_engine, score_engine
from flows.release import register_engine, say_waiting
from tasks.compare import compare_task
from tasks.registry import Registry, Version

MAX_TRIES = 10  # of a wish that keeps changing under our hands


class Delivery(BaseModel):
    """Of a version's recipe what moving aliases needs; older code wrote the rest otherwise."""

    targets: tuple[Target, ...]


@dataclass(frozen=True)
class Promotion:
    """What a promotion came to.

    Attributes:
        word: `champion`, `waiting`, `rejected`, `nothing` or `unsettled`.
        moved: engine name to version, of the aliases that were moved.
    """

    word: str
    reason: str
    version: int = 0
    moved: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, model: Version) -> Promotion:
        """What a version's tags say became of it; `unsettled` when nothing is final yet."""
        if model.tags.get("verdict") == "rejected":
            return cls("rejected", model.tags.get("verdict_reason", ""), model.number)
        settled = model.tags.get("promotion") == "champion"
        return cls("champion" if settled else "unsettled", "", model.number)


def reconcile(recipe: str, registry: Registry, workspace: Workspace, step: Step) -> Promotion:
    """Move the engines' aliases to the wish, and again until the wish stands still."""
    for _ in range(MAX_TRIES):
        wish = registry.find_alias(recipe, "champion")
        if wish is None:
            return Promotion("nothing", f"{recipe} has no alias champion: nothing is wished for")
        engines, missing = gather_engines(wish, registry, workspace, step)
        if missing:
            registry.set_tags(wish, promotion=f"waiting: {missing}"[:5000])
            word = "waiting" if missing.startswith("the required engine") else "rejected"
            return Promotion(word, missing, wish.number)
        moved = move_aliases(recipe, wish, engines, registry)
        if moved is not None:
            registry.set_tags(wish, promotion="champion")
            names = ", ".join(f"{name} v{number}" for name, number in moved.items())
            reason = f"v{wish.number} serves" + (f"; moved {names}" if moved else ", as before")
            return Promotion("champion", reason, wish.number, moved)
    raise RegistryError(
        f"Alias champion of {recipe} kept changing while it was being followed.",
        "Stop whatever else moves it, then run promote again.",
    )


def gather_engines(
    wish: Version, registry: Registry, workspace: Workspace, step: Step
) -> tuple[dict[str, Version], str]:
    """The verified engines of a release by registered name, and what a required one lacks.

    An engine that is missing or unverified is built and verified here if this machine can.
    """
    if "recipe" not in wish.tags:
        raise RegistryError(
            f"{wish.name} v{wish.number} was not registered by this pipeline (no recipe tag).",
            "Point the alias champion at a version that `enginehouse run` registered.",
        )
    ready: dict[str, Version] = {}
    for target in Delivery.model_validate_json(wish.tags["recipe"]).targets:
        name = f"{wish.name}.{target.name}"
        engine = registry.find_release(name, wish.tags["release"])
        if engine is None or engine.tags.get("verified") != "yes":
            engine, reason = verify_engine(wish, target, registry, workspace, step)
            if engine is None and target.required:
                return {}, reason
        if engine:
            ready[name] = engine
    return ready, ""


def verify_engine(
    wish: Version,
    target: Target,
    registry: Registry,
    workspace: Workspace,
    step: Step,
) -> tuple[Version | None, str]:
    """Build an engine of a release on this machine, score it, hold it against the gates."""
    try:
        load_backend(target.backend).describe_run_device(target)
    except Unavailable as missing:
        return None, say_waiting(target, f"cannot be run here: {missing.message}")
    try:
        recipe = Recipe.model_validate_json(wish.tags["recipe"])
        graphs = {
            name: OnnxModel.from_json(text) for name, text in json.loads(wish.tags["onnx"]).items()
        }
        chosen = json.loads(wish.tags["chosen"])[target.name]
        pack = Pack.from_json(wish.tags["pack"])
    except (KeyError, RecordUnreadable, ValidationError):
        return None, (
            f"{target.name}: v{wish.number} was registered by other code, so this code cannot make "
            "its engine; run the recipe again, or wish for another version"
        )
    if reason := _find_lost(workspace.store, graphs[chosen], graphs[PLAIN], pack):
        return None, say_waiting(target, f"cannot be made here: {reason}")
    made: dict[str, tuple[Engine, Scorecard]] = {}
    for candidate in (PLAIN, chosen):
        try:
            made[candidate] = make_engine(step, candidate, target, graphs[candidate], pack, recipe)
        except Unavailable as missing:
            reason = say_waiting(target, f"cannot be built here: {missing.message}")
        except EngineError as error:
            reason = f"{target.name}: {candidate}: {error.message}"
        if reason:
            return None, reason
    engine, card = made[chosen]
    name, twin = target.name, made[PLAIN][1]
    gates = judge(recipe.gates, {name: card}, {name: twin}, {name: "the wish"})
    if failed := [gate for gate in gates if not gate.passed]:
        return None, f"{name}: {failed[0].gate}: {failed[0].reason}"
    return register_engine(registry, workspace, recipe.name, wish, engine, card), ""


def make_engine(
    step: Step, candidate: str, target: Target, onnx: OnnxModel, pack: Pack, recipe: Recipe
) -> tuple[Engine, Scorecard]:
    """Build, compare and score one candidate's engine on this machine.

    Raises:
        Unavailable: this machine cannot build for the target.
        EngineError: the graph cannot be built, or the engine differs from it.
    """
    place = f"{target.name}.{candidate}"
    device = load_backend(target.backend).describe_run_device(target)
    engine = build_engine(step, place, target, onnx)
    inputs = {"engine": engine, "pack": pack, "device": device}
    step(compare_task, f"compare.{place}", recipe.compare, onnx=onnx, **inputs)
    return engine, score_engine(step, place, engine, pack, device, recipe.evaluate).test


def _find_lost(store: Store, *records: OnnxModel | Pack) -> str:
    for record in records:
        for name, blob in record.files.items():
            if fault := store.find_fault(blob):
                return f"{name} of the {record.kind} {fault}"
    return ""


def move_aliases(
    recipe: str, wish: Version, engines: dict[str, Version], registry: Registry
) -> dict[str, int] | None:
    """Move `champion` of every engine, keeping `previous`; None if the wish changed meanwhile."""
    now = {name: registry.aliases(name).get("champion") for name in engines}
    plan = {name: v.number for name, v in engines.items() if now[name] != v.number}
    if plan:  # the intent comes first, so that a killed run leaves a trace of what it was doing
        intent = json.dumps({"moving": plan, "previous": now}, sort_keys=True)
        registry.set_tags(wish, promotion=intent)
    for name, number in plan.items():
        if registry.aliases(recipe).get("champion") != wish.number:
            return None
        before = now[name]
        if before is not None:
            registry.set_alias(name, "previous", before)
        registry.set_alias(name, "champion", number)
    if registry.aliases(recipe).get("champion") != wish.number:
        return None
    return plan
