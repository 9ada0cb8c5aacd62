"""Batches: the same ones however many processes read, and nothing left behind."""

from __future__ import annotations

import multiprocessing
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from enginehouse.prepare.record import Pack
from enginehouse.train.augment import AugmentConfig
from enginehouse.train.batches import Feed, count_batches, shuffle_rows
from enginehouse.train.splits import Split, read_split
from tests.unit.tiny_pack import open_workspace, seal_pack, train_tiny

CPU = torch.device("cpu")
Pairs = list[tuple[torch.Tensor, torch.Tensor]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("batches")


@pytest.fixture(scope="module")
def pack(folder: Path) -> Pack:
    return seal_pack(folder)


@pytest.fixture
def train(pack: Pack, folder: Path) -> Split:
    return read_split(pack, "train", open_workspace(folder))


def run(feed: Feed, split: Split) -> Pairs:
    """A pass that is given up, and two rounds of training and scoring."""
    generator = torch.Generator().manual_seed(3)
    batches = [next(feed.shuffled(split, 16, AugmentConfig(), generator))]
    for _ in range(2):
        batches += feed.shuffled(split, 16, AugmentConfig(), generator)
        batches += feed.in_order(split, 20)
    return batches


def test_the_batches_are_the_same_however_many_processes_read(pack: Pack, train: Split) -> None:
    alone = run(Feed(pack.mean, pack.std, CPU), train)
    feed = Feed(pack.mean, pack.std, CPU, num_workers=2)
    torch.manual_seed(7)
    together = run(feed, train)
    drawn = torch.rand(2)
    torch.manual_seed(7)
    assert torch.equal(torch.rand(2), drawn), "reading drew from torch's own generator"
    assert len(multiprocessing.active_children()) == 2
    feed.close()
    assert not multiprocessing.active_children()
    assert len(alone) == len(together) == 1 + 2 * (5 + 4)
    for (inputs, labels), (others, their) in zip(alone, together, strict=True):
        assert torch.equal(inputs, others)
        assert torch.equal(labels, their)


def test_training_gives_the_same_weights_however_many_processes_read(
    pack: Pack, folder: Path
) -> None:
    alone = train_tiny(folder, pack, epochs=1)
    assert train_tiny(folder, pack, epochs=1, workers=1).identity == alone.identity


def test_every_picture_comes_once_with_its_label(pack: Pack, train: Split) -> None:
    feed = Feed((0, 0, 0), (1, 1, 1), CPU)
    still = AugmentConfig(flip_horizontal=False, shift=0, brightness=0)
    seen = list(feed.shuffled(train, 16, still, torch.Generator().manual_seed(0)))
    pictures = (torch.cat([inputs for inputs, _ in seen]) * 255).round().to(torch.uint8).numpy()
    order = {picture.tobytes(): row for row, picture in enumerate(train.pictures)}
    rows = [order[picture.tobytes()] for picture in pictures]
    assert sorted(rows) == list(range(len(train))) != rows
    assert torch.cat([labels for _, labels in seen]).tolist() == train.labels[rows].tolist()


def test_another_process_is_sent_places_and_not_pictures(train: Split) -> None:
    sent = pickle.dumps(train)
    assert len(sent) < 5_000 < train.pictures.shape[0] * 3 * 32 * 32
    assert np.array_equal(pickle.loads(sent).pictures[:], train.pictures[:])


@pytest.mark.parametrize(("num_rows", "sizes"), [(9, [4, 5]), (10, [4, 4, 2]), (1, [1]), (4, [4])])
def test_no_batch_of_one_is_left_over(num_rows: int, sizes: list[int]) -> None:
    batches = shuffle_rows(num_rows, 4, torch.Generator().manual_seed(0))
    assert [len(batch) for batch in batches] == sizes
    assert count_batches(num_rows, 4) == len(sizes)
    assert sorted(np.concatenate(batches)) == list(range(num_rows))
