"""Uneven classes: weighed or drawn evenly where that is needed, and refused where one is empty."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from enginehouse.errors import TrainingError
from enginehouse.train.balance import Balance, draw_evenly, find_balance
from enginehouse.train.splits import Split, read_split
from tests.unit.tiny_pack import CLASSES, open_workspace, seal_pack, train_tiny

UNEVEN = [0] * 24 + [1] * 8 + [2] * 8


def make_split(folder: Path, labels: Sequence[int]) -> Split:
    return read_split(seal_pack(folder, train_labels=labels), "train", open_workspace(folder))


def test_weights_make_all_classes_alike(tmp_path: Path) -> None:
    split = make_split(tmp_path, UNEVEN)
    balance = find_balance(split, CLASSES, "weights", 1.5)
    assert balance.way == "weights"
    assert balance.weights == pytest.approx([40 / 72, 40 / 24, 40 / 24])
    assert balance.draw_order(split, 0, 1) is None


def test_weights_go_by_all_that_a_picture_bears(tmp_path: Path) -> None:
    """Twelve pictures, of which each has the first class, and three have the third."""
    targets = np.array([[1, 0, 0], [1, 1, 0], [1, 1, 0], [1, 0, 1]] * 3, np.float32)
    split = make_split(tmp_path, [0] * 12)
    several = Split(split.pictures, split.rows, split.labels, targets, split.names)
    weights = find_balance(several, CLASSES, "weights", 1.5).weights
    assert weights == pytest.approx([21 / 36, 21 / 18, 21 / 9])


@pytest.mark.parametrize("way", ["weights", "sampler"])
def test_classes_that_are_even_enough_are_left_alone(tmp_path: Path, way: str) -> None:
    split = make_split(tmp_path, UNEVEN)
    assert find_balance(split, CLASSES, way, 3) == Balance("none")  # type: ignore[arg-type]


def test_a_class_without_pictures_is_refused(tmp_path: Path) -> None:
    split = make_split(tmp_path, [0, 1] * 8)
    with pytest.raises(TrainingError, match="no picture of blue"):
        find_balance(split, CLASSES, "none", 1.5)


def test_drawn_evenly_each_class_comes_equally_often(tmp_path: Path) -> None:
    split = make_split(tmp_path, UNEVEN)
    balance = find_balance(split, CLASSES, "sampler", 1.5)
    orders = [balance.draw_order(split, 0, epoch) for epoch in (1, 2)]
    for order in orders:
        assert order is not None
        assert sorted(np.bincount(split.labels[order]).tolist()) == [13, 13, 14]
    again = balance.draw_order(split, 0, 1)
    assert np.array_equal(again, orders[0])
    assert not np.array_equal(orders[0], orders[1])


def test_no_row_comes_again_before_all_of_its_class_came() -> None:
    labels = np.array(UNEVEN)
    times = Counter(draw_evenly(labels, 5).tolist())
    assert {times[row] for row in range(24)} == {0, 1}
    for rows in (range(24, 32), range(32, 40)):
        assert {times[row] for row in rows} == {1, 2}


def test_over_some_epochs_every_row_is_seen() -> None:
    labels = np.array(UNEVEN)
    seen = {row for seed in range(12) for row in draw_evenly(labels, seed).tolist()}
    assert seen == set(range(40))


def test_the_record_says_what_was_done(tmp_path: Path) -> None:
    pack = seal_pack(tmp_path, train_labels=UNEVEN)
    weighed = train_tiny(tmp_path, pack, epochs=1)
    drawn = train_tiny(tmp_path, pack, epochs=1, balance="sampler")
    assert weighed.notes["balance"] == "weights"
    assert weighed.notes["class_weights"] == pytest.approx([40 / 72, 40 / 24, 40 / 24])
    assert (drawn.notes["balance"], drawn.notes["class_weights"]) == ("sampler", None)
    assert drawn.files != weighed.files
