"""One run of a recipe: what its steps share. Knows how a run is set up, not what follows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path

from enginehouse.artifact import Source, Workspace, fingerprint
from enginehouse.project import Project
from enginehouse.quantize.record import PLAIN
from enginehouse.recipe import Recipe
from enginehouse.road import Road
from enginehouse.stage import Watch
from enginehouse.store import Store
from flows.candidates import Step
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

    @property
    def delivered(self) -> list[str]:
        """The candidates that ship on any target, and `none`, which the others are held against."""
        return sorted({PLAIN, *self.road.chosen.values()} & self.road.onnx.keys())

    @cached_property
    def release(self) -> str:
        """The identity of what is delivered: graphs, targets, required engines, operating rules."""
        required = {target.name for target in self.recipe.targets if target.required}
        return fingerprint(
            {
                "recipe": self.recipe.name,
                "onnx": {name: self.road.onnx[name].identity for name in self.delivered},
                "chosen": self.road.chosen,
                "targets": self.recipe.targets,
                "engines": {n: e.identity for n, e in self.road.engines.items() if n in required},
                # Not the point itself: another machine's rounding is no other delivery.
                "operating": [self.recipe.evaluate.good_class, self.recipe.evaluate.operating],
            }
        )

    @property
    def report_folder(self) -> Path:
        """Where the report of this release lies."""
        return self.project.state / "reports" / self.recipe.name / self.release[:12]


def make_context(
    store: Store,
    recipe: Recipe,
    resolved: ResolvedData,
    watches: Mapping[str, Watch] | None = None,
    profile: Path | None = None,
) -> RunContext:
    """The context of a run; names what changed in the data since the last ingest.

    Args:
        watches: stage name to what looks on while it is executed.
        profile: folder for a profile of training; None: none is wanted.
    """
    now = resolved.version.identity
    store.remember(f"listings/{now}", resolved.listing)
    last = store.recall(f"slots/{recipe.name}/ingest")
    before = store.recall(f"listings/{last['inputs']['data']}") if last else None
    notes = {"data": list_changes(before, resolved.listing)} if before else {}
    source = Source(resolved.folder, resolved.listing)
    sources = {resolved.digest: source}
    return RunContext(store, recipe.name, sources, notes, watches or {}, profile)


def name_profile(project: Project, recipe: Recipe) -> Path:
    """A new folder for a profile of training; training makes it, if it runs."""
    moment = datetime.now().astimezone().strftime("%Y-%m-%d-%H%M%S")
    return project.state / "profiles" / recipe.name / moment
