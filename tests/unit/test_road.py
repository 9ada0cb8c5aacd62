"""The road past candidates that fail: what then ships, what is taken over, and what all say."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from enginehouse.errors import EngineError, ExportError, Unavailable
from enginehouse.ingest.record import DataVersion
from enginehouse.quantize.record import PLAIN
from enginehouse.recipe import Recipe
from enginehouse.road import Road
from flows.inspection import Inspection
from flows.result import RunResult
from flows.road import walk
from flows.summary import render_markdown, render_summary
from tasks.registry import Version
from tests.report_run import make_page

HERE = {"name": "here", "precision": "int8"}
AWAY = {"name": "away", "backend": "tensorrt_rtx", "device": "sm75", "precision": "int8"}
CANDIDATES = [{"quantizer": "int8_ptq"}, {"quantizer": "bf16"}]
BROKEN = EngineError("no kernel", "Choose another.")


class Lenient(Inspection):
    """Lets everything through."""

    def find_previous(self, manifest: Any) -> None:
        return None

    def conclude(self, manifest: Any, validated: Any) -> None:
        return None


@dataclass
class Walker:
    """Steps that give a word for a record, and fail where they are told to.

    Attributes:
        fails: the beginning of a place to the error there.
        ships: what is decided everywhere.
    """

    fails: dict[str, Exception] = field(default_factory=dict)
    ships: str = "int8_ptq"
    inputs: dict[str, dict[str, Any]] = field(default_factory=dict)

    def step(self, task: Any, place: str, config: Any, /, **inputs: Any) -> Any:
        """As a road's."""
        self.inputs[place] = inputs
        for beginning, error in self.fails.items():
            if place.startswith(beginning):
                raise error
        if place.startswith("export."):
            precisions = {"int8_ptq": "int8", "bf16": "bf16", "place": "bf16"}
            return SimpleNamespace(precision=precisions.get(place.removeprefix("export."), "fp32"))
        return SimpleNamespace(place=place, chosen=self.ships)

    def walk(self, *targets: dict[str, Any], candidates: Any = CANDIDATES) -> Road:
        recipe = {"name": "tiny", "data": {"path": "data"}, "targets": targets}
        recipe["quantize"] = {"candidates": candidates}
        lenient = Lenient(*cast("Any", (None, "tiny", None, None)))
        return walk(Recipe.model_validate(recipe), DataVersion(digest="0" * 32), self.step, lenient)


def test_a_candidate_may_be_called_as_what_a_step_takes() -> None:
    walker = Walker(ships="place")
    walker.walk(
        HERE, candidates=[{"quantizer": "int8_ptq"}, {"quantizer": "bf16", "name": "place"}]
    )
    assert {"none", "int8_ptq", "place"} < walker.inputs["measure.here"].keys()


@pytest.mark.parametrize(
    ("place", "error", "words"),
    [
        ("export.bf16", ExportError("no such node"), "failed to export: no such node"),
        ("build.here.bf16", BROKEN, "failed to build: no kernel"),
        ("compare.here.bf16", BROKEN, "differs from its ONNX file: no kernel"),
        ("evaluate.here.bf16.val", BROKEN, "failed on validation: no kernel"),
    ],
)
def test_a_candidate_that_fails_is_a_row_and_the_others_go_on(
    place: str, error: Exception, words: str
) -> None:
    walker = Walker({place: error})
    road = walker.walk(HERE)
    assert road.tried["here"]["bf16"].failed == words
    assert road.chosen == {"here": "int8_ptq"}
    assert not {"bf16"} & walker.inputs["measure.here"].keys()


def test_a_candidate_that_this_device_cannot_run_waits() -> None:
    road = Walker({"compare.here.bf16": Unavailable("no bf16 here", "")}).walk(HERE)
    assert road.tried["here"]["bf16"].waiting == "cannot be run here: no bf16 here"


def test_without_fp32_a_required_target_fails_and_an_optional_one_is_left_out() -> None:
    with pytest.raises(EngineError, match="no fp32 engine"):
        Walker({"build.here.none": BROKEN}).walk(HERE)
    other = {"name": "other", "precision": "int8", "optional": True}
    road = Walker({"build.other.none": BROKEN}).walk(HERE, other)
    assert road.waiting == {"other": "failed to build: no kernel"}
    assert "other" not in road.engines
    # What is promoted later, on whichever worker, looks here.
    assert road.chosen == {"here": "int8_ptq", "other": PLAIN}


def test_what_cannot_be_built_for_a_device_that_is_away_gives_way_to_the_next_larger() -> None:
    road = Walker({"build.away.int8_ptq": BROKEN}).walk(HERE, AWAY)
    assert road.chosen == {"here": "int8_ptq", "away": "bf16"}
    assert road.tried["away"]["int8_ptq"].failed == "failed to build: no kernel"
    assert "built, but cannot be run here" in road.waiting["away"]
    with pytest.raises(EngineError, match="no kernel"):
        Walker({"build.away": BROKEN}).walk(HERE, AWAY)
    road = Walker({"build.away": BROKEN}).walk(HERE, {**AWAY, "optional": True})
    assert road.waiting == {"away": "failed to build: no kernel"}


def test_the_summary_says_of_every_candidate_why_not_on_one_line(tmp_path: Path) -> None:
    page = make_page(tmp_path)
    tried = page.road.tried["openvino"]
    tried["bf16"].failed = "failed to build: no\nkernel | none"
    run = SimpleNamespace(
        road=page.road,
        recipe=page.recipe,
        resolved=SimpleNamespace(digest="0" * 32, status="clean", hint=""),
        context=SimpleNamespace(profile=None),
    )
    result = SimpleNamespace(
        run=run,
        headline="surfaces v3 is champion",
        report=tmp_path / "report.html",
        engines={},
        model=Version("surfaces", 3, "", "", {}),
        promotion=SimpleNamespace(word="champion"),
    )
    summary = render_summary(cast("RunResult", result))
    assert "not bf16: failed to build: no kernel | none\n" in summary
    markdown = render_markdown(cast("RunResult", result))
    assert "| precision | not bf16: failed to build: no kernel \\| none |\n" in markdown
    tried["bf16"].failed, tried["bf16"].waiting = "", "cannot be run here: no bf16"
    assert "not bf16: cannot be run here: no bf16\n" in render_summary(cast("RunResult", result))
