"""What a run came to: `nothing new`, or a release with its report."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

from enginehouse.gates import GateResult
from enginehouse.recipe import Recipe
from flows.inspection import write_verdict
from flows.reconcile import Promotion
from flows.release import Registered, Verdict, list_precisions
from flows.run import Run
from tasks.registry import Version

PRECISIONS = "precisions.json"  # what ships on each target and why, beside the report
LIBRARIES = ("torch", "torchvision", "torchao", "onnx", "openvino", "prefect", "mlflow", "dvc")


@dataclass(frozen=True)
class RunResult:
    """Everything a summary and an exit code need.

    Attributes:
        model: the version that carries this release.
        engines: by target name, those registered.
        promotion: what became of the wish.
        nothing_new: the registry had all of it already and was left alone.
        champion: number of the model version that is wished for, 0 if none.
        report: the report page.
    """

    run: Run
    gates: tuple[GateResult, ...]
    model: Version
    engines: dict[str, Version]
    promotion: Promotion
    nothing_new: bool
    champion: int
    report: Path

    @property
    def headline(self) -> str:
        """The run in one sentence."""
        outcomes = self.run.context.outcomes
        cached = sum(outcome.cached for outcome in outcomes)
        count = f"{cached}/{len(outcomes)} cached"
        if self.nothing_new:
            what = "nothing changed" if cached == len(outcomes) else "nothing new"
            stays = f"v{self.model.number} stays rejected, " * (self.promotion.word == "rejected")
            serves = f"champion v{self.champion}" if self.champion else "no champion"
            return f"{what}, {count}, {stays}{serves}"
        return f"{self.verdict}, {count}"

    @property
    def verdict(self) -> str:
        """What became of the release, in one sentence."""
        name = f"{self.run.recipe.name} v{self.model.number}"
        if self.promotion.word == "champion":
            return f"{name} is champion"
        return f"{name} is {self.promotion.word}: {self.promotion.reason}"

    @property
    def state_name(self) -> str:
        """Name of the flow run's final state."""
        return "Nothing new" if self.nothing_new else self.promotion.word.title()

    @property
    def exit_code(self) -> int:
        """0 serves or nothing new, 3 waiting for a device, 4 rejected by a gate."""
        return {"waiting": 3, "rejected": 4}.get(self.promotion.word, 0)


def find_nothing_new(run: Run) -> RunResult | None:
    """The run's result if the last run came to the same, judged and settled, by this recipe.

    Then nothing is registered and no alias moves, also when people moved one by hand since. A
    release that comes back after another (data taken back, say) is judged anew.
    """
    recipe, registry = run.recipe, run.registry
    model = registry.find_release(recipe.name, run.release)
    report = run.report_folder / "report.html"
    if model is None or not report.is_file():
        return None
    if registry.last_release(recipe.name) != run.release:
        return None
    promotion = Promotion.of(model)
    if promotion.word == "unsettled" or not _same_recipe(recipe, model):
        return None
    engines = {}
    for target in recipe.targets:
        if target.name not in run.road.engines:
            continue
        found = registry.find_release(f"{recipe.name}.{target.name}", run.release)
        scored = target.name in run.road.scorecards
        if found is None or (scored and found.tags.get("verified") != "yes"):
            return None
        engines[target.name] = found
    champion = registry.aliases(recipe.name).get("champion", 0)
    return RunResult(run, (), model, engines, promotion, True, champion, report)


def _same_recipe(recipe: Recipe, model: Version) -> bool:
    return Recipe.model_validate_json(model.tags["recipe"]) == recipe


def publish(run: Run, verdict: Verdict, made: Registered, promotion: Promotion) -> RunResult:
    """Write the report page, upload it beside the model, and give the run's result."""
    from enginehouse.report.page import PageData
    from enginehouse.report.report import write_report

    champion = run.registry.aliases(run.recipe.name).get("champion", 0)
    result = RunResult(
        *(run, verdict.gates, made.model, dict(made.engines), promotion, False, champion),
        report=run.report_folder / "report.html",
    )
    page = PageData(
        recipe=run.recipe,
        road=run.road,
        workspace=run.workspace,
        source=run.context.sources[run.resolved.digest],
        gates=verdict.gates,
        verdict=promotion.word,
        headline=result.verdict,
        lineage=_lineage(run, made),
        data_page=write_verdict(
            *(run.project, run.recipe.name, run.resolved, run.context.store),
            *(run.road.manifest, run.road.validated),
        ),
        stages=[
            (o.place, o.cached, o.reason, o.record.made_by.seconds if o.record.made_by else 0.0)
            for o in run.context.outcomes
        ],
    )
    run.report_folder.mkdir(parents=True, exist_ok=True)
    report = write_report(run.report_folder, page)
    table = json.dumps(list_precisions(run.road), indent=1)
    (run.report_folder / PRECISIONS).write_text(table + "\n", encoding="utf-8")
    run.registry.log_folder(made.model.run_id, run.report_folder, "report")
    run.registry.note_last_release(run.recipe.name, run.release)
    return replace(result, report=report)


def _lineage(run: Run, made: Registered) -> dict[str, str]:
    tags = made.model.tags
    commit = tags["git_commit"] + (" with changes" if tags["git_dirty"] == "yes" else "")
    engines = [f"{v.name} v{v.number}" for v in made.engines.values()]
    return {
        "Model": f"{made.model.name} v{made.model.number}",
        "Engines": ", ".join(engines) or "none",
        "Data version": f"{run.resolved.digest} ({run.resolved.status})",
        "Git commit": commit,
        "Recipe": tags["recipe_digest"],
        "Release": run.release,
        "MLflow run": made.model.run_id,
        "Training run": tags.get("training_run", "none"),
        "Prefect run": tags["prefect_run"] or "none",
        "Libraries": ", ".join(f"{name} {version(name)}" for name in LIBRARIES),
    }
