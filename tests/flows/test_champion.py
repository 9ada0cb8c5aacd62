"""The champion that a candidate is held against: when what it scored counts, and when not."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from enginehouse.build.record import Engine
from enginehouse.engine import load_backend
from enginehouse.evaluate.config import EvaluateConfig
from enginehouse.evaluate.evaluate import evaluate
from enginehouse.evaluate.record import Scorecard
from enginehouse.prepare.record import Pack
from enginehouse.recipe import Recipe
from flows.release import score_champion
from flows.run import Run
from tasks.registry import Version, record_tag
from tests.unit.test_build import build_engine
from tests.unit.tiny_engines import TARGET, open_workspace, seal_pack

OLD_RULES: dict[str, Any] = {"good_class": "red"}


class Serving:
    """A run of a recipe whose champion is an engine with these tags."""

    def __init__(self, folder: Path, pack: Pack, tags: dict[str, str], **rules: Any) -> None:
        self.folder = folder
        self.scored = 0
        self.version = Version("tiny.openvino", 1, "", "", {"release": "old", **tags})
        recipe = {"name": "tiny", "data": {"path": "data"}, "evaluate": rules}
        self.recipe = Recipe.model_validate({**recipe, "targets": (TARGET,)})
        self.road = SimpleNamespace(pack=pack)
        self.registry, self.release = self, "new"
        self.workspace = open_workspace(folder)

    def find_alias(self, name: str, alias: str) -> Version:
        """As the registry's."""
        assert (name, alias) == (f"tiny.{TARGET.name}", "champion")
        return self.version

    def step(self, task: Any, place: str, config: Any, **inputs: Any) -> Any:
        """As a road's."""
        self.scored += 1
        return evaluate(config=config, here=open_workspace(self.folder), **inputs)

    def ask(self) -> Scorecard | str:
        return score_champion(cast("Run", self), TARGET)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def engine(folder: Path) -> Engine:
    return build_engine(folder, TARGET)


@pytest.fixture(scope="module")
def pack(folder: Path) -> Pack:
    return seal_pack(folder, [0, 0, 0, 1, 1, 2])


def make_tags(folder: Path, engine: Engine, pack: Pack, **rules: Any) -> dict[str, str]:
    device = load_backend(TARGET.backend).describe_run_device(TARGET)
    config = EvaluateConfig.model_validate(rules)
    validation = evaluate(engine, pack, device, config, open_workspace(folder))
    card = evaluate(engine, pack, device, config, open_workspace(folder), validation)
    return {"record": record_tag(engine), "scorecard": record_tag(card.shorten())}


def test_what_it_scored_by_the_same_rules_counts(folder: Path, engine: Engine, pack: Pack) -> None:
    tags = make_tags(folder, engine, pack, **OLD_RULES)
    run = Serving(folder, pack, tags, **OLD_RULES)
    card = run.ask()
    assert isinstance(card, Scorecard) and card.outcome is not None
    assert run.scored == 0


@pytest.mark.parametrize(
    "rules",
    [
        {"good_class": "green"},
        {**OLD_RULES, "operating": {"max_escape_rate": 0.2}},
    ],
)
def test_under_other_rules_it_is_scored_again(
    folder: Path, engine: Engine, pack: Pack, rules: dict[str, Any]
) -> None:
    run = Serving(folder, pack, make_tags(folder, engine, pack, **OLD_RULES), **rules)
    card = run.ask()
    assert isinstance(card, Scorecard) and card.point is not None
    assert card.point.good == rules["good_class"]
    assert run.scored == 2  # on validation, and on test


def test_one_from_before_there_was_a_good_class_is_compared_by_escapes_too(
    folder: Path, engine: Engine, pack: Pack
) -> None:
    run = Serving(folder, pack, make_tags(folder, engine, pack), **OLD_RULES)
    card = run.ask()
    assert isinstance(card, Scorecard) and card.outcome is not None
    without = Serving(folder, pack, make_tags(folder, engine, pack))
    assert isinstance(without.ask(), Scorecard)
    assert (run.scored, without.scored) == (2, 0)


def test_a_scorecard_of_other_code_is_made_anew(folder: Path, engine: Engine, pack: Pack) -> None:
    tags = make_tags(folder, engine, pack, **OLD_RULES)
    old = re.sub(r'"schema": \d+', '"schema": 1', tags["scorecard"])
    for other in ({**tags, "scorecard": old}, {"record": tags["record"]}):
        run = Serving(folder, pack, other, **OLD_RULES)
        assert isinstance(run.ask(), Scorecard)
        assert run.scored == 2


def test_an_engine_of_other_code_is_not_comparable(
    folder: Path, engine: Engine, pack: Pack
) -> None:
    tags = make_tags(folder, engine, pack, **OLD_RULES)
    old = re.sub(r'"schema": \d+', '"schema": 1', tags["record"])
    run = Serving(folder, pack, {"record": old}, **OLD_RULES)
    said = run.ask()
    assert isinstance(said, str) and "of the champion (v1) its record is engine schema 1" in said
