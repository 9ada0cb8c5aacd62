"""The operating point: thresholds, bands, counts and intervals that can be told by arithmetic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError

from enginehouse.errors import RecipeError
from enginehouse.evaluate.intervals import (
    Resamples,
    bound_above,
    bound_share,
    count_needed,
    estimate_quality,
    estimate_rate,
)
from enginehouse.evaluate.masking import GREY, cut_holes
from enginehouse.evaluate.operating import apply_point, find_point, find_verdict
from enginehouse.evaluate.outcome import measure_outcome
from enginehouse.evaluate.point import Interval, OperatingConfig, OperatingPoint
from enginehouse.evaluate.record import Masked, Slice
from enginehouse.evaluate.slices import cut_slices, score_slices
from enginehouse.evaluate.units import Answers
from enginehouse.report.operating import make_operating
from enginehouse.report.page import PageData, render_page
from tests.report_run import make_page

CLASSES = ("good", "pit", "scratch")
GOOD, PIT, SCRATCH = range(3)


def answer(
    alarms: Sequence[float], labels: Sequence[int], parts: Sequence[int] | None = None
) -> Answers:
    """Answers whose alarm is as given; what is not good is split between the defects."""
    alarm = np.array(alarms, np.float64)
    probabilities = np.stack([1 - alarm, 0.6 * alarm, 0.4 * alarm], axis=1).astype(np.float32)
    parts = range(len(labels)) if parts is None else parts
    targets = np.eye(3, dtype=np.float32)[list(labels)]
    return Answers("single_label", CLASSES, GOOD, targets, probabilities, np.array(list(parts)))


def fix(answers: Answers, **rules: Any) -> OperatingPoint:
    point, notes = find_point(answers, OperatingConfig.model_validate(rules))
    assert point is not None and notes
    return point


def logit(share: float) -> float:
    return math.log(share / (1 - share))


# Twenty good pictures below 0.4, one good one at 0.8; ten defects from 0.3 to 0.95.
ALARMS = [*np.linspace(0.01, 0.39, 20), 0.8, 0.3, 0.5, 0.6, 0.7, 0.75, 0.85, 0.9, 0.92, 0.94, 0.95]
LABELS = [GOOD] * 21 + [PIT] * 5 + [SCRATCH] * 5


# Where the threshold lies


def test_threshold_is_the_largest_that_lets_no_more_pass_than_allowed() -> None:
    answers = answer(ALARMS, LABELS)
    strict = fix(answers, max_escape_rate=0.05)  # of 10, none
    # Between the lowest defect at 0.3 and the next lower good one at 0.29.
    assert strict.threshold == pytest.approx(
        1 / (1 + math.exp(-(logit(0.3) + logit(0.29)) / 2)), abs=1e-6
    )
    assert (strict.escapes.num, strict.escapes.of) == (0, 10)
    assert strict.overkill is not None
    assert (strict.overkill.num, strict.overkill.of) == (6, 21)
    loose = fix(answers, max_escape_rate=0.1)  # one of 10: that at 0.3
    assert 0.39 < loose.threshold < 0.5
    assert (loose.escapes.num, loose.overkill and loose.overkill.num) == (1, 1)


def test_allowed_share_of_few_is_said_with_what_it_shows() -> None:
    answers = answer([0.1] * 30 + [0.9] * 30, [GOOD] * 30 + [PIT] * 30)
    point, notes = find_point(answers, OperatingConfig(max_escape_rate=0.01))
    assert point is not None
    assert point.escapes.num == 0
    assert point.threshold == pytest.approx(0.5, abs=1e-6)  # the middle, in logits
    said = " ".join(notes)
    assert "0 of 30 defective pictures of validation pass (limit 0.01: 0)" in said
    assert "at most 9.5% do" in said
    assert "takes 299 parts" in said


def test_equal_alarms_pass_or_stay_together() -> None:
    # Half of the defects may pass, but three of four share an alarm, with a good one.
    answers = answer([0.2, 0.5, 0.5, 0.5, 0.5, 0.9], [GOOD, GOOD, PIT, PIT, PIT, PIT])
    point = fix(answers, max_escape_rate=0.5, recheck_share=0)
    assert 0.2 < point.threshold <= 0.5
    assert point.escapes.num == 0
    assert point.overkill is not None and point.overkill.num == 1


def test_neighbouring_alarms_are_still_told_apart() -> None:
    low = np.float64(0.5)
    answers = answer([float(low), float(np.nextafter(low, 1))], [GOOD, PIT])
    alarm = np.array([low, np.nextafter(low, 1)])
    probabilities = np.stack([1 - alarm, alarm, 0 * alarm], axis=1)
    exact = Answers(
        *("single_label", CLASSES, GOOD, answers.targets),
        *(probabilities, answers.parts),  # type: ignore[arg-type]
    )
    point = fix(exact, recheck_share=0)
    assert (point.escapes.num, point.overkill and point.overkill.num) == (0, 0)


def test_an_engine_that_always_alarms_passes_nothing_and_rejects_everything() -> None:
    point = fix(answer([1.0] * 8, [GOOD, PIT] * 4))
    assert (point.escapes.num, point.overkill and point.overkill.num) == (0, 4)
    assert 0 < point.threshold < 1


def test_class_limit_is_stricter_than_the_whole() -> None:
    # Of ten defects one may pass, the scratch at 0.2; but no scratch may.
    alarms = [0.1, 0.15, 0.3, 0.2, *[0.8] * 9]
    answers = answer(alarms, [GOOD, GOOD, GOOD, SCRATCH, *[PIT] * 9])
    assert fix(answers, max_escape_rate=0.1).escapes.num == 1
    limited = fix(answers, max_escape_rate=0.1, class_limits={"scratch": 0})
    assert 0.15 < limited.threshold < 0.2
    assert limited.escapes.num == 0
    unheld = fix(answer([0.1, 0.9], [GOOD, PIT]), class_limits={"scratch": 0})
    assert unheld.escapes.num == 0


def test_a_class_limit_that_binds_little_is_said_and_one_that_binds_nothing_refused() -> None:
    answers = answer([0.1, 0.4, 0.9], [GOOD, PIT, SCRATCH])
    _, notes = find_point(answers, OperatingConfig(class_limits={"pit": 0.99}))
    assert "0 of 1 pit pictures of validation pass (limit 0.99: 0)" in " ".join(notes)
    with pytest.raises(ValidationError, match="less than 1"):
        OperatingConfig(class_limits={"pit": 1})


def test_without_a_good_class_or_without_defects_there_is_no_point() -> None:
    answers = answer([0.1, 0.9], [GOOD, GOOD])
    point, notes = find_point(answers, OperatingConfig())
    assert point is None and "no defect" in notes[0]
    nameless = Answers(
        *("single_label", CLASSES, None, answers.targets, answers.probabilities, answers.parts)
    )
    point, notes = find_point(nameless, OperatingConfig())
    assert point is None and "No class is named as the good one" in notes[0]


def test_without_good_pictures_overkill_is_unknown() -> None:
    point = fix(answer([0.5, 0.9], [PIT, PIT]))
    assert point.overkill is None
    assert point.threshold == pytest.approx(1 / (1 + math.e), abs=1e-6)  # a logit below 0.5


# Parts


def test_part_alarms_as_its_most_alarming_picture() -> None:
    # Part 0 shows its pit in one of three pictures; part 1 is good, part 2 a faint scratch.
    alarms = [0.05, 0.9, 0.1, 0.2, 0.3, 0.4, 0.6]
    labels = [GOOD, PIT, GOOD, GOOD, GOOD, SCRATCH, SCRATCH]
    answers = answer(alarms, labels, [0, 0, 0, 1, 1, 2, 2])
    point = fix(answers, unit="part", max_escape_rate=0)
    assert (point.escapes.of, point.overkill and point.overkill.of) == (2, 1)
    assert 0.4 < point.threshold < 0.6  # between the scratch's larger alarm and the next lower one
    by_part = measure_outcome(answers, point, "part")
    assert by_part.escapes is not None and by_part.overkill is not None
    assert (by_part.escapes.num, by_part.overkill.num, by_part.rechecked.of) == (0, 0, 3)
    by_picture = measure_outcome(answers, point, "picture")
    assert by_picture.escapes is not None
    assert (by_picture.escapes.num, by_picture.escapes.of) == (1, 3)  # the picture at 0.4


# The recheck band


def test_band_holds_the_nearest_units_and_no_more_than_its_share() -> None:
    answers = answer(ALARMS, LABELS)
    for share, num in ((0.0, 0), (0.05, 1), (0.1, 3), (0.2, 6)):
        point = fix(answers, max_escape_rate=0.1, recheck_share=share)
        alarm = apply_point(point, answers.probabilities, CLASSES)
        nearest = np.argsort(np.abs(np.log(alarm / (1 - alarm)) - logit(point.threshold)))[:num]
        verdicts = [find_verdict(point, each) for each in alarm]
        assert {row for row, said in enumerate(verdicts) if said == "recheck"} == set(nearest)
        for said, each in zip(verdicts, alarm, strict=True):
            if said != "recheck":
                assert said == ("reject" if each >= point.threshold else "good")


def test_units_at_the_same_distance_are_in_the_band_together_or_out() -> None:
    answers = answer([0.2, 0.2, 0.2, 0.8, 0.8], [GOOD, GOOD, GOOD, PIT, PIT])
    point = fix(answers, recheck_share=0.4)  # room for two of three or of five
    assert point.recheck_low == point.recheck_high == point.threshold


# What comes of it on other pictures


def test_outcome_counts_and_trades() -> None:
    point = fix(answer(ALARMS, LABELS), max_escape_rate=0.1, recheck_share=0.1)
    assert point.recheck_low < 0.38
    assert 0.42 < point.threshold < 0.45 < point.recheck_high < 0.6
    alarms = [0.1, 0.38, 0.45, 0.99, 0.05, 0.42, 0.7, 0.9]
    labels = [GOOD, GOOD, GOOD, GOOD, PIT, SCRATCH, SCRATCH, PIT]
    outcome = measure_outcome(answer(alarms, labels), point, "picture")
    assert outcome.escapes is not None and outcome.overkill is not None
    assert (outcome.escapes.num, outcome.escapes.of) == (2, 4)
    assert (outcome.overkill.num, outcome.overkill.of) == (2, 4)
    assert (outcome.escapes_rechecked, outcome.overkill_rechecked) == (1, 1)
    assert outcome.rechecked.num == 3  # 0.38, 0.45 and 0.42
    by_class = {name: (rate.num, rate.of) for name, rate in outcome.escapes_by_class.items()}
    assert by_class == {"pit": (1, 2), "scratch": (1, 2)}
    # No good one may be rejected, as 5 % of 4 is less than one: every defect up to 0.99 passes.
    assert [(trade.limit, trade.rate.num) for trade in outcome.escapes_at] == [
        (0.005, 4),
        (0.01, 4),
        (0.02, 4),
        (0.05, 4),
    ]
    # No defect may pass: all from 0.05 on are rejected.
    assert [trade.rate.num for trade in outcome.overkill_at] == [4] * 5


def test_trade_offs_of_many() -> None:
    rng = np.random.default_rng(0)
    alarm = np.concatenate([rng.uniform(0, 0.6, 1000), rng.uniform(0.4, 1, 1000)])
    answers = answer(alarm.tolist(), [GOOD] * 1000 + [PIT] * 1000)
    outcome = measure_outcome(answers, fix(answers), "picture")
    exact = apply_point(fix(answers), answers.probabilities, CLASSES)
    good, bad = np.sort(exact[:1000]), np.sort(exact[1000:])
    for trade in outcome.escapes_at:
        allowed = round(1000 * trade.limit)
        assert trade.rate.num == (bad <= good[-1 - allowed]).sum()
        assert trade.rate.low < trade.rate.share < trade.rate.high
        assert trade.by_class["pit"].num == trade.rate.num
    for trade in outcome.overkill_at:
        assert trade.rate.num == (good >= bad[round(1000 * trade.limit)]).sum()


# Several labels


def test_each_class_counts_from_its_own_threshold() -> None:
    """Scratches have low scores; with one threshold for all, good pictures would alarm for pits."""
    probabilities = np.array(
        [
            *([0.9, 0.40, 0.02], [0.9, 0.30, 0.03], [0.9, 0.35, 0.01]),  # good
            *([0.1, 0.90, 0.02], [0.1, 0.80, 0.20], [0.1, 0.85, 0.01]),  # pits, one with both
            *([0.4, 0.10, 0.20], [0.4, 0.20, 0.30], [0.4, 0.05, 0.25]),  # scratches
        ],
        np.float32,
    )
    labels = [[GOOD]] * 3 + [[PIT], [PIT, SCRATCH], [PIT]] + [[SCRATCH]] * 3
    targets = np.zeros((9, 3), np.float32)
    for row, borne in zip(targets, labels, strict=True):
        row[borne] = 1
    answers = Answers("multi_label", CLASSES, GOOD, targets, probabilities, np.arange(9))
    point = fix(answers, max_escape_rate=0, recheck_share=0)
    assert 0.40 < point.class_thresholds["pit"] < 0.80
    assert 0.03 < point.class_thresholds["scratch"] < 0.20
    assert set(point.class_thresholds) == {"pit", "scratch"}
    assert (point.escapes.num, point.escapes.of) == (0, 6)
    assert point.overkill is not None and (point.overkill.num, point.overkill.of) == (0, 3)


# Intervals


def test_exact_bounds() -> None:
    assert bound_above(0, 30) == pytest.approx(1 - 0.05 ** (1 / 30))
    assert bound_share(0, 30).high == pytest.approx(1 - 0.025 ** (1 / 30))
    assert bound_share(30, 30).low == pytest.approx(0.025 ** (1 / 30))
    # Clopper and Pearson's interval of 5 in 20, as R's binom.test gives it.
    found = bound_share(5, 20)
    assert (found.low, found.high) == pytest.approx((0.08657147, 0.49104587), abs=1e-7)
    assert count_needed(0.01) == 299


def test_nothing_in_many_pictures_of_few_parts_is_known_as_well_as_the_parts() -> None:
    nothing, all_ = np.zeros(300, bool), np.ones(300, bool)
    rate = estimate_rate(nothing, all_, Resamples(np.arange(300) // 10))
    assert rate is not None
    assert (rate.num, rate.of, rate.low) == (0, 300, 0)
    assert rate.high == pytest.approx(bound_share(0, 30).high)
    assert estimate_rate(all_, nothing, Resamples(np.arange(300))) is None


def test_intervals_cover_the_truth_as_often_as_they_say() -> None:
    """Pictures of a part share their fate, so that an interval by pictures would be too narrow."""
    rng = np.random.default_rng(1)
    held, width = 0, []
    for _ in range(100):
        fate = np.repeat(rng.random(80) < 0.3, 6)
        everything = np.ones(len(fate), bool)
        rate = estimate_rate(fate, everything, Resamples(np.repeat(np.arange(80), 6)))
        assert rate is not None
        held += rate.low <= 0.3 <= rate.high
        width.append(rate.high - rate.low)
    assert 88 <= held <= 100
    assert 0.15 < np.mean(width) < 0.25  # 2 * 1.96 * sqrt(0.3 * 0.7 / 80) is 0.20


def test_intervals_of_quality_lie_around_it_and_are_the_same_each_time() -> None:
    rng = np.random.default_rng(2)
    labels = rng.integers(0, 3, 300)
    said = np.where(rng.random(300) < 0.9, labels, (labels + 1) % 3)
    truth, answers = np.eye(3, dtype=bool)[labels], np.eye(3, dtype=bool)[said]
    found = [estimate_quality(truth, answers, Resamples(np.arange(300) // 3)) for _ in range(2)]
    assert found[0] == found[1]
    accuracy = (labels == said).mean()
    assert found[0]["accuracy"].low < accuracy < found[0]["accuracy"].high
    assert 0.03 < found[0]["accuracy"].high - found[0]["accuracy"].low < 0.12
    assert found[0]["macro_f1"].low < accuracy < found[0]["macro_f1"].high
    perfect = estimate_quality(truth, truth, Resamples(np.arange(300)))
    assert (perfect["macro_f1"].low, perfect["macro_f1"].high) == (1, 1)


# Masking


def test_holes_change_what_lies_inside_them_alone() -> None:
    pictures = np.full((2, 3, 28, 28), 200, np.uint8)
    masked = cut_holes(pictures, ["a.png", "b.png"], num_holes=8, side=4)
    assert (pictures == 200).all()
    assert set(np.unique(masked)) == {GREY, 200}
    holes = masked == GREY
    assert (holes == holes[:, :1]).all()  # in every channel
    assert (holes[:, 0].sum(axis=(1, 2)) > 4 * 4).all()
    assert (holes[:, 0].sum(axis=(1, 2)) <= 8 * 4 * 4).all()
    assert not np.array_equal(masked[0], masked[1])
    # The place hangs on the name, not on the row or the batch.
    again = cut_holes(pictures[:1], ["b.png"], num_holes=8, side=4)
    assert np.array_equal(again[0], masked[1])
    [hole] = cut_holes(pictures[:1], ["a.png"], num_holes=1, side=4)[:, 0]
    rows, columns = np.nonzero(hole == GREY)
    assert (np.ptp(rows), np.ptp(columns), len(rows)) == (3, 3, 16)


# Slices


def test_planted_bad_camera_is_flagged_and_the_others_are_not() -> None:
    rng = np.random.default_rng(3)
    labels = np.tile([GOOD, PIT], 120)
    cameras = np.repeat(["left", "middle", "right"], 80)
    alarm = np.where(labels == PIT, 0.9, 0.1) + rng.uniform(-0.05, 0.05, 240)
    blind = (cameras == "right") & (labels == PIT) & (rng.random(240) < 0.5)
    alarm[blind] = 0.02
    answers = answer(alarm.tolist(), labels.tolist())
    point = fix(answer(alarm[~blind].tolist(), labels[~blind].tolist()))
    table = pd.DataFrame({"path": [f"cam_{name}/{row}.png" for row, name in enumerate(cameras)]})
    slices = cut_slices(table, (), {"camera": r"^cam_(\w+)/"})
    found = {each.value: each for each in score_slices(slices, answers, point)}
    assert [name for name, each in found.items() if each.worse] == ["right"]
    right = found["right"]
    assert (right.name, right.num_pictures, right.num_parts) == ("camera", 80, 80)
    assert right.escapes is not None and right.escapes.num == blind.sum()
    assert right.interval is not None and right.interval.low < right.macro_f1
    assert found["left"].macro_f1 == 1
    [nameless, *_] = score_slices(slices, answers, None)
    assert nameless.escapes is None


def test_few_parts_are_never_called_worse() -> None:
    answers = answer([0.1, 0.9] * 20 + [0.9, 0.1], [GOOD, PIT] * 21)
    slices = pd.DataFrame({"day": ["a"] * 40 + ["b"] * 2})
    *_, bad = score_slices(slices, answers, fix(answers))
    assert (bad.value, bad.macro_f1, bad.interval, bad.worse) == ("b", 0, None, False)


def test_numbers_and_times_are_cut_into_quarters_and_words_are_not() -> None:
    table = pd.DataFrame(
        {
            "path": [f"{row}.png" for row in range(8)],
            "brightness": [10.0, 80, 20, 70, 30, 60, 40, 50],
            "time": [f"2026-01-0{day}" for day in range(1, 9)],
            "format": ["PNG", "JPEG"] * 4,
            "mode": ["RGB"] * 7 + [""],
        }
    )
    cut = cut_slices(table, ("brightness", "time", "format", "mode"), {"none": "x(y)z"})
    assert cut["brightness"].tolist() == [
        *("10 to 20", "70 to 80", "10 to 20", "70 to 80"),
        *("30 to 40", "50 to 60", "30 to 40", "50 to 60"),
    ]
    assert cut["time"].tolist()[::2] == [
        f"2026-01-0{day} to 2026-01-0{day + 1}" for day in (1, 3, 5, 7)
    ]
    assert cut["format"].tolist() == ["PNG", "JPEG"] * 4
    assert cut["mode"].tolist() == ["RGB"] * 7 + ["(none)"]
    assert set(cut["none"]) == {"(none)"}
    with pytest.raises(RecipeError, match="no column 'brightnes'; it has path, brightness"):
        cut_slices(table, ("brightnes",), {})


def test_rare_values_are_put_together() -> None:
    table = pd.DataFrame({"path": [f"{row % 40}/{row}.png" for row in range(80)]})
    values = cut_slices(table, (), {"folder": r"^(\d+)/"})["folder"]
    assert values.nunique() == 21 and (values == "others").sum() == 40


# What the report says


def show(page: PageData, folder: Path) -> str:
    names = {"operating": make_operating(page), "unscored": "it waits"}
    return render_page("operating.html.j2", folder / "part.html", names).read_text("utf-8")


def test_report_tells_the_point_and_what_comes_of_it(tmp_path: Path) -> None:
    page = make_page(tmp_path)
    card = page.road.scorecards["openvino"]
    assert card.pictures is not None and card.pictures.escapes is not None
    text = show(page, tmp_path)
    assert "is not normal" in text and "at most 20.00% of the defects pass" in text
    escapes = card.pictures.escapes
    assert f"{escapes.num} of {escapes.of} ({escapes.low:.1%} to {escapes.high:.1%})" in text
    assert text.count("<br>") >= 3  # validation, twin and engine, each with its unit
    assert "<script>alert" not in text and "&lt;script&gt;alert(1)" in text
    assert "Overkill at most" in text and "Escapes at most" in text


def test_report_shows_holes_and_slices(tmp_path: Path) -> None:
    page = make_page(tmp_path)
    card = page.road.scorecards["openvino"]
    masked = Masked(holes=8, side=7, macro_f1=0.5, recalls={"pit": 0.25}, escapes=None)
    bad = Slice(
        **{"name": "camera", "value": "<left>", "num_pictures": 40, "num_parts": 20},
        **{"macro_f1": 0.6, "interval": Interval(low=0.5, high=0.7)},
        **{"escapes": None, "overkill": None, "worse": True},
    )
    page.road.scorecards["openvino"] = card.model_copy(
        update={"masked": masked, "slices": (bad, bad.model_copy(update={"worse": False}))}
    )
    text = show(page, tmp_path)
    assert "8 grey holes of 7 px" in text and "0.250" in text
    assert "0.600 (0.500 to 0.700)" in text and "&lt;left&gt;" in text
    assert text.count("worse</span>") == 1


def test_report_without_a_point_says_why(tmp_path: Path) -> None:
    page = make_page(tmp_path)
    for cards in (page.road.scorecards, page.road.validations):
        for name, card in cards.items():
            gone = {"point": None, "pictures": None, "parts": None}
            notes = {"operating": ["No class is named as the good one."]}
            cards[name] = card.model_copy(update={**gone, "notes": notes})
    text = show(page, tmp_path)
    assert "No class is named as the good one." in text and "<table>" not in text
    page.road.scorecards.clear()
    assert "it waits" in show(page, tmp_path)
