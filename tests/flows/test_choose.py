"""What ships: the smaller precision where the rules allow it, and else the next best, with why."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Checkout
from tests.flows.test_retrain import find_artifacts, read_registry

CANDIDATES = "[{quantizer: int8_ptq, options: {sensitivity_pictures: 0}}]"


@pytest.fixture(scope="module")
def house(
    walked: Checkout, prefect_server: str, tmp_path_factory: pytest.TempPathFactory
) -> Checkout:
    """A checkout whose runs share one Prefect server."""
    moved = walked.move(tmp_path_factory.mktemp("chosen") / "house")
    return moved.having(PREFECT_API_URL=prefect_server)


def edit_recipe(house: Checkout, old: str, new: str) -> None:
    recipes = house.root / "prefect.yaml"
    text = recipes.read_text()
    assert text.count(old) == 1, old
    recipes.write_text(text.replace(old, new))


def run(house: Checkout) -> str:
    """Run the recipe; what it said at the end."""
    done = house.enginehouse("run", "--recipe", "tiny")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def find_table(house: Checkout, words: str) -> dict[str, bool]:
    """Candidate to whether it ships, in the one table on a flow run's page with these words."""
    pages = find_artifacts(house.environment["PREFECT_API_URL"], "precisions")
    (page,) = (page for page in pages if words in page)
    return {row["candidate"]: row["ships"] for row in json.loads(page)}


def read_report(house: Checkout, words: str) -> str:
    """The report that a run named."""
    (line,) = (line for line in words.splitlines() if line.strip().startswith("report"))
    return Path(line.split("file://")[1]).read_text()


def test_the_smaller_precision_ships_where_the_rules_allow_it(house: Checkout) -> None:
    words = run(house)
    assert "openvino: int8_ptq ships: " in words
    tags = read_registry(house)["tiny"]["versions"]["1"]
    assert json.loads(tags["enginehouse.chosen"]) == {"openvino": "int8_ptq"}
    assert set(json.loads(tags["enginehouse.onnx"])) == {"none", "int8_ptq"}


def test_where_a_rule_is_not_met_fp32_ships_and_all_say_why(house: Checkout) -> None:
    mark = house.mark()
    edit_recipe(house, "min_speedup: 0", "min_speedup: 100")
    words = run(house)
    # The scores of both were there already: only the rules are new.
    assert set(house.executed(mark)) == {"choose.openvino"}
    why = "times as fast as fp32, wanted 100.000"
    assert "openvino: fp32 ships" in words
    assert why in words.split("not int8_ptq: not faster: ")[1].splitlines()[0]
    assert why in read_report(house, words)
    assert find_table(house, why) == {"none": True, "int8_ptq": False}
    registry = read_registry(house)
    assert json.loads(registry["tiny"]["versions"]["2"]["enginehouse.chosen"]) == {
        "openvino": "none"
    }
    assert registry["tiny.openvino"]["aliases"]["champion"] == 2

    mark = house.mark()
    again = run(house.having(PREFECT_API_URL=""))  # what is looked up needs none
    assert again.startswith("nothing changed")
    assert house.executed(mark) == {}


def test_of_one_that_fails_to_build_the_next_best_ships(house: Checkout) -> None:
    backend = house.root / "src/enginehouse/backends/openvino_backend.py"
    text = backend.read_text()
    start = text.index('"""', text.index("def build(")) + 3
    end = text.index('"""\n', start) + 4
    planted = (
        "    if target.precision == 'int8':\n"
        "        raise EngineError('planted: no such kernel', 'none')\n"
    )
    backend.write_text(text[:end] + planted + text[end:])
    more = CANDIDATES.replace("[", "[{quantizer: fp16}, ", 1)
    edit_recipe(house, CANDIDATES, more)
    edit_recipe(house, "min_speedup: 100", "min_speedup: 0")
    words = run(house)
    assert "openvino: fp16 ships" in words
    assert "not int8_ptq: failed to build: planted: no such kernel" in words
    assert "planted: no such kernel" in read_report(house, words)
    assert find_table(house, "planted") == {"none": False, "fp16": True, "int8_ptq": False}
    tags = read_registry(house)["tiny"]["versions"]["3"]
    assert json.loads(tags["enginehouse.chosen"]) == {"openvino": "fp16"}
