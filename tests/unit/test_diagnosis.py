"""The diagnosis of a training: each symptom from rows that show it, none from a healthy one."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from enginehouse.train.config import TrainConfig
from enginehouse.train.diagnosis import Course, diagnose

UNTRAINED = math.log(6)
EPOCHS = 12

Change = Callable[[int], dict[str, float]]


def course(change: Change = lambda epoch: {}, **fields: Any) -> Course:
    """A training that went well, whose rows `change` alters epoch by epoch."""
    rows = []
    for epoch in range(1, EPOCHS + 1):
        row = {
            "epoch": float(epoch),
            "loss": 0.06 + 1.3 * 0.6**epoch,
            "val_loss": 0.12 + 1.4 * 0.6**epoch,
            "accuracy": 0.97 - 0.5 * 0.5**epoch,
            "macro_f1": 0.96 - 0.5 * 0.5**epoch,
            "grad_norm": 0.8,
            "clipped": 0.3,
            "skipped": 0.02 if epoch == 1 else 0.0,
            "data_wait": 0.4 if epoch == 1 else 0.01,  # the first batch is always waited for
            "images_per_s": 150.0,
            "learning_rate": 1e-3,
            **change(epoch),
        }
        rows.append(row)
    config = TrainConfig(epochs=EPOCHS, precision="fp32")
    usual = {"best_epoch": 10, "untrained_loss": UNTRAINED, "num_val": 400, "config": config}
    return Course(rows, **{**usual, **fields})


def test_healthy_training_has_no_finding() -> None:
    assert diagnose(course()) == []
    assert diagnose(course(lambda epoch: {"memory_share": 0.97, "memory_mib": 9e4})) == []
    assert diagnose(course(num_val=24)) == []


@pytest.mark.parametrize(
    ("change", "symptom", "evidence", "field"),
    [
        (
            lambda epoch: {"val_loss": 0.3 + 0.05 * epoch},
            *("overfitting", "validation loss is 0.9, the training loss 0.0628", "train.augment"),
        ),
        (
            lambda epoch: {"loss": UNTRAINED - 0.001 * epoch, "val_loss": UNTRAINED},
            *("nothing was learnt", "an untrained network is 1.79", "train.learning_rate"),
        ),
        (
            lambda epoch: {"loss": 0.2 if epoch < 8 else 0.2 * (epoch - 5), "val_loss": 0.3},
            *("the training loss rises", "from 0.2 in epoch 1 to 1.4 in epoch 12"),
            "train.learning_rate (now 0.001)",
        ),
        (
            lambda epoch: {"clipped": 1.0, "grad_norm": 4.0},
            *("the gradient is always clipped", "in 100% of the later steps its norm, 4"),
            "train.clip_norm to about 8",
        ),
        (
            lambda epoch: {"data_wait": 0.23},
            *("training waits for data", "23% of the time", "train.workers (now 0)"),
        ),
        (
            lambda epoch: {"data_wait": 0.23, "memory_share": 0.95},
            "the device idles although its memory is full",
            *("23% of the time; 95% of the memory", "train.workers (now 0)"),
        ),
        (
            lambda epoch: {"skipped": 0.2},
            *("steps are skipped", "in 20% of the steps", "train.precision"),
        ),
    ],
)
def test_each_symptom_is_told_with_its_numbers_and_a_field(
    change: Change, symptom: str, evidence: str, field: str
) -> None:
    found = diagnose(course(change))
    assert [each.symptom for each in found] == [symptom]
    assert evidence in found[0].evidence
    assert field in found[0].remedy


def test_a_score_that_still_rises_wants_more_epochs() -> None:
    def rising(epoch: int) -> dict[str, float]:
        return {"macro_f1": 0.5 + 0.02 * epoch}

    found = diagnose(course(rising, best_epoch=EPOCHS))
    assert [each.symptom for each in found] == ["it was still getting better"]
    assert "the last 2 epochs brought 0.040" in found[0].evidence
    assert "train.epochs (now 12)" in found[0].remedy
    longer = TrainConfig(epochs=30, precision="fp32")
    assert diagnose(course(rising, best_epoch=EPOCHS, config=longer)) == []  # it stopped early
    assert diagnose(course(best_epoch=EPOCHS)) == []  # the last is best, by next to nothing


def test_noise_is_told_of_few_pictures_only() -> None:
    def noisy(epoch: int) -> dict[str, float]:
        return {"macro_f1": 0.9 if epoch % 2 else 0.8}

    found = diagnose(course(noisy, num_val=24, best_epoch=1))
    assert [each.symptom for each in found] == ["the validation score is noisy"]
    assert "on 24 pictures" in found[0].evidence
    assert "prepare.val_share" in found[0].remedy
    assert diagnose(course(noisy, num_val=400, best_epoch=1)) == []


def test_the_first_epoch_alone_is_no_evidence() -> None:
    whole = course()
    first = Course(whole.rows[:1], 1, UNTRAINED, 400, TrainConfig(epochs=1, warmup_epochs=0.5))
    assert [each.symptom for each in diagnose(first)] == ["training waits for data"]


def test_a_missing_validation_loss_is_no_evidence() -> None:
    rows = [{k: v for k, v in row.items() if k != "val_loss"} for row in course().rows]
    assert diagnose(Course(rows, 10, UNTRAINED, 400, course().config)) == []
