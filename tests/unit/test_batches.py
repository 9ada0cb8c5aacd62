"""Batches: the same ones however many processes read or train, and nothing left behind."""

from __future__ import annotations

import dataclasses
import multiprocessing
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from enginehouse.errors import TrainingError
from enginehouse.prepare.record import Pack
from enginehouse.train.augment import AugmentConfig
from enginehouse.train.batches import Batch, Feed, count_batches, shuffle_rows
from enginehouse.train.network import normalise
from enginehouse.train.reader import Reader
from enginehouse.train.splits import Split, read_split
from enginehouse.train.world import World
from tests.unit.odd_pictures import Broken, Deadly, Fine, Hanging, Huge, Slow
from tests.unit.tiny_pack import open_workspace, seal_pack, train_tiny

CPU = torch.device("cpu")
ALONE = World(0, 1, CPU)
STILL = AugmentConfig(flip_horizontal=False, shift=0, brightness=0)
EVERYTHING = AugmentConfig(
    flip_vertical=True,
    angles=(0, 90, 5),
    scale=(0.8, 1.2),
    contrast=0.2,
    noise=4,
    cutout=2,
    rand_augment=1,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("batches")


@pytest.fixture(scope="module")
def pack(folder: Path) -> Pack:
    return seal_pack(folder)


@pytest.fixture
def train(pack: Pack, folder: Path) -> Split:
    return read_split(pack, "train", open_workspace(folder))


@pytest.fixture(autouse=True)
def _nobody_is_left() -> Iterator[None]:
    yield
    assert not multiprocessing.active_children()


def make_feed(pack: Pack, world: World = ALONE, num_workers: int = 0, seed: int = 3) -> Feed:
    return Feed(pack.mean, pack.std, seed, world, num_workers)


def run(feed: Feed, split: Split) -> list[Batch]:
    """A pass that is given up, and two rounds of training and scoring."""
    batches = [next(feed.shuffled(split, 1, 0, 16, EVERYTHING))]
    for epoch in (1, 2):
        batches += feed.shuffled(split, epoch, 0, 16, EVERYTHING)
        batches += feed.in_order(split, 20)
    return batches


def test_the_batches_are_the_same_however_many_processes_read(pack: Pack, train: Split) -> None:
    alone = run(make_feed(pack), train)
    feed = make_feed(pack, num_workers=2)
    torch.manual_seed(7)
    together = run(feed, train)
    drawn = torch.rand(2)
    torch.manual_seed(7)
    assert torch.equal(torch.rand(2), drawn), "reading drew from torch's own generator"
    assert len(multiprocessing.active_children()) == 2
    feed.close()
    assert not multiprocessing.active_children()
    assert len(alone) == len(together) == 1 + 2 * (5 + 4)
    for one, other in zip(alone, together, strict=True):
        assert torch.equal(one.inputs, other.inputs)
        assert torch.equal(one.targets, other.targets)
        assert one.names == other.names


def test_the_pictures_are_the_same_however_many_processes_train(pack: Pack, train: Split) -> None:
    alone = make_feed(pack).shuffled(train, 1, 0, 20, EVERYTHING)
    ranks = [
        make_feed(pack, World(rank, 3, CPU)).shuffled(train, 1, 0, 20, EVERYTHING)
        for rank in range(3)
    ]
    for whole, *parts in zip(alone, *ranks, strict=True):
        assert torch.equal(whole.inputs, torch.cat([part.inputs for part in parts]))
        assert torch.equal(whole.targets, torch.cat([part.targets for part in parts]))
        assert {part.num_global for part in parts} == {len(whole.inputs)}


def test_an_epoch_goes_on_where_it_was_left(pack: Pack, train: Split) -> None:
    config = EVERYTHING.model_copy(update={"mixup": 0.4, "cutmix": 1.0})
    whole = list(make_feed(pack).shuffled(train, 2, 0, 16, config))
    rest = list(make_feed(pack).shuffled(train, 2, 3, 16, config))
    assert len(rest) == len(whole) - 3
    for one, other in zip(whole[3:], rest, strict=True):
        assert torch.equal(one.inputs, other.inputs)
        assert torch.equal(one.targets, other.targets)


def test_training_gives_the_same_weights_however_many_processes_read(
    pack: Pack, folder: Path
) -> None:
    alone = train_tiny(folder, pack, epochs=1)
    assert train_tiny(folder, pack, epochs=1, workers=1).identity == alone.identity


def test_every_picture_comes_once_with_its_label(train: Split) -> None:
    feed = Feed((0, 0, 0), (1, 1, 1), 0, ALONE)
    seen = list(feed.shuffled(train, 1, 0, 16, STILL))
    inputs = torch.cat([batch.inputs for batch in seen])
    pictures = (inputs * 255).round().to(torch.uint8).numpy()
    order = {picture.tobytes(): row for row, picture in enumerate(train.pictures)}
    rows = [order[picture.tobytes()] for picture in pictures]
    assert sorted(rows) == list(range(len(train))) != rows
    assert rows == np.concatenate([batch.rows for batch in seen]).tolist()
    assert np.array_equal(torch.cat([batch.targets for batch in seen]), train.targets[rows])
    assert [name for batch in seen for name in batch.names] == train.names[rows].tolist()


def test_what_is_learnt_from_is_normalised_bit_for_bit_as_what_is_served(train: Split) -> None:
    mean, std = (0.48, 0.5, 0.1), (0.09, 0.2, 0.3)
    for batch in Feed(mean, std, 0, ALONE).shuffled(train, 1, 0, 16, STILL):
        assert batch.inputs.is_contiguous(memory_format=torch.channels_last)
        served = normalise(torch.from_numpy(train.pictures[batch.rows]), mean, std)
        assert torch.equal(batch.inputs, served)


def test_an_epoch_of_chosen_rows_holds_those(train: Split, pack: Pack) -> None:
    order = np.array([4, 4, 4, 9, 70])
    seen = make_feed(pack).shuffled(train, 1, 0, 16, STILL, order)
    assert sorted(np.concatenate([batch.rows for batch in seen])) == order.tolist()


def test_nothing_is_random_when_a_split_is_scored(pack: Pack, train: Split) -> None:
    """Another seed, and after training or not: the pictures as they are, in order, all of them."""
    feed = make_feed(pack, seed=99)
    next(feed.shuffled(train, 1, 0, 16, EVERYTHING))
    seen = list(feed.in_order(train, 20))
    expected = normalise(torch.from_numpy(train.pictures[:]), pack.mean, pack.std)
    assert torch.equal(torch.cat([batch.inputs for batch in seen]), expected)
    assert np.concatenate([batch.rows for batch in seen]).tolist() == list(range(len(train)))
    assert [len(batch.inputs) for batch in seen] == [20, 20, 20, 12]


@pytest.mark.parametrize(
    ("num_rows", "num_parts", "sizes"),
    [
        (9, 1, [4, 5]),
        (10, 1, [4, 4, 2]),
        (1, 1, [1]),
        (4, 1, [4]),
        (11, 2, [4, 7]),
        (12, 2, [4, 4, 4]),
    ],
)
def test_no_process_gets_less_than_two_pictures(
    num_rows: int, num_parts: int, sizes: list[int]
) -> None:
    batches = shuffle_rows(np.arange(num_rows), 4, num_parts, 0)
    assert [len(batch) for batch in batches] == sizes
    assert count_batches(num_rows, 4, num_parts) == len(sizes)
    assert sorted(np.concatenate(batches)) == list(range(num_rows))


def test_too_few_pictures_for_the_processes_are_refused() -> None:
    with pytest.raises(TrainingError, match="3 processes want two training pictures each"):
        shuffle_rows(np.arange(5), 6, 3, 0)


class Unsendable:
    """Stands in for names of a million pictures."""

    def __reduce__(self) -> str:
        raise AssertionError("sent to another process")


def test_other_processes_are_sent_places_and_nothing_else(pack: Pack, train: Split) -> None:
    assert len(pickle.dumps(train.pictures)) < 1_000
    names = np.array([Unsendable() for _ in range(len(train))], object)
    feed = make_feed(pack, num_workers=1)
    assert len(list(feed.in_order(dataclasses.replace(train, names=names), 16))) == 5
    feed.close()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_processes_that_read_do_not_grow(pack: Pack, train: Split) -> None:
    feed = make_feed(pack, num_workers=1)
    sizes = []
    for _ in range(2):
        for _ in range(50):
            assert len(list(feed.in_order(train, 16))) == 5
        (process,) = multiprocessing.active_children()
        status = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
        (line,) = [line for line in status.splitlines() if line.startswith("RssAnon")]
        sizes.append(int(line.split()[1]))
    feed.close()
    read = 50 * train.pictures[:].nbytes / 1024
    assert sizes[1] - sizes[0] < read / 4


ROWS = [np.array([row, row + 1]) for row in range(0, 20, 2)]


def test_a_process_that_hangs_is_noticed() -> None:
    reader = Reader(Hanging(), 1, pinned=False, patience=1, look_every=0.5)
    with pytest.raises(TrainingError) as caught:
        list(reader.read(ROWS))
    assert "No batch came for 1 s" in caught.value.message
    assert "hangs (train.workers: 1)" in caught.value.message
    assert "Set train.workers lower" in caught.value.remedy
    assert not multiprocessing.active_children()  # though the error still refers to the iterator


def test_reading_slowly_is_no_fault() -> None:
    reader = Reader(Slow(), 1, pinned=False, patience=60, look_every=0.1)
    assert len(list(reader.read(ROWS[:2]))) == 2
    next(reader.read(ROWS))  # given up, with two more under way
    assert len(list(reader.read(ROWS[:1]))) == 1
    reader.close()


def test_a_process_that_is_killed_is_noticed() -> None:
    reader = Reader(Deadly(), 2, pinned=False, look_every=0.5)
    with pytest.raises(TrainingError) as caught:
        list(reader.read(ROWS))
    assert "was killed (train.workers: 2)" in caught.value.message
    assert "2 batches of" in caught.value.message
    assert "--shm-size" in caught.value.remedy
    assert not multiprocessing.active_children()


def test_a_process_that_is_killed_between_two_passes_is_noticed() -> None:
    reader = Reader(Fine(), 1, pinned=False, look_every=0.5)
    assert len(list(reader.read(ROWS))) == len(ROWS)
    (process,) = multiprocessing.active_children()
    process.kill()
    process.join()
    with pytest.raises(TrainingError, match="was killed"):
        list(reader.read(ROWS))


KILLED = """
import os, signal
import numpy as np
from enginehouse.train.reader import Reader
from tests.unit.odd_pictures import Hanging

reader = Reader(Hanging(), 2, pinned=False)
next(reader.read([np.array([0]), np.array([7])] * 2))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_when_training_is_killed_nobody_goes_on_reading() -> None:
    started = [sys.executable, "-c", KILLED]
    root = Path(__file__).parents[2]
    with subprocess.Popen(started, cwd=root, stdout=subprocess.PIPE) as process:
        # Over only once all are gone that have the pipe: it, its readers and their server.
        process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL


UNAIDED = """
import numpy as np, psutil
from enginehouse.train.reader import Reader
from tests.unit.odd_pictures import Fine

assert len(list(Reader(Fine(), 0, pinned=False).read([np.array([0, 1])]))) == 1
assert not psutil.Process().children()
"""


def test_reading_here_starts_no_process() -> None:
    subprocess.run([sys.executable, "-c", UNAIDED], check=True, timeout=60)


def test_an_error_in_another_process_is_told_as_it_is() -> None:
    reader = Reader(Broken(), 1, pinned=False)
    with pytest.raises(RuntimeError, match="the disk said no"):
        list(reader.read(ROWS))
    reader.close()


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="shared memory lies elsewhere")
def test_too_little_shared_memory_is_said_before_a_process_starts() -> None:
    reader = Reader(Huge(), 2, pinned=False)
    with pytest.raises(TrainingError, match="Shared memory is too small") as caught:
        list(reader.read(ROWS))
    assert "/dev/shm has" in caught.value.message
    assert "2 processes want about 22888184 MiB" in caught.value.message
    assert not multiprocessing.active_children()
