"""Evaluate: the scores of a network whose answers are known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from enginehouse.build.record import Engine
from enginehouse.engine import Device, load_backend
from enginehouse.errors import DataError, EngineMismatch, RecipeError
from enginehouse.evaluate.config import EvaluateConfig
from enginehouse.evaluate.defects import iter_shown, score_defects
from enginehouse.evaluate.evaluate import evaluate
from enginehouse.evaluate.record import Scorecard
from enginehouse.prepare.record import Pack
from tests.unit.test_build import build_engine
from tests.unit.tiny_engines import (
    TARGET,
    TILED,
    open_workspace,
    seal_pack,
    seal_tiled_pack,
)

ANSWERS = [0, 0, 0, 1, 1, 2, 1, 0]
LABELS = [0, 0, 1, 1, 1, 1, 0, 0]  # no picture is labelled blue, and three answers are wrong


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def engine(folder: Path) -> Engine:
    return build_engine(folder, TARGET)


@pytest.fixture(scope="module")
def device() -> Device:
    return load_backend("openvino").describe_run_device(TARGET)


def score(
    folder: Path, engine: Engine, pack: Pack, device: Device, **config: Any
) -> tuple[Scorecard, Scorecard]:
    """What the engine scores on validation and on test."""
    settings = EvaluateConfig.model_validate(config)
    validation = evaluate(engine, pack, device, settings, open_workspace(folder))
    here = open_workspace(folder)
    return validation, evaluate(engine, pack, device, settings, here, validation)


def test_scores_of_known_answers(folder: Path, engine: Engine, device: Device) -> None:
    pack = seal_pack(folder, ANSWERS, LABELS)
    here = open_workspace(folder)
    seen: list[tuple[int, int]] = []
    here.report = lambda message, done=0, total=0, **metrics: seen.append((done, total))
    card = evaluate(engine, pack, device, EvaluateConfig(good_class="red"), here)
    assert (card.split, card.engine, card.pack) == ("val", engine.identity, pack.identity)
    assert card.confusion == ((3, 1, 0), (1, 2, 1), (0, 0, 0))
    assert (card.accuracy, card.num_pictures, card.num_parts) == (5 / 8, 8, 8)
    assert card.recalls == {"red": 0.75, "green": 0.5}
    # red: precision 3/4, recall 3/4; green: precision 2/3, recall 2/4; blue does not occur.
    assert card.macro_f1 == pytest.approx((0.75 + 4 / 7) / 2)
    green = card.class_scores["green"]
    assert (green.support, green.precision, green.recall) == (4, 2 / 3, 0.5)
    assert card.class_scores["blue"].recall is None
    assert card.intervals["macro_f1"].low < card.macro_f1 < card.intervals["macro_f1"].high
    assert seen == [(4, 8), (8, 8)]
    predictions = np.load(here.path(card, "predictions.npy"))
    assert predictions.dtype == np.float32
    assert predictions.argmax(axis=1).tolist() == ANSWERS


def test_point_is_fixed_on_validation_and_holds_on_test(
    folder: Path, engine: Engine, device: Device
) -> None:
    pack = seal_pack(folder, [0] * 6 + [1] * 6, part_of=lambda row: str(row // 2))
    validation, test = score(folder, engine, pack, device, good_class="red")
    assert test.split == "test" and test.point == validation.point is not None
    assert test.notes["operating"] == validation.notes["operating"]
    assert "0 of 6 defective pictures" in str(test.notes["operating"])
    for outcome, num in ((test.pictures, 6), (test.parts, 3)):
        assert outcome is not None and outcome.escapes is not None and outcome.overkill is not None
        assert (outcome.escapes.num, outcome.escapes.of) == (0, num)
        assert (outcome.overkill.num, outcome.overkill.of) == (0, num)
    assert test.num_parts == 6 and test.outcome == test.pictures
    assert test.masked is not None and validation.masked is None
    assert (test.masked.holes, test.masked.side) == (8, 2)  # a seventh of 16 px
    assert test.masked.recalls == {"red": 1, "green": 1}
    assert test.masked.escapes is not None and test.masked.escapes.num == 0
    _, unmasked = score(folder, engine, pack, device, masking={"holes": 0})
    assert unmasked.masked is None


def test_large_holes_cost_recall(folder: Path, engine: Engine, device: Device) -> None:
    pack = seal_pack(folder, [0] * 6 + [1] * 6)
    masking = {"holes": 64, "side": 0.5}  # little of a picture is left
    _, test = score(folder, engine, pack, device, good_class="red", masking=masking)
    assert test.masked is not None
    assert test.accuracy == 1
    assert sum(test.masked.recalls.values()) < 2
    assert test.masked.macro_f1 < 1


def test_point_of_another_engine_or_pack_is_refused(
    folder: Path, engine: Engine, device: Device
) -> None:
    pack, config = seal_pack(folder, ANSWERS, LABELS), EvaluateConfig()
    other = seal_pack(folder, ANSWERS)
    validation, test = score(folder, engine, pack, device)
    for wrong in (test, validation.model_copy(update={"engine": "another"})):
        with pytest.raises(EngineMismatch, match="this engine on this pack's validation split"):
            evaluate(engine, pack, device, config, open_workspace(folder), wrong)
    with pytest.raises(EngineMismatch, match="this pack's"):
        evaluate(engine, other, device, config, open_workspace(folder), validation)


def test_slices_are_cut_by_columns_of_the_index(
    folder: Path, engine: Engine, device: Device
) -> None:
    modes = ["RGB"] * 4 + ["L"] * 4
    pack = seal_pack(folder, ANSWERS, LABELS, mode=modes)
    validation, test = score(folder, engine, pack, device, slices=("mode",))
    assert [(each.value, each.num_pictures) for each in test.slices] == [("L", 4), ("RGB", 4)]
    assert not validation.shorten().slices and validation.slices
    with pytest.raises(RecipeError, match=r"did you mean 'mode'"):
        score(folder, engine, pack, device, slices=("modes",))


def test_a_scorecard_for_a_tag_does_not_grow_with_the_classes(
    folder: Path, engine: Engine, device: Device
) -> None:
    pack = seal_pack(folder, ANSWERS, LABELS)
    _, card = score(folder, engine, pack, device, good_class="red")
    short = card.shorten()
    assert short.outcome is not None and card.outcome is not None
    assert short.outcome.escapes == card.outcome.escapes is not None
    assert "green" in card.outcome.escapes_by_class
    told = short.model_dump(exclude={"classes"})
    assert "green" not in str(told) and "blue" not in str(told)


def test_a_scorecard_comes_back_from_its_text(folder: Path, engine: Engine, device: Device) -> None:
    pack = seal_pack(folder, [0] * 4 + [1] * 4)
    for card in score(folder, engine, pack, device, good_class="red"):
        assert Scorecard.from_json(card.to_json()) == card


def test_the_same_inputs_give_the_same_scorecard(
    folder: Path, engine: Engine, device: Device
) -> None:
    pack = seal_pack(folder, ANSWERS, LABELS)
    cards = [score(folder, engine, pack, device)[1] for _ in range(2)]
    assert cards[0].identity == cards[1].identity
    assert cards[0].point is None and cards[0].outcome is None and cards[0].pictures is None


def test_tiled_pack_is_scored_by_defects_and_by_folded_pictures(
    folder: Path, device: Device
) -> None:
    red, green, blue = range(3)
    windows = [
        # a.png, 32 x 32: one of two defects is found.
        {"path": "a.png", "x": 0, "y": 0, "answer": green, "label": green, "clean": False},
        {"path": "a.png", "x": 16, "y": 0, "answer": red, "label": red, "clean": False},
        {"path": "a.png", "x": 0, "y": 16, "answer": red, "label": red, "clean": True},
        {"path": "a.png", "x": 16, "y": 16, "answer": red, "label": green, "clean": False},
        # b.png, 32 x 16: good, and one false alarm.
        {"path": "b.png", "x": 0, "y": 0, "answer": red, "label": red, "clean": True},
        {"path": "b.png", "x": 16, "y": 0, "answer": blue, "label": red, "clean": True},
    ]
    truth = {"a.png": green, "b.png": red}
    windows = [{**row, "picture_index": truth[row["path"]]} for row in windows]
    boxes = [  # the first reaches into the next window, with less than half of it
        {"path": "a.png", "label": "green", "x": 4, "y": 4, "width": 20, "height": 8},
        {"path": "a.png", "label": "green", "x": 20, "y": 20, "width": 4, "height": 4},
        {"path": "a.png", "label": "red", "x": 2, "y": 20, "width": 4, "height": 4},
    ]
    pack = seal_tiled_pack(folder, windows, boxes, min_visible=0.5)
    engine = build_engine(folder, TARGET, TILED)
    here = open_workspace(folder)
    card = evaluate(engine, pack, device, EvaluateConfig(), here)
    assert len(np.load(here.path(card, "predictions.npy"))) == len(windows)
    assert card.num_pictures == 2
    assert card.confusion == ((0, 0, 1), (0, 1, 0), (0, 0, 0))
    assert card.point is not None and card.point.good == "red"
    assert card.pictures is not None and card.pictures.escapes is not None
    assert (card.pictures.escapes.num, card.pictures.escapes.of) == (0, 1)
    assert card.defects is not None
    assert (card.defects.num_boxes, card.defects.num_windows, card.defects.num_clean) == (2, 6, 3)
    assert card.defects.clean_megapixels == pytest.approx(3 * 256 / 1e6)
    assert card.defects.recall == 0.5
    assert card.defects.false_alarms == pytest.approx(1 / (3 * 256 / 1e6))
    assert [point.limit for point in card.defects.points] == [0.1, 0.3, 1, 3]


def test_recall_at_false_alarms_per_megapixel() -> None:
    # Ten clean windows of a megapixel each, then four with a defect.
    alarms = np.array([0.9, 0.8, 0.7, 0.6, 0.4, 0.3, 0.2, 0.1, 0.1, 0.1, 0.95, 0.75, 0.65, 0.05])
    windows = pd.DataFrame(
        {"path": [f"{row}.png" for row in range(14)], "clean": [True] * 10 + [False] * 4}
    ).assign(x=0, y=0, width=1000, height=1000)
    boxes = windows[10:].assign(width=50, height=50)
    found = score_defects(windows, boxes, alarms, alarms > 0.5, min_visible=0.5)
    assert found is not None
    assert (found.num_boxes, found.num_clean, found.clean_megapixels) == (4, 10, 10)
    assert (found.recall, found.false_alarms) == (0.75, 0.4)
    # 1, 3, 10 and 30 of the ten clean windows may alarm.
    assert {point.limit: point.recall for point in found.points} == {
        **{0.1: 0.25, 0.3: 0.75},
        **{1: 1, 3: 1},
    }
    assert [point.threshold for point in found.points] == pytest.approx([0.8, 0.6, 0, 0])


def test_no_defect_gives_no_defect_scores() -> None:
    windows = pd.DataFrame({"path": ["a.png"], "clean": True}).assign(x=0, y=0, width=9, height=9)
    boxes = pd.DataFrame([("b.png", 1, 1, 2, 2)], columns=["path", "x", "y", "width", "height"])
    assert score_defects(windows, boxes, np.ones(1), np.ones(1, bool), 0.5) is None


def test_windows_of_a_defect() -> None:
    """Those that show enough of it; of one that none shows enough, those that show most."""
    windows = pd.DataFrame({"path": "a.png", "x": [0, 10, 20, 30], "y": 0}).assign(
        width=16, height=16
    )
    boxes = pd.DataFrame(
        [("a.png", 11, 0, 4, 4), ("a.png", 5, 0, 36, 4), ("a.png", 60, 0, 4, 4)],
        columns=["path", "x", "y", "width", "height"],
    )
    rows = [rows.tolist() for _, rows in iter_shown(windows, boxes, min_visible=0.5)]
    assert rows == [[0, 1], [1, 2], []]


def test_device_record_of_another_machine_is_refused(
    folder: Path, engine: Engine, device: Device
) -> None:
    other = device.model_copy(update={"model": "Another CPU"})
    pack = seal_pack(folder, ANSWERS)
    with pytest.raises(EngineMismatch, match="to run on cpu, Another CPU"):
        evaluate(engine, pack, other, EvaluateConfig(), open_workspace(folder))


def test_pack_of_other_classes_is_refused(folder: Path, engine: Engine, device: Device) -> None:
    pack = seal_pack(folder, ANSWERS).model_copy(update={"classes": ("cat", "dog", "owl")})
    with pytest.raises(EngineMismatch, match="the pack holds cat, dog, owl"):
        evaluate(engine, pack, device, EvaluateConfig(), open_workspace(folder))


def test_pack_of_another_preparation_is_refused(
    folder: Path, engine: Engine, device: Device
) -> None:
    pack = seal_pack(folder, ANSWERS).model_copy(update={"preparation": TILED.preparation})
    with pytest.raises(EngineMismatch, match=r"tiles=None .* of the pack .* tiles=Tiling"):
        evaluate(engine, pack, device, EvaluateConfig(), open_workspace(folder))


def test_good_class_must_be_a_class(folder: Path, engine: Engine, device: Device) -> None:
    config = EvaluateConfig(good_class="gren")
    with pytest.raises(RecipeError, match="did you mean 'green'"):
        evaluate(engine, seal_pack(folder, ANSWERS), device, config, open_workspace(folder))


def test_class_limits_must_name_defect_classes(
    folder: Path, engine: Engine, device: Device
) -> None:
    pack = seal_pack(folder, ANSWERS)
    with pytest.raises(RecipeError, match=r"class_limits blu .*\n.*did you mean 'blue'"):
        score(folder, engine, pack, device, operating={"class_limits": {"blu": 0}})
    with pytest.raises(RecipeError, match="red, the good class"):
        limits = {"class_limits": {"red": 0}}
        score(folder, engine, pack, device, good_class="red", operating=limits)


def test_empty_split_is_a_data_error(folder: Path, engine: Engine, device: Device) -> None:
    pack = seal_pack(folder, [])
    with pytest.raises(DataError, match="val holds no pictures"):
        evaluate(engine, pack, device, EvaluateConfig(), open_workspace(folder))


def test_index_that_does_not_fit_the_array_is_a_data_error(
    folder: Path, engine: Engine, device: Device
) -> None:
    pack = seal_pack(folder, ANSWERS)
    wrong = pack.model_copy(update={"counts": {**pack.counts, "val": 9}})
    with pytest.raises(DataError, match="lists 8 rows of val; its shards hold 9"):
        evaluate(engine, wrong, device, EvaluateConfig(), open_workspace(folder))
