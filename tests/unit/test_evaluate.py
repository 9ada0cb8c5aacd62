"""Evaluate: the scores of a network whose answers are known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from enginehouse.build.record import Engine
from enginehouse.engine import Device, load_backend
from enginehouse.errors import DataError, EngineMismatch, RecipeError
from enginehouse.evaluate.evaluate import EvaluateConfig, evaluate, score
from tests.unit.test_build import build_engine
from tests.unit.tiny_engines import CLASSES, TARGET, open_workspace, seal_pack

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


def test_scores_of_known_answers(folder: Path, engine: Engine, device: Device) -> None:
    pack = seal_pack(folder, ANSWERS, LABELS)
    here = open_workspace(folder)
    seen: list[tuple[int, int]] = []
    here.report = lambda message, done=0, total=0, **metrics: seen.append((done, total))
    card = evaluate(engine, pack, device, EvaluateConfig(good_class="red"), here)
    assert card.confusion == ((3, 1, 0), (1, 2, 1), (0, 0, 0))
    assert card.accuracy == 5 / 8 and card.num_pictures == 8 and card.pack == pack.identity
    assert card.recalls == {"red": 0.75, "green": 0.5}
    # red: precision 3/4, recall 3/4; green: precision 2/3, recall 2/4; blue does not occur.
    assert card.macro_f1 == pytest.approx((0.75 + 4 / 7) / 2)
    assert (card.escapes, card.overkill, card.num_defects, card.num_good) == (1, 1, 4, 4)
    assert seen == [(4, 8), (8, 8)]
    predictions = np.load(here.path(card, "predictions.npy"))
    assert predictions.dtype == np.float32
    assert predictions.argmax(axis=1).tolist() == ANSWERS


def test_the_same_inputs_give_the_same_scorecard(
    folder: Path, engine: Engine, device: Device
) -> None:
    pack = seal_pack(folder, ANSWERS, LABELS)
    cards = [
        evaluate(engine, pack, device, EvaluateConfig(), open_workspace(folder)) for _ in range(2)
    ]
    assert cards[0].identity == cards[1].identity
    assert cards[0].escapes is None and cards[0].num_good is None


def test_class_that_is_never_predicted_counts_as_zero() -> None:
    sure = np.eye(3, dtype=np.float32)
    fields = score(np.array([0, 1]), sure[[0, 0]], CLASSES, "")
    assert fields["macro_f1"] == pytest.approx((2 / 3 + 0) / 2)
    assert fields["recalls"] == {"red": 1.0, "green": 0.0}


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


def test_good_class_must_be_a_class(folder: Path, engine: Engine, device: Device) -> None:
    config = EvaluateConfig(good_class="gren")
    with pytest.raises(RecipeError, match="did you mean 'green'"):
        evaluate(engine, seal_pack(folder, ANSWERS), device, config, open_workspace(folder))


def test_empty_split_is_a_data_error(folder: Path, engine: Engine, device: Device) -> None:
    pack = seal_pack(folder, [])
    with pytest.raises(DataError, match="test holds no pictures"):
        evaluate(engine, pack, device, EvaluateConfig(), open_workspace(folder))


def test_index_that_does_not_fit_the_array_is_a_data_error(
    folder: Path, engine: Engine, device: Device
) -> None:
    pack = seal_pack(folder, ANSWERS)
    wrong = pack.model_copy(update={"counts": {**pack.counts, "test": 9}})
    with pytest.raises(DataError, match="lists 8 rows of test; its array holds 9"):
        evaluate(engine, wrong, device, EvaluateConfig(), open_workspace(folder))
