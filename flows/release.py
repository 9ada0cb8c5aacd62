"""A release: the engines of one run judged against the champion, then registered."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from enginehouse.artifact import RecordUnreadable, Workspace, fingerprint, flatten
from enginehouse.build.record import Engine
from enginehouse.choose.table import list_rows
from enginehouse.engine import Target, load_backend
from enginehouse.errors import EngineMismatch, Unavailable
from enginehouse.evaluate.fit import check_fit
from enginehouse.evaluate.record import Scorecard
from enginehouse.gates import GateResult, judge
from enginehouse.prepare.record import Pack
from enginehouse.recipe import Recipe
from enginehouse.road import Road
from flows.candidates import score_engine
from flows.run import Run
from tasks.registry import (
    Registry,
    Version,
    read_engine,
    record_tag,
    write_engine,
)


@dataclass(frozen=True)
class Verdict:
    """What the gates say of a run.

    Attributes:
        word: `passed`, `rejected`, or `waiting` (a required engine is not verified yet).
        reason: one sentence.
    """

    word: str
    reason: str
    gates: tuple[GateResult, ...]


@dataclass(frozen=True)
class Registered:
    """Where a release is in the registry.

    Attributes:
        engines: by target name.
    """

    model: Version
    engines: Mapping[str, Version]


def judge_road(run: Run) -> Verdict:
    """Apply the gates to every required engine that was scored here."""
    recipe, road = run.recipe, run.road
    required = [target for target in recipe.targets if target.required]
    cards = {t.name: road.scorecards[t.name] for t in required if t.name in road.scorecards}
    scored = [target for target in required if target.name in cards]
    twins = {target.name: road.scorecards[recipe.twin(target).name] for target in scored}
    champions = {target.name: score_champion(run, target) for target in scored}
    gates = judge(recipe.gates, cards, twins, champions)
    if failed := [gate for gate in gates if not gate.passed]:
        reason = "; ".join(f"{gate.gate} ({gate.engine}): {gate.reason}" for gate in failed)
        return Verdict("rejected", reason, tuple(gates))
    if missing := [target for target in required if target.name not in cards]:
        return Verdict(
            "waiting", say_waiting(missing[0], road.waiting[missing[0].name]), tuple(gates)
        )
    return Verdict("passed", "every gate passed", tuple(gates))


def say_waiting(target: Target, reason: str) -> str:
    """One sentence: what is missing for a required engine, and which deployment makes it."""
    pool = "cpu" if target.device == "cpu" else "gpu"
    return (
        f"the required engine {target.name} {reason.rstrip('.')}; the deployment promote/{pool} "
        f"(work pool {pool}) builds and verifies it on a worker that has the device"
    )


def score_champion(run: Run, target: Target) -> Scorecard | str:
    """The scorecard of the engine that serves now, on this run's pictures; or why there is none."""
    recipe, road = run.recipe, run.road
    champion = run.registry.find_alias(f"{recipe.name}.{target.name}", "champion")
    if champion is None:
        return "first version: nothing to beat"
    if champion.tags.get("release") == run.release:
        return "it is the champion itself"
    try:
        card = _read_card(champion)
        if card and card.pack == road.pack.identity and meets_rules(card, recipe, road.pack):
            return card
        engine = Engine.from_json(champion.tags.get("record", ""))
        restore_engine(engine, champion, run.registry, run.workspace)
        device = load_backend(target.backend).describe_run_device(engine.target)
        check_fit(engine, road.pack, device)  # before a task fails on it
        name = f"champion.{target.name}"
        scores = score_engine(run.step, name, engine, road.pack, device, recipe.evaluate)
    except RecordUnreadable as reason:
        return f"not comparable: of the champion (v{champion.number}) {reason}"
    except (EngineMismatch, Unavailable) as error:
        return f"not comparable: the champion (v{champion.number}) cannot run here: {error.message}"
    return scores.test


def _read_card(version: Version) -> Scorecard | None:
    """What an engine scored when it was registered; None where this code cannot read it."""
    try:
        return Scorecard.from_json(version.tags.get("scorecard", ""))
    except RecordUnreadable:
        return None


def meets_rules(card: Scorecard, recipe: Recipe, pack: Pack) -> bool:
    """Whether an operating point was fixed by a recipe's rules, or none where they name no good."""
    point, good = card.point, recipe.evaluate.name_good(pack.preparation)
    if point is None:
        return not good
    return point.rules == recipe.evaluate.operating and point.good == good


def restore_engine(
    engine: Engine, version: Version, registry: Registry, workspace: Workspace
) -> None:
    """Bring a registered engine's bytes back into the store if it has lost them."""
    store = workspace.store
    if not any(store.find_fault(blob) for blob in engine.files.values()):
        return
    _, files = read_engine(registry.fetch(version, workspace.scratch) / "engine")
    for path in files.values():
        store.seal(path)


def register_road(run: Run, verdict: Verdict, run_url: str) -> Registered:
    """Register model and engines; whatever is there already is left as it is."""
    recipe, road, registry = run.recipe, run.road, run.registry
    tags = describe_release(run, run_url)
    known = registry.find_release(recipe.name, run.release)
    run_id = known.run_id if known else registry.start_run(recipe.name, run.release, tags)
    if not known:
        parameters = flatten(recipe.model_dump(mode="json"))
        registry.log_history(run_id, parameters, _history(road))
    first = recipe.main_target
    onnx = road.onnx[road.chosen[first.name]]

    def onnx_file(folder: Path) -> dict[str, Path]:
        return {"onnx": run.workspace.copy_out(onnx, folder) / "model.onnx"}

    model = registry.ensure_model(recipe.name, run.release, run_id, onnx.contract, onnx_file, tags)
    model = registry.set_tags(
        model,
        recipe=tags["recipe"],
        recipe_digest=tags["recipe_digest"],
        verdict=verdict.word,
        verdict_reason=verdict.reason[:5000],
    )
    # A cached training was logged when it ran, by whichever recipe.
    made_by = road.model.made_by
    if made_by and (training := registry.find_training(made_by.key)):
        model = registry.set_tags(model, training_run=training)
    engines = {}
    for target in recipe.targets:
        if engine := road.engines.get(target.name):
            card = road.scorecards.get(target.name)
            engines[target.name] = register_engine(
                registry, run.workspace, recipe.name, model, engine, card
            )
    return Registered(model, engines)


def register_engine(
    registry: Registry,
    workspace: Workspace,
    recipe: str,
    model: Version,
    engine: Engine,
    card: Scorecard | None,
) -> Version:
    """Register an engine beside its model. Without a scorecard it is `unverified`."""

    def engine_folder(folder: Path) -> dict[str, Path]:
        point = card.point if card else None
        return {"engine": write_engine(workspace, engine, folder / "engine", point)}

    version = registry.ensure_model(
        f"{recipe}.{engine.target.name}",
        model.tags["release"],
        model.run_id,
        engine.sidecar.contract,
        engine_folder,
        {
            "model_version": str(model.number),
            "record": record_tag(engine),
            "verified": "no",
        },
    )
    if card:
        # An engine that was scored after it was registered has its point in the tag alone.
        point = {"operating_point": card.point.model_dump_json()} if card.point else {}
        card_tag = record_tag(card.shorten())
        version = registry.set_tags(version, scorecard=card_tag, **point, verified="yes")
    return version


def describe_release(run: Run, run_url: str) -> dict[str, str]:
    """The tags of a model version: lineage down to commit and data, and the records it needs."""
    recipe, road = run.recipe, run.road
    commit = read_commit(run.project.root)
    cards = {name: card.macro_f1 for name, card in road.scorecards.items()}
    return {
        "recipe": recipe.model_dump_json(),
        "recipe_digest": fingerprint(recipe),
        "data_digest": run.resolved.digest,
        "data_status": run.resolved.status,
        "git_commit": commit.removesuffix("-dirty"),
        "git_dirty": "yes" if commit.endswith("-dirty") else "no",
        "macro_f1": json.dumps(cards),
        "onnx": json.dumps({name: record_tag(road.onnx[name]) for name in run.delivered}),
        "chosen": json.dumps(road.chosen),
        "pack": record_tag(road.pack),
        "prefect_run": run_url,
    }


def list_precisions(road: Road) -> list[dict[str, Any]]:
    """One row per target and candidate: what it scored, and whether it ships."""
    return [
        {"target": name, **row}
        for name, decision in road.decisions.items()
        for row in list_rows(decision, road.tried[name].values())
    ]


def read_commit(folder: Path) -> str:
    """The commit of a checkout, with `-dirty` when it has changes; `none` outside git."""
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() if done.returncode == 0 else "none"


def _history(road: Road) -> list[dict[str, float]]:
    history = road.model.notes.get("history", [])
    assert isinstance(history, list)
    return [
        {str(k): float(v) for k, v in row.items() if isinstance(v, int | float)}
        for row in history
        if isinstance(row, dict)
    ]
