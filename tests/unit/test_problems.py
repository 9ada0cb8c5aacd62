"""The problems: what becomes of labels and logits, scores as scikit-learn has them, a third one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    precision_recall_fscore_support,
)

from enginehouse import problems
from enginehouse.artifact import Workspace
from enginehouse.choices import load_choice
from enginehouse.errors import RecipeError
from enginehouse.export.export import ExportConfig, export
from enginehouse.ingest.ingest import IngestConfig, ingest
from enginehouse.ingest.record import DataVersion, Manifest
from enginehouse.prepare.config import PrepareConfig
from enginehouse.prepare.prepare import prepare
from enginehouse.quantize.quantize import quantize
from enginehouse.quantize.record import QuantizeConfig
from enginehouse.recipe import Recipe, check_recipe
from enginehouse.stage import Job, Stage
from enginehouse.train.config import LossConfig
from enginehouse.train.loss import check_loss
from enginehouse.validate.validate import ValidateConfig, validate
from tests.unit.tiny_pack import CLASSES, TINY, draw, open_workspace, seal_pack, train_tiny

SINGLE: Any = load_choice("problems", "single_label")
MULTI: Any = load_choice("problems", "multi_label")
NAMES = ("a", "b", "c", "d", "never")


def _compare(quality: Any, truth: Any, said: Any, probabilities: Any) -> None:
    """With scikit-learn, class by class."""
    numbers = precision_recall_fscore_support(truth, said, average=None, zero_division=0)
    for index, (name, score) in enumerate(quality.classes.items()):
        precision, recall, f1, support = (column[index] for column in numbers)
        assert score.support == support
        if support == 0:
            assert (score.recall, score.f1, score.average_precision) == (None, None, None), name
            continue
        assert (score.precision or 0.0) == pytest.approx(precision, abs=1e-12)
        assert score.recall == pytest.approx(recall, abs=1e-12)
        assert score.f1 == pytest.approx(f1, abs=1e-12)
        average = average_precision_score(truth[:, index], probabilities[:, index])
        assert score.average_precision == pytest.approx(average, abs=1e-6)
    occurs = truth.sum(axis=0) > 0
    assert quality.macro_f1 == pytest.approx(numbers[2][occurs].mean(), abs=1e-12)
    assert quality.accuracy == pytest.approx(accuracy_score(truth, said), abs=1e-12)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_scores_of_one_label_are_those_of_scikit_learn(seed: int) -> None:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 4, 200)
    logits = rng.normal(size=(200, 5)) + 1.5 * np.eye(5)[labels]
    logits[:, 4] += 1  # said of some, though none is of that class
    # Rounded, so that there are ties among the probabilities.
    probabilities = torch.from_numpy(logits).softmax(1).numpy().round(2).astype(np.float32)
    truth = SINGLE.encode([[label] for label in labels], 5)
    quality = SINGLE.score(truth, probabilities, NAMES)
    said = np.eye(5, dtype=int)[probabilities.argmax(axis=1)]
    _compare(quality, truth.astype(int), said, probabilities)
    assert quality.classes["never"].precision == 0
    assert quality.accuracy == (probabilities.argmax(axis=1) == labels).mean()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_scores_of_several_labels_are_those_of_scikit_learn(seed: int) -> None:
    rng = np.random.default_rng(seed)
    labels = [np.flatnonzero(row) for row in rng.random((200, 4)) < 0.4]
    truth = MULTI.encode(labels, 5)
    logits = rng.normal(size=(200, 5)) + 1.5 * truth
    probabilities = torch.from_numpy(logits).sigmoid().numpy().round(2).astype(np.float32)
    quality = MULTI.score(truth, probabilities, NAMES)
    _compare(quality, truth.astype(int), (probabilities >= 0.5).astype(int), probabilities)


def test_several_labels_become_targets_and_decisions() -> None:
    assert MULTI.encode([[0, 2], [], [1]], 3).tolist() == [[1, 0, 1], [0, 0, 0], [0, 1, 0]]
    smoothed = MULTI.smooth(torch.tensor([[1.0, 0.0]]), 0.2)
    assert smoothed.tolist() == [[pytest.approx(0.9), pytest.approx(0.1)]]
    assert MULTI.activate(torch.tensor([[0.0, 100.0, -100.0]])).tolist() == [[0.5, 1.0, 0.0]]
    probabilities = np.array([[0.5, 0.7, 0.1], [0.4, 0.4, 0.4]], np.float32)
    assert MULTI.decide(probabilities).tolist() == [[True, True, False], [False, False, False]]


def test_any_sure_defect_raises_the_alarm_whatever_is_said_of_good() -> None:
    probabilities = np.array([[0.9, 0.1, 0.8], [0.1, 0.2, 0.1], [1.0, 0.0, 0.0]], np.float32)
    assert MULTI.measure_alarm(probabilities, 0).tolist() == pytest.approx([0.8, 0.2, 0.0])


def test_very_sure_answers_of_one_label_still_differ_in_alarm() -> None:
    probabilities = np.array([[1.0, 1e-12], [1.0, 1e-15]], np.float32)
    alarm = SINGLE.measure_alarm(probabilities, 0)
    assert alarm[0] > alarm[1] > 0


def test_a_third_problem_is_one_module_and_one_entry_in_the_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the recipe to the served graph, with nothing else written for it."""
    monkeypatch.setitem(problems.CHOICES, "graded", "tests.unit.graded_problem")
    recipe = {
        "name": "grades",
        "data": {"path": "x"},
        "ingest": {"problem": "graded"},
        "train": {"model": TINY, "loss": {"name": "bce"}},
    }
    check_recipe(Recipe.model_validate(recipe))
    with pytest.raises(RecipeError, match="cross_entropy does not fit the problem graded"):
        check_recipe(Recipe.model_validate({**recipe, "train": {"model": TINY}}))

    pack = seal_pack(tmp_path, problem="graded")
    model = train_tiny(tmp_path, pack, epochs=8, loss={"name": "bce"})
    assert model.problem == "graded"
    assert model.val_macro_f1 > 0.8
    here: Workspace = open_workspace(tmp_path)
    plain = quantize(model, pack, QuantizeConfig(quantizer="none"), open_workspace(tmp_path))
    onnx = export(plain, model, pack, DataVersion(digest="d"), ExportConfig(), here)
    session = onnxruntime.InferenceSession(here.path(onnx, "model.onnx"))
    (probabilities,) = session.run(None, {"pictures": draw([0, 1, 2] * 8, 7)})
    grades = load_choice("problems", "graded").decide(probabilities).argmax(axis=1)
    assert (grades == [0, 1, 2] * 8).mean() > 0.8
    assert (probabilities[:, 0] > 0.5).all()  # every grade holds the lowest
    assert onnx.contract.problem == "graded"
    assert onnx.contract.classes == CLASSES


def test_a_loss_that_does_not_fit_names_those_that_do() -> None:
    with pytest.raises(
        RecipeError, match="cross_entropy does not fit the problem multi_label"
    ) as e:
        check_loss(LossConfig(), "multi_label")
    assert "bce, focal, mse, l1, huber" in str(e.value)
    check_loss(LossConfig(name="bce"), "multi_label")


def test_tiles_are_refused_where_a_picture_may_bear_several_labels() -> None:
    recipe = Recipe.model_validate(
        {
            "name": "tiled",
            "data": {"path": "x"},
            "ingest": {"problem": "multi_label"},
            "prepare": {"tiles": {"size": 64}},
            "train": {"loss": {"name": "bce"}},
        }
    )
    assert recipe.problem == "multi_label"
    with pytest.raises(
        RecipeError, match=r"prepare\.tiles does not go with the problem multi_label"
    ):
        check_recipe(recipe)


def test_reading_labels_does_not_hang_on_what_a_network_makes_of_them() -> None:
    data = DataVersion(digest="d")
    manifest = Manifest(
        format="csv",
        problem="multi_label",
        classes=("pit",),
        labels=("pit",),
        label_ids={},
        good="",
        num_rows=1,
        num_boxes=0,
        num_quarantined=0,
        num_errors=0,
    )
    jobs = [
        Job(Stage.of(ingest), "r/ingest", IngestConfig(problem="multi_label"), {"data": data}),
        Job(Stage.of(validate), "r/validate", ValidateConfig(), {"manifest": manifest}),
        Job(Stage.of(prepare), "r/prepare", PrepareConfig(), {"manifest": manifest}),
    ]
    for job in jobs:
        parts = job.parts()
        assert not {"torch", "torchmetrics"} & parts["libraries"].keys()
        named = {n: v for n, v in parts["code"].items() if n.startswith("enginehouse.problems.")}
        assert named == {"enginehouse.problems.multi_label.SEVERAL_LABELS": "True"}
