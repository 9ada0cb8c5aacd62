"""The gates: which scorecards pass, and the numbers they give as reasons."""

from __future__ import annotations

import pytest

from enginehouse.evaluate.intervals import bound_share
from enginehouse.evaluate.point import OperatingConfig, OperatingPoint, Rate
from enginehouse.evaluate.record import DefectScores, Outcome, RecallPoint, Scorecard
from enginehouse.gates import GateConfig, GateResult, find_vouched, judge


def card(macro_f1: float) -> Scorecard:
    return Scorecard(
        split="test",
        engine="an engine",
        pack="a pack",
        classes=("bad", "good"),
        num_pictures=100,
        num_parts=100,
        accuracy=macro_f1,
        macro_f1=macro_f1,
        intervals={},
        class_scores={},
        confusion=(),
        point=None,
        pictures=None,
        parts=None,
        masked=None,
        slices=(),
        defects=None,
    )


def rate(num: int, of: int) -> Rate:
    exact = bound_share(num, of)
    return Rate(num=num, of=of, low=exact.low, high=exact.high)


def operating(escapes: int, overkill: int = 0, validated: int = 0, of: int = 100) -> Scorecard:
    """An engine that let so many of 100 defects pass on test, and `validated` on validation."""
    point = OperatingPoint(
        rules=OperatingConfig(max_escape_rate=0.01),
        problem="single_label",
        good="good",
        threshold=0.5,
        recheck_low=0.5,
        recheck_high=0.5,
        class_thresholds={},
        escapes=rate(validated, of),
        overkill=rate(0, 100),
    )
    outcome = Outcome(
        unit="picture",
        escapes=rate(escapes, 100),
        overkill=rate(overkill, 100),
        rechecked=rate(0, 200),
        escapes_rechecked=0,
        overkill_rechecked=0,
        escapes_by_class={},
        escapes_at=(),
        overkill_at=(),
    )
    return card(0.95).model_copy(update={"point": point, "pictures": outcome})


def failures(
    own: Scorecard, twin: Scorecard, champion: Scorecard | str, **limits: float
) -> list[GateResult]:
    results = judge(GateConfig(**limits), {"cpu": own}, {"cpu": twin}, {"cpu": champion})
    return [result for result in results if not result.passed]


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


def test_a_collapsed_engine_is_rejected_by_its_accuracy_too() -> None:
    fp32 = card(0.9).model_copy(update={"accuracy": 0.917})
    int8 = card(0.9).model_copy(update={"accuracy": 0.5})
    [failed] = failures(int8, fp32, "first version", max_drop=0.01)
    assert failed.gate == "precision drop"
    assert failed.reason == "accuracy 0.5000 against 0.9170 in fp32: drop 0.4170, allowed 0.0100"
    near = card(0.9).model_copy(update={"accuracy": 0.908})
    assert failures(near, fp32, "first version", max_drop=0.01) == []


def test_equal_to_the_champion_passes_and_margins_count() -> None:
    assert verdicts(0.95, 0.95, 0.95)["champion"]
    assert verdicts(0.95, 0.95, 0.96, champion_margin=0.02)["champion"]


def test_every_engine_is_held_against_its_own_twin() -> None:
    cards = {"a": card(0.95), "b": card(0.93)}
    twins = {"a": card(0.95), "b": card(0.99)}
    failed = {
        (result.gate, result.engine)
        for result in judge(GateConfig(), cards, twins, {"a": "first", "b": "first"})
        if not result.passed
    }
    assert failed == {("precision drop", "b")}


@pytest.mark.parametrize(("escapes", "passes"), [(1, True), (3, True), (4, False), (30, False)])
def test_only_a_certain_breach_of_a_given_escape_limit_rejects(escapes: int, passes: bool) -> None:
    # Of 100, the interval of 3 begins at 0.6 %, that of 4 at 1.1 %.
    own = operating(escapes)
    failed = failures(own, own, own, max_escape_rate=0.01)
    assert [result.gate for result in failed] == ([] if passes else ["escapes"])


def test_without_a_limit_escapes_are_held_against_what_validation_vouches_for() -> None:
    # None of 100 on validation: at most 3.6 % are possible, so 8 of 100 (from 3.5 %) may be chance.
    point = operating(0).point
    assert point is not None and find_vouched(point) == pytest.approx(0.0362, abs=1e-4)
    assert failures(operating(8), operating(8), "first") == []
    [failed] = failures(operating(9), operating(9), "first")
    assert failed.gate == "escapes"
    assert failed.reason == (
        "escapes 9 of 100 pictures, 9.00% (4.20% to 16.40%), wanted at most 3.62%"
    )
    sure = operating(8, of=10_000)  # validation saw enough to hold its limit of 1 %
    assert [result.gate for result in failures(sure, sure, "first")] == ["escapes"]


def test_overkill_is_free_until_it_is_limited() -> None:
    own = operating(0, overkill=60)
    assert failures(own, own, own) == []
    [failed] = failures(own, own, own, max_overkill_rate=0.1)
    assert failed.gate == "overkill" and "60 of 100 pictures, 60.00%" in failed.reason
    some = operating(0, overkill=12)
    assert failures(some, some, some, max_overkill_rate=0.1) == []


def test_a_wanted_limit_without_an_operating_point_rejects() -> None:
    own = card(0.95)
    assert failures(own, own, own) == []
    [failed] = failures(own, own, own, max_escape_rate=0.02)
    assert failed.gate == "escapes" and "there is no operating point" in failed.reason


def test_escapes_are_compared_with_twin_and_champion() -> None:
    many, few = operating(12, validated=12), operating(2, validated=2)
    assert failures(many, many, many) == []
    assert [result.gate for result in failures(many, few, "first")] == ["precision drop"]
    [failed] = failures(many, many, few)
    assert failed.gate == "champion"
    assert "the champion has 2.00% on the same pictures (margin 0.00%)" in failed.reason
    assert failures(many, few, few, max_drop=0.1, champion_margin=0.1) == []
    # One escape more than the champion's is no proof of anything.
    assert failures(operating(3), operating(3), operating(2)) == []


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
        assert len(results) == 7  # accuracy is held against that of fp32 alone
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
