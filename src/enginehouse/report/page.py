"""What a report is made of: one run, its verdict, its bytes; and how a page is written."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from enginehouse.artifact import Source, Workspace
from enginehouse.engine import Precision, Target
from enginehouse.evaluate.record import Scorecard
from enginehouse.gates import GateResult
from enginehouse.recipe import Recipe
from enginehouse.road import Road
from enginehouse.validate.record import Validated

DOCS = "data_docs"  # folder of Great Expectations' pages beside a page of ours


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
        data_page: the page of the data report.
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
    data_page: Path
    stages: Sequence[tuple[str, bool, str, float]]

    @property
    def target(self) -> Target:
        """The first required target: its engine is what ships."""
        return self.recipe.main_target

    @property
    def precision(self) -> Precision:
        """Of the engine that ships; where none could be built, the smallest that may."""
        engine = self.road.engines.get(self.target.name)
        return engine.target.precision if engine else self.target.precision

    @property
    def samples(self) -> str:
        """What the network is shown: whole `pictures`, or the `windows` that they are cut into."""
        return "windows" if self.road.pack.preparation.tiles else "pictures"

    @property
    def shipped(self) -> Scorecard | None:
        """The scorecard of the engine that ships; None when it could not be run here."""
        return self.road.scorecards.get(self.target.name)

    @property
    def reference(self) -> Scorecard | None:
        """The scorecard of its fp32 twin; None when that could not be run here."""
        return self.road.scorecards.get(self.recipe.reference.name)


def copy_docs(workspace: Workspace, validated: Validated, folder: Path) -> None:
    """Put the Data Docs of a verdict beside a page, in place of those of an earlier run."""
    if (folder / DOCS).exists():  # its pages have other names
        shutil.rmtree(folder / DOCS)
    workspace.copy_out(validated, folder, reports=True)


def render_page(template: str, path: Path, names: Mapping[str, Any]) -> Path:
    """Write a page from a template beside this file; returns its path."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,  # file names, labels and messages were written by others
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    draft = path.with_name(f".{path.name}")  # who finds the page finds it whole
    draft.write_text(environment.get_template(template).render(names), encoding="utf-8")
    return draft.replace(path)
