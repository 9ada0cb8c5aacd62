"""The gates: which scorecards pass, and the numbers they give as reasons."""

from __future__ import annotations

from enginehouse.evaluate.record import DefectScores, RecallPoint, Scorecard
from enginehouse.gates import GateConfig, judge


def card(macro_f1: float) -> Scorecard:
    return Scorecard(
        split="test",
        pack="a pack",
        classes=("bad", "good"),
        num_pictures=100,
        accuracy=macro_f1,
        macro_f1=macro_f1,
        recalls={},
        confusion=(),
        escapes=None,
        overkill=None,
        num_defects=None,
        num_good=None,
        defects=None,
    )


def verdicts(score: float, twin: float, champion: float | str, **limits: float) -> dict[str, bool]:
    best = champion if isinstance(champion, str) else card(champion)
    config = GateConfig(**limits)
    results = judge(config, {"cpu": card(score)}, {"cpu": card(twin)}, {"cpu": best})
    assert all(result.engine == "cpu" and result.reason for result in results)
    return {result.gate: result.passed for result in results}


def test_a_first_version_has_no_champion_to_beat() -> None:
    assert verdicts(0.95, 0.96, "first version") == {
        "quality floor": True,
        "precision drop": True,
        "champion": True,
    }


def test_each_gate_fails_alone() -> None:
    assert verdicts(0.89, 0.89, "none")["quality floor"] is False
    assert verdicts(0.92, 0.95, "none")["precision drop"] is False
    assert verdicts(0.95, 0.95, 0.96)["champion"] is False


def test_equal_to_the_champion_passes_and_margins_count() -> None:
    assert verdicts(0.95, 0.95, 0.95)["champion"]
    assert verdicts(0.95, 0.95, 0.96, champion_margin=0.02)["champion"]


def test_every_engine_is_held_against_its_own_twin() -> None:
    cards = {"a": card(0.95), "b": card(0.93)}
    twins = {"a": card(0.95), "b": card(0.99)}
    failed = [
        (result.gate, result.engine)
        for result in judge(GateConfig(), cards, twins, {"a": "first", "b": "first"})
        if not result.passed
    ]
    assert failed == [("precision drop", "b")]


def tiled(recall: float) -> Scorecard:
    """Every picture is defective, and told so: macro F1 says nothing."""
    point = RecallPoint(limit=1.0, threshold=0.5, recall=recall)
    defects = DefectScores(
        num_boxes=100,
        num_windows=1000,
        num_clean=900,
        clean_megapixels=10,
        recall=1,
        false_alarms=90,
        points=(point,),
    )
    return card(1.0).model_copy(update={"defects": defects})


def test_of_windows_the_defects_found_count_too() -> None:
    def failed(score: float, twin: float, champion: float) -> list[str]:
        sides = ({"cpu": tiled(recall)} for recall in (score, twin, champion))
        results = judge(GateConfig(min_defect_recall=0.8), *sides)
        assert len(results) == 6
        return [f"{result.gate}: {result.reason}" for result in results if not result.passed]

    assert failed(0.9, 0.9, 0.9) == []
    [floor] = failed(0.79, 0.79, 0.79)
    assert floor == (
        "quality floor: defects found at 1 false alarm per megapixel 0.7900, wanted at least 0.8000"
    )
    assert [reason.partition(":")[0] for reason in failed(0.9, 0.95, 0.96)] == [
        "precision drop",
        "champion",
    ]
