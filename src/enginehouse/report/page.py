"""What a report is made of: one run, its verdict, and where its bytes are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from enginehouse.artifact import Source, Workspace
from enginehouse.engine import Target
from enginehouse.evaluate.record import Scorecard
from enginehouse.gates import GateResult
from enginehouse.recipe import Recipe
from enginehouse.road import Road


@dataclass(frozen=True)
class PageData:
    """One run, as its report needs it.

    Attributes:
        recipe: what was run.
        road: every record of the run.
        workspace: gets at the bytes of the records.
        source: where the pictures lie now; they may have changed or gone since.
        gates: what the gates said.
        verdict: one or two words: `champion`, `candidate`, `rejected`, `waiting` ...
        headline: the verdict as one sentence.
        lineage: label to value: data version, git commit, model version ...
        stages: place, whether it was cached, the reason, and seconds of work.
    """

    recipe: Recipe
    road: Road
    workspace: Workspace
    source: Source
    gates: Sequence[GateResult]
    verdict: str
    headline: str
    lineage: Mapping[str, str]
    stages: Sequence[tuple[str, bool, str, float]]

    @property
    def target(self) -> Target:
        """The first required target: its engine is what ships."""
        return next(target for target in self.recipe.targets if target.required)

    @property
    def shipped(self) -> Scorecard | None:
        """The scorecard of the engine that ships; None when it could not be run here."""
        return self.road.scorecards.get(self.target.name)

    @property
    def reference(self) -> Scorecard | None:
        """The scorecard of its fp32 twin; None when that could not be run here."""
        return self.road.scorecards.get(self.recipe.reference.name)
