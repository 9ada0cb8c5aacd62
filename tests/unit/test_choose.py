"""Choose: each rule breaks alone, the ladder is climbed in order, and every flip is told."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from enginehouse.artifact import fingerprint
from enginehouse.choose.choose import choose
from enginehouse.choose.paired import bound_excess, measure_excess
from enginehouse.choose.record import ChooseConfig, ChooseRules, Decision, Judged, Rung
from enginehouse.choose.table import list_rows
from enginehouse.engine import Device, Precision
from enginehouse.errors import EngineMismatch
from enginehouse.evaluate.answers import make_answers
from enginehouse.evaluate.evaluate import score
from enginehouse.evaluate.point import OperatingConfig, OperatingPoint, Rate, Unit
from enginehouse.evaluate.record import Scorecard, Split
from enginehouse.measure.record import Latency, MeasureConfig
from enginehouse.prepare.index import read_index
from enginehouse.prepare.record import Pack
from enginehouse.quantize.record import Candidate
from enginehouse.road import Tried
from enginehouse.stage import Job, Stage
from tests.unit.test_build import build_engine
from tests.unit.tiny_engines import (
    TARGET,
    open_workspace,
    seal_pack,
    seal_tiled_pack,
)

RED, GREEN, BLUE = range(3)  # red is good
LABELS = [RED] * 60 + [GREEN] * 40 + [BLUE] * 20
DEVICE = Device(device_class="cpu", model="A Processor")
PRECISIONS: dict[str, Precision] = {
    "none": "fp32",
    "fp16": "fp16",
    "bf16": "bf16",
    "int8_ptq": "int8",
    "int8_qat": "int8",
}
THRESHOLD = 0.6
# What an engine says of a picture whose class it takes to be the first, and rejects or passes.
SAYS = {
    (RED, False): (0.80, 0.10, 0.10),
    (RED, True): (0.38, 0.32, 0.30),
    (GREEN, True): (0.10, 0.80, 0.10),
    (GREEN, False): (0.41, 0.45, 0.14),
    (BLUE, True): (0.10, 0.10, 0.80),
    (BLUE, False): (0.41, 0.14, 0.45),
}
Changes = Mapping[int, tuple[int, bool]]  # row to class and whether it is rejected


def say(labels: Sequence[int], changes: Changes) -> NDArray[np.float32]:
    """Right answers and verdicts, but for the changes; float32 [n, 3]."""
    right = [(label, label != RED) for label in labels]
    return np.array([SAYS[changes.get(row, each)] for row, each in enumerate(right)], np.float32)


def make_point(unit: Unit = "picture", problem: str = "single_label") -> OperatingPoint:
    nothing = Rate(num=0, of=60, low=0, high=0.06)
    return OperatingPoint(
        rules=OperatingConfig(unit=unit),
        problem=problem,
        good="red",
        threshold=THRESHOLD,
        recheck_low=THRESHOLD,
        recheck_high=THRESHOLD,
        class_thresholds={},
        escapes=nothing,
        overkill=nothing,
    )


def plant(
    folder: Path, pack: Pack, name: str, scores: NDArray[np.float32], point: OperatingPoint | None
) -> Scorecard:
    """The scorecard of an engine that gave these answers."""
    here = open_workspace(folder)
    np.save(here.scratch / "predictions.npy", scores)
    answers = make_answers(read_index(pack, "val", here), scores, pack, "red" if point else "")
    split: Split = "val"
    return Scorecard(
        files=here.seal(["predictions.npy"]),
        split=split,
        engine=f"engine of {name}",
        pack=pack.identity,
        masked=None,
        slices=(),
        defects=None,
        **score(answers, point),
    )


def time_engines(milliseconds: Mapping[str, float], device: Device = DEVICE) -> Latency:
    return Latency(
        engines={name: f"engine of {name}" for name in milliseconds},
        device=device.identity,
        config=MeasureConfig(),
        notes={"rows": [{"name": n, "milliseconds": ms} for n, ms in milliseconds.items()]},
    )


class Bench:
    """Planted candidates on one pack, and decisions over them."""

    def __init__(
        self, folder: Path, pack: Pack, point: OperatingPoint | None, labels: list[int]
    ) -> None:
        self.folder, self.pack, self.point, self.labels = folder, pack, point, labels

    def plant(self, **changes: Changes) -> dict[str, Scorecard]:
        return {
            name: plant(self.folder, self.pack, name, say(self.labels, each), self.point)
            for name, each in changes.items()
        }

    def decide(
        self,
        cards: Mapping[str, Scorecard],
        milliseconds: Mapping[str, float] | None = None,
        **rules: float,
    ) -> Decision:
        names = list(cards)
        times = milliseconds or {name: 4.0 / 2**step for step, name in enumerate(names)}
        config = ChooseConfig(
            rules=ChooseRules.model_validate(rules),
            rungs=tuple(Rung(name=name, precision=PRECISIONS[name]) for name in names),
        )
        here = open_workspace(self.folder)
        return choose(self.pack, DEVICE, time_engines(times), config, here, **cards)

    def judge(self, changes: Changes, plain: Changes | None = None, **rules: float) -> Judged:
        """What the rules say of INT8 with these changes."""
        return self.decide(self.plant(none=plain or {}, int8_ptq=changes), **rules).judged[1]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    folder = tmp_path_factory.mktemp("store")
    return Bench(folder, seal_pack(folder, LABELS), make_point(), LABELS)


def reasons(decision: Decision) -> dict[str, str]:
    found: Any = decision.notes["reasons"]
    return dict(found)


# The bound.


@pytest.mark.parametrize(
    ("lost", "gained", "of", "low", "high"),
    [
        # Fagerland, Lydersen and Laake: Statistical Analysis of Contingency Tables (2017), and
        # Recommended tests and confidence intervals for paired binomial proportions (2014).
        (6, 16, 161, -0.124, -0.0054),
        (1, 7, 21, -0.517, -0.026),
    ],
)
def test_bound_is_that_of_published_intervals(
    lost: int, gained: int, of: int, low: float, high: float
) -> None:
    assert bound_excess(lost, gained, of, level=0.975) == pytest.approx(high, abs=5e-5)
    # The interval is the same read from the other side.
    assert -bound_excess(gained, lost, of, level=0.975) == pytest.approx(low, abs=5e-4)


def test_bound_where_nothing_or_everything_flips() -> None:
    z2 = 1.6448536**2
    for of in (5, 60, 1000):
        assert bound_excess(0, 0, of) == pytest.approx(z2 / (of + z2), abs=1e-6)
        assert bound_excess(of, 0, of) == 1
        assert -1 < bound_excess(0, of, of) < bound_excess(0, of / 2, of) < bound_excess(0, 0, of)
    assert bound_excess(0, 0, 60) == pytest.approx(0.043, abs=5e-4)


def cover(of: int, lost_share: float, gained_share: float) -> float:
    """How often the bound holds, over all outcomes of so many independent units."""
    stays = 1 - lost_share - gained_share
    held = 0.0
    for lost in range(of + 1):
        for gained in range(of + 1 - lost):
            ways = math.comb(of, lost) * math.comb(of - lost, gained)
            chance = ways * lost_share**lost * gained_share**gained * stays ** (of - lost - gained)
            if chance > 1e-7 and bound_excess(lost, gained, of) >= lost_share - gained_share:
                held += chance
    return held


def test_bound_holds_as_often_as_it_says() -> None:
    shares = [(0.02, 0.02), (0.05, 0.02), (0.05, 0.05), (0.1, 0.02), (0.1, 0.1), (0.2, 0.05)]
    found = [cover(40, *each) for each in shares]
    assert np.mean(found) > 0.945
    assert min(found) > 0.92


def test_pictures_of_one_part_count_as_one() -> None:
    """Parts that flip as a whole: the bound holds as often as it says, which it else would not."""
    rng = np.random.default_rng(0)
    parts = np.repeat(np.arange(60), 5)
    held = {"by part": 0, "by picture": 0}
    for _ in range(400):
        lost = np.repeat(rng.random(60) < 0.1, 5)
        before = np.zeros(300, bool)
        held["by part"] += measure_excess(before, lost, parts).bound >= 0.1
        held["by picture"] += measure_excess(before, lost, np.arange(300)).bound >= 0.1
    assert held["by part"] / 400 > 0.92
    assert held["by picture"] / 400 < 0.85


# The rules.


def test_who_loses_nothing_breaks_nothing(bench: Bench) -> None:
    judged = bench.judge({})
    assert judged.broken == ()
    for excess, of in ((judged.errors, 120), (judged.escapes, 60), (judged.overkill, 60)):
        assert excess is not None
        assert (excess.lost, excess.gained, excess.of) == (0, 0, of)
        assert excess.bound == pytest.approx(bound_excess(0, 0, of), abs=1e-6)
    assert (judged.worst_class, judged.lost_defects) == ("", 0)


def test_each_rule_breaks_alone(bench: Bench) -> None:
    other_classes = {0: (GREEN, False), 60: (BLUE, True), 100: (GREEN, True)}
    [said] = bench.judge(other_classes).broken
    assert said == (
        "accuracy 1.0000 in fp32 and 0.9750 here (drop 0.0250): 3 of 120 pictures lost and 0 "
        "gained, so up to 6.09% more with 95 % confidence; margin_errors allows 5.00%"
    )
    passed = {60: (GREEN, False)}
    [said] = bench.judge(passed, max_lost_defects=0.05).broken
    assert said.startswith(
        "escapes 0 in fp32 and 1 here, of 60 pictures: 1 of 60 pictures lost and 0 gained, so up "
        "to 7.13% more"
    )
    assert said.endswith("margin_escapes allows 5.00%")
    [said] = bench.judge(passed, margin_escapes=1).broken
    assert said == (
        "1 of 60 defective pictures that fp32 rejects pass here: max_lost_defects 1.00% allows 0"
    )
    [said] = bench.judge({0: (RED, True)}).broken
    assert said.startswith("overkill 0 in fp32 and 1 here") and "margin_overkill" in said
    [said] = bench.judge({60: (BLUE, True), 61: (BLUE, True)}, margin_errors=0.2).broken
    assert said == ("class green loses 2 of its 40 pictures (net): pictures_per_loss 60 allows 1")


def test_what_is_gained_makes_up_for_errors_but_not_for_lost_defects(bench: Bench) -> None:
    plain = dict.fromkeys(range(60, 66), (GREEN, False))
    judged = bench.judge({100: (BLUE, False)}, plain)
    assert judged.escapes is not None
    assert (judged.escapes.lost, judged.escapes.gained) == (1, 6)
    assert judged.escapes.share < 0 and judged.lost_defects == 1
    [said] = judged.broken
    assert "max_lost_defects" in said
    # 0.02 of 60 is one whole defect.
    assert bench.judge({100: (BLUE, False)}, plain, max_lost_defects=0.02).broken == ()
    # Within a class, too, what is gained counts.
    wrong = {60: (BLUE, True), 61: (BLUE, True)}
    swapped = bench.judge({62: (BLUE, True), 63: (BLUE, True)}, wrong)
    assert (swapped.errors.lost, swapped.errors.gained, swapped.worst_class) == (2, 2, "")


def test_a_class_may_lose_one_picture_for_each_so_many_begun_ones(bench: Bench) -> None:
    two = {60: (BLUE, True), 61: (BLUE, True)}
    assert bench.judge(two, margin_errors=1, pictures_per_loss=20).broken == ()
    judged = bench.judge({**two, 100: (GREEN, True)}, margin_errors=1)
    assert (judged.worst_class, judged.worst_loss, judged.worst_allowed) == ("green", 2, 1)
    several = {**two, 100: (GREEN, True), 101: (GREEN, True), 102: (GREEN, True)}
    [said] = bench.judge(several, margin_errors=1).broken
    assert said.startswith("class blue loses 3 of its 20 pictures (net)")
    assert said.endswith("other classes that lose too many: 1")


def test_a_collapsed_candidate_is_caught_with_its_class(bench: Bench) -> None:
    all_good = dict.fromkeys(range(60, 120), (RED, False))
    decision = bench.decide(bench.plant(none={}, int8_ptq=all_good))
    assert decision.chosen == "none"
    said = reasons(decision)["int8_ptq"]
    assert "accuracy 1.0000 in fp32 and 0.5000 here (drop 0.5000)" in said
    assert "class green loses 40 of its 40 pictures" in said
    assert "60 of 60 defective pictures that fp32 rejects pass here" in said


def test_too_few_pictures_vouch_for_nothing(tmp_path: Path) -> None:
    labels = [RED, GREEN, BLUE] * 4
    bench = Bench(tmp_path, seal_pack(tmp_path, labels), None, labels)
    [said] = bench.judge({}).broken
    assert said.startswith("accuracy 1.0000 in fp32 and 1.0000 here: 0 of 12 pictures lost")
    assert said.endswith("(nothing is lost, but validation is too small to vouch for less)")


def test_without_an_operating_point_errors_and_classes_count(tmp_path: Path) -> None:
    bench = Bench(tmp_path, seal_pack(tmp_path, LABELS), None, LABELS)
    decision = bench.decide(bench.plant(none={}, int8_ptq={60: (GREEN, False)}))
    assert decision.chosen == "int8_ptq"  # nobody calls that an escape
    for judged in decision.judged:
        assert (judged.escapes, judged.overkill, judged.lost_defects) == (None, None, 0)
    swapped = dict.fromkeys(range(60, 70), (BLUE, True))
    broken = bench.judge(swapped).broken
    assert ["accuracy" in broken[0], "class green loses 10 of its 40" in broken[1]] == [True, True]
    flips: Any = bench.decide(bench.plant(none={}, int8_ptq=swapped)).notes["flips"]
    assert {(flip["kind"], flip["alarm"]) for flip in flips["int8_ptq"]} == {("class", None)}


# The ladder.

CLEAN: dict[str, Changes] = {"none": {}, "fp16": {}, "int8_ptq": {}}
PASSED: Changes = {60: (GREEN, False)}  # a defect is lost


@pytest.mark.parametrize(
    ("changes", "times", "rules", "chosen", "against"),
    [
        (CLEAN, (4, 3, 2), {}, "int8_ptq", ("none", "fp16")),
        (CLEAN, (4, 3, 2.9), {}, "fp16", ("none", "fp16")),  # 1.38 times as fast as fp32 alone
        (CLEAN, (4, 4.1, 2), {}, "int8_ptq", ("none", "none")),
        (CLEAN, (4, 3.9, 3.8), {}, "none", ("none", "none")),
        (CLEAN, (4, 5, 6), {"min_speedup": 0}, "int8_ptq", ("none", "fp16")),
        ({**CLEAN, "fp16": PASSED}, (4, 2.1, 2), {}, "int8_ptq", ("none", "none")),
        ({**CLEAN, "int8_ptq": PASSED}, (4, 3, 1), {}, "fp16", ("none", "fp16")),
    ],
    ids=["all", "int8 slow", "fp16 slow", "all slow", "any speed", "fp16 loses", "int8 loses"],
)
def test_each_step_up_the_ladder_has_to_pay(
    bench: Bench,
    changes: dict[str, Changes],
    times: tuple[float, ...],
    rules: dict[str, float],
    chosen: str,
    against: tuple[str, str],
) -> None:
    milliseconds = dict(zip(CLEAN, times, strict=True))
    decision = bench.decide(bench.plant(**changes), milliseconds, **rules)
    assert decision.chosen == chosen
    held: Any = decision.notes["against"]
    assert (held["fp16"], held["int8_ptq"]) == against
    speedup: Any = decision.notes["speedup"]
    for name, other in held.items():
        assert speedup[name] == pytest.approx(milliseconds[other] / milliseconds[name])
    said = reasons(decision)
    assert list(said) == list(CLEAN) and all(said.values())
    assert [name for name in said if said[name].startswith("ships: ")] == [chosen]
    assert decision.notes["milliseconds"] == milliseconds


def test_reasons_are_plain_sentences(bench: Bench) -> None:
    cards = bench.plant(**CLEAN)
    said = reasons(bench.decide(cards, {"none": 4, "fp16": 2, "int8_ptq": 1.9}))
    assert said == {
        "none": "may ship, but fp16 is smaller and 2.00 times as fast",
        "fp16": "ships: 2.00 times as fast as fp32, with 95 % confidence at most 2.20% more errors "
        "than fp32",
        "int8_ptq": "not faster: 1.053 times as fast as fp16, wanted 1.100",
    }
    said = reasons(bench.decide(cards, {"none": 4, "fp16": 5, "int8_ptq": 6}))
    assert said["none"] == "ships: no smaller candidate may"
    assert reasons(bench.decide({"none": cards["none"]}))["none"] == "ships: nothing else is here"


def test_among_rivals_losses_decide_then_speed_then_the_recipe(bench: Bench) -> None:
    def decide(times: tuple[float, float, float], **changes: Changes) -> Decision:
        cards = bench.plant(none={}, **changes)
        return bench.decide(cards, dict(zip(cards, times, strict=True)))

    one_lost: Changes = {60: (BLUE, True)}
    loses = decide((4, 1, 2), int8_ptq=one_lost, int8_qat={})
    assert loses.chosen == "int8_qat"
    assert reasons(loses)["int8_ptq"].startswith(
        "may ship, but int8_qat, as small, loses less: 0 defects, 0 good, 0 answers"
    )
    slow = decide((4, 1, 3.9), int8_ptq=one_lost, int8_qat={})
    assert slow.chosen == "int8_ptq"  # the better one is not worth its step, this one is
    faster = decide((4, 2, 1), int8_ptq={}, int8_qat={})
    assert faster.chosen == "int8_qat"
    assert reasons(faster)["int8_ptq"].endswith("as small and as good, is 2.00 times as fast")
    assert decide((4, 2, 2), int8_ptq={}, int8_qat={}).chosen == "int8_ptq"
    by_chance = decide((4, 2, 1.95), int8_ptq={}, int8_qat={})
    assert by_chance.chosen == "int8_ptq"  # another measurement might have it the other way
    even = decide((4, 2, 2), int8_qat={}, int8_ptq={})
    assert even.chosen == "int8_qat"
    assert reasons(even)["int8_ptq"].endswith("stands before it in the recipe")


def test_times_enter_no_identity_but_through_what_ships(bench: Bench) -> None:
    cards = bench.plant(**CLEAN)
    first = bench.decide(cards, {"none": 4, "fp16": 3, "int8_ptq": 2})
    again = bench.decide(cards, {"none": 4, "fp16": 3, "int8_ptq": 2})
    later = bench.decide(cards, {"none": 8.5, "fp16": 6.1, "int8_ptq": 4.3})
    assert first.to_json() == again.to_json()
    assert first.notes != later.notes and first.identity == later.identity
    other = bench.decide(cards, {"none": 4, "fp16": 3, "int8_ptq": 5})
    assert (other.chosen, other.judged) == ("fp16", first.judged)
    assert other.identity != first.identity


def test_a_decision_is_taken_again_when_what_was_timed_changes_and_not_for_other_times(
    bench: Bench,
) -> None:
    cards = bench.plant(**CLEAN)
    config = ChooseConfig(rungs=tuple(Rung(name=n, precision=PRECISIONS[n]) for n in CLEAN))

    def find_key(latency: Latency) -> str:
        inputs = {"pack": bench.pack, "device": DEVICE, "latency": latency, **cards}
        return fingerprint(Job(Stage.of(choose), "tiny/choose", config, inputs).parts())

    latency = time_engines({"none": 4, "fp16": 3, "int8_ptq": 2})
    slower = time_engines({"none": 9, "fp16": 8, "int8_ptq": 7})
    larger = latency.model_copy(update={"config": MeasureConfig(batch=8)})
    assert find_key(latency) == find_key(slower) != find_key(larger)


# The flips.


def test_every_flip_is_listed(bench: Bench) -> None:
    plain = {61: (GREEN, False), 1: (RED, True)}
    changes = {
        0: (RED, True),  # a good one is rejected
        60: (RED, False),  # a defect passes, and is called good
        100: (GREEN, True),  # another defect
    }
    decision = bench.decide(bench.plant(none=plain, int8_ptq=changes))
    flips: Any = decision.notes["flips"]
    found = [
        (flip["kind"], flip["path"], flip["part"], flip["truth"], flip["fp32"], flip["answer"])
        for flip in flips["int8_ptq"]
    ]
    assert found == [
        ("lost defect", "val/60.png", "60", "green", "green", "red"),
        ("lost good", "val/0.png", "0", "red", "red", "red"),
        ("gained defect", "val/61.png", "61", "green", "green", "green"),
        ("gained good", "val/1.png", "1", "red", "red", "red"),
        ("class", "val/100.png", "100", "blue", "blue", "green"),
    ]
    lost = flips["int8_ptq"][0]
    assert (lost["alarm_fp32"], lost["alarm"]) == (pytest.approx(0.9), pytest.approx(0.2))
    assert "none" not in flips
    judged = decision.judged[1]
    assert judged.escapes is not None and judged.overkill is not None
    assert (judged.escapes.lost, judged.escapes.gained) == (1, 1)
    assert (judged.overkill.lost, judged.overkill.gained) == (1, 1)
    assert judged.errors.lost == 2


# What is judged: pictures, parts, several labels, windows.


def by_part(row: int) -> str:
    return f"p{row // 2}"


def test_parts_are_judged_by_their_worst_picture(tmp_path: Path) -> None:
    pack = seal_pack(tmp_path, LABELS, part_of=by_part)
    bench = Bench(tmp_path, pack, make_point("part"), LABELS)
    one_of_two = bench.judge({60: (GREEN, False)})
    assert one_of_two.escapes is not None and one_of_two.errors is not None
    assert (one_of_two.escapes.lost, one_of_two.escapes.of, one_of_two.errors.of) == (0, 30, 120)
    assert one_of_two.errors.bound == pytest.approx(bound_excess(0, 0, 60), abs=1e-6)
    decision = bench.decide(
        bench.plant(none={}, int8_ptq={60: (GREEN, False), 61: (RED, False), 3: (RED, True)})
    )
    judged = decision.judged[1]
    assert (judged.lost_defects, judged.errors.lost) == (1, 1)
    assert any("1 of 30 defective parts that fp32 rejects" in said for said in judged.broken)
    flips: Any = decision.notes["flips"]
    kinds = [(flip["kind"], flip["path"], flip["part"]) for flip in flips["int8_ptq"]]
    assert kinds == [
        ("lost defect", "val/60.png", "p30"),
        ("lost good", "val/3.png", "p1"),  # the picture that made its part rejected
        ("class", "val/61.png", "p30"),
    ]
    assert flips["int8_ptq"][0]["alarm"] == pytest.approx(0.59)  # the part's, not the picture's


def test_pictures_of_few_parts_vouch_for_less(tmp_path: Path) -> None:
    pack = seal_pack(tmp_path, LABELS, part_of=lambda row: f"p{row // 10}")
    bench = Bench(tmp_path, pack, make_point(), LABELS)
    judged = bench.judge({60: (BLUE, True)})
    assert (judged.errors.lost, judged.errors.of) == (1, 120)
    assert judged.errors.bound == pytest.approx(bound_excess(0.1, 0, 12), abs=1e-6)
    assert judged.broken


def test_of_several_labels_each_class_counts_by_itself(tmp_path: Path) -> None:
    borne = [[RED]] * 60 + [[GREEN]] * 30 + [[GREEN, BLUE]] * 30
    labels = [each[-1] for each in borne]
    pack = seal_pack(tmp_path, labels, class_indices=borne)
    pack = pack.model_copy(update={"problem": "multi_label"})
    point = make_point(problem="multi_label")
    right = np.full((120, 3), 0.1, np.float32)
    for row, classes in enumerate(borne):
        right[row, classes] = 0.9
    half = right.copy()
    half[90:93, BLUE] = 0.2  # still green, still rejected
    cards = {
        "none": plant(tmp_path, pack, "none", right, point),
        "int8_ptq": plant(tmp_path, pack, "int8_ptq", half, point),
    }
    decision = Bench(tmp_path, pack, point, labels).decide(cards, margin_errors=0.5)
    judged = decision.judged[1]
    assert judged.escapes is not None
    assert (judged.errors.lost, judged.escapes.lost) == (3, 0)
    assert (judged.worst_class, judged.worst_loss, judged.worst_allowed) == ("blue", 3, 1)
    flips: Any = decision.notes["flips"]
    assert [(flip["truth"], flip["fp32"], flip["answer"]) for flip in flips["int8_ptq"]] == [
        ("green + blue", "green + blue", "green")
    ] * 3


def test_windows_are_folded_to_their_pictures(tmp_path: Path) -> None:
    def window(number: int, x: int, label: int, whole: int) -> dict[str, Any]:
        return {
            **{"path": f"{number}.png", "x": x, "y": 0, "answer": label, "label": label},
            **{"clean": label == RED, "picture_index": whole},
        }

    wholes = [RED] * 60 + [GREEN] * 60
    windows = [
        window(number, x, whole if x else RED, whole)
        for number, whole in enumerate(wholes)
        for x in (0, 16)
    ]
    boxes = [{"path": "60.png", "label": "green", "x": 20, "y": 4, "width": 8, "height": 8}]
    pack = seal_tiled_pack(tmp_path, windows, boxes, min_visible=0.3)
    bench = Bench(tmp_path, pack, make_point(), [each["label"] for each in windows])
    decision = bench.decide(bench.plant(none={}, int8_ptq={2 * 60 + 1: (RED, False)}))
    judged = decision.judged[1]
    assert judged.escapes is not None
    assert (judged.errors.of, judged.errors.lost) == (120, 1)
    assert (judged.escapes.of, judged.escapes.lost) == (60, 1)
    flips: Any = decision.notes["flips"]
    assert [(flip["kind"], flip["path"]) for flip in flips["int8_ptq"]] == [
        ("lost defect", "60.png")
    ]


# What does not belong together.


def test_cards_of_another_split_or_pack_or_rules_are_refused(bench: Bench) -> None:
    cards = bench.plant(none={}, int8_ptq={})
    assert bench.point is not None
    laxer = bench.point.model_copy(update={"rules": OperatingConfig(max_escape_rate=0.2)})
    for update, message in (
        ({"split": "test"}, "scorecard of int8_ptq is of the split test"),
        ({"pack": "another pack"}, "pack another pack"),
        ({"point": laxer}, "int8_ptq and none were fixed by different rules"),
        ({"point": None}, "int8_ptq and none were fixed by different rules"),
        ({"engine": "another"}, "what was timed is engine of int8_ptq"),
    ):
        wrong = {**cards, "int8_ptq": cards["int8_ptq"].model_copy(update=update)}
        with pytest.raises(EngineMismatch, match=message):
            bench.decide(wrong)
    with pytest.raises(EngineMismatch, match="no engine of that name"):
        bench.decide(cards, {"none": 1})


def test_a_latency_of_another_device_is_refused(bench: Bench) -> None:
    cards = bench.plant(none={})
    other = time_engines({"none": 1}, Device(device_class="cpu", model="Another"))
    config = ChooseConfig(rungs=(Rung(name="none", precision="fp32"),))
    with pytest.raises(EngineMismatch, match="another device than cpu, A Processor"):
        choose(bench.pack, DEVICE, other, config, open_workspace(bench.folder), **cards)


def test_a_candidate_cannot_be_called_as_an_input_of_the_stages() -> None:
    assert Candidate(name="pack2").label == "pack2"
    for name in ("pack", "here"):
        with pytest.raises(ValueError, match=f"'{name}' is no name for a candidate"):
            Candidate(name=name)


# The table.


def test_the_table_has_a_row_per_candidate(bench: Bench) -> None:
    decision = bench.decide(bench.plant(none={}, int8_ptq=PASSED), {"none": 4, "int8_ptq": 2})
    engine = build_engine(bench.folder, TARGET)
    tried = [
        Tried("none", "fp32", engine),
        Tried("fp16", "fp16", failed="failed to build: no such operator"),
        Tried("int8_ptq", "int8", engine),
    ]
    plain, failed, int8 = rows = list_rows(decision, tried)
    assert [row["candidate"] for row in rows] == ["none", "fp16", "int8_ptq"]
    assert len({tuple(row) for row in rows}) == 1  # the same keys
    assert [row["ships"] for row in rows] == [True, False, False]
    assert plain["bytes"] == sum(blob.size for blob in engine.files.values())
    assert (plain["milliseconds"], plain["speedup"], plain["errors_bound"]) == (4, None, 0)
    assert failed["reason"] == "failed to build: no such operator"
    assert {failed[name] for name in ("bytes", "milliseconds", "errors_lost", "escapes_of")} == {
        None
    }
    assert (int8["speedup"], int8["against"], int8["lost_defects"]) == (2, "none", 1)
    assert (int8["escapes_lost"], int8["escapes_gained"], int8["escapes_of"]) == (1, 0, 60)
    assert int8["reason"] == reasons(decision)["int8_ptq"]
    assert int8["worst_class"] is None
