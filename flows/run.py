"""One run of a recipe: what its steps share. Knows how a run is set up, not what follows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from enginehouse.artifact import Source, Workspace, fingerprint
from enginehouse.project import Project
from enginehouse.recipe import Recipe
from enginehouse.road import Road
from enginehouse.store import Store
from flows.road import Step
from tasks._stage import RunContext
from tasks.data import ResolvedData, list_changes
from tasks.registry import Registry


@dataclass(frozen=True)
class Run:
    """A recipe whose road was walked, and what is needed to go on from there.

    Attributes:
        resolved: the data version, and where its pictures lie.
        context: what the stages shared, with their outcomes.
        step: runs one more stage in the same way as the road's.
    """

    project: Project
    recipe: Recipe
    resolved: ResolvedData
    context: RunContext
    road: Road
    registry: Registry
    workspace: Workspace
    step: Step

    @cached_property
    def release(self) -> str:
        """The identity of what is delivered: graphs, targets, and required engines made here."""
        required = {target.name for target in self.recipe.targets if target.required}
        return fingerprint(
            {
                "recipe": self.recipe.name,
                "onnx": {precision: onnx.identity for precision, onnx in self.road.onnx.items()},
                "targets": self.recipe.targets,
                "engines": {n: e.identity for n, e in self.road.engines.items() if n in required},
            }
        )

    @property
    def report_folder(self) -> Path:
        """Where the report of this release lies."""
        return self.project.state / "reports" / self.recipe.name / self.release[:12]


def make_context(store: Store, recipe: Recipe, resolved: ResolvedData) -> RunContext:
    """The context of a run; names what changed in the data since the last ingest."""
    now = resolved.version.identity
    store.remember(f"listings/{now}", resolved.listing)
    last = store.recall(f"slots/{recipe.name}/ingest")
    before = store.recall(f"listings/{last['inputs']['data']}") if last else None
    notes = {"data": list_changes(before, resolved.listing)} if before else {}
    source = Source(resolved.folder, resolved.listing)
    return RunContext(store, recipe.name, {resolved.digest: source}, notes)
