"""Training that is killed, stopped, out of memory or of numbers: what is kept and what is said."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from enginehouse import models
from enginehouse.artifact import Report, Workspace, silent
from enginehouse.errors import Interrupted, NonFiniteLoss, TrainingError
from enginehouse.prepare.record import Pack
from enginehouse.store import Store
from enginehouse.train.batches import Batch
from enginehouse.train.ema import make_average
from enginehouse.train.network import WEIGHTS
from enginehouse.train.optimizer import make_optimizer, set_rate
from enginehouse.train.record import TrainedModel
from enginehouse.train.splits import read_split
from enginehouse.train.state import Progress, State
from enginehouse.train.step import MAX_SKIPS, Step, Stepper
from enginehouse.train.train import train
from enginehouse.train.world import World
from tests.unit.killed import kill_at, run_train
from tests.unit.tiny_pack import open_workspace, seal_pack, tiny_config

PER_EPOCH = 5  # batches of 16 in 72 pictures
ALL = {"ema_decay": 0.9, "loss": {"label_smoothing": 0.1}, "log_every": 1, "checkpoint_minutes": 0}
DROPPING = {"family": "tiny", "name": "tiny_cnn", "head": {"dropout": 0.3}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("survival")


@pytest.fixture(scope="module")
def pack(folder: Path) -> Pack:
    return seal_pack(folder)


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists one more model family."""
    monkeypatch.setitem(models.CHOICES, "faulty", "tests.unit.faulty_family")


class Site:
    """A place where a training is begun again and again, in one resumable folder."""

    def __init__(self, pack: Pack, root: Path, store: Path) -> None:
        self.pack = pack
        self.root = root
        self.store = Store(store)
        self.said: list[str] = []

    def train(self, stop_at: int = 0, **fields: Any) -> TrainedModel:
        """Train, and ask it to stop after so many steps."""
        steps = 0

        def report(message: str, done: int = 0, total: int = 0, **metrics: float) -> None:
            nonlocal steps
            steps = done if message == "steps" else steps
            self.said.append(message)

        scratch = self.root / f"scratch{len(list(self.root.glob('scratch*')))}"
        scratch.mkdir()
        here = Workspace(
            self.store,
            scratch,
            report,
            stopping=lambda: bool(stop_at) and steps >= stop_at,
            resumable=self.root / "resumable",
        )
        config = tiny_config(**{"log_every": 1, "checkpoint_minutes": 1000, **fields})
        return train(self.pack, config, here)

    def list_checkpoints(self) -> list[str]:
        return sorted(path.name[:14] for path in (self.root / "resumable").iterdir())

    def read_checkpoint(self) -> Any:
        (path,) = (self.root / "resumable").iterdir()
        return torch.load(path, weights_only=True)


@pytest.fixture
def make_site(pack: Pack, folder: Path, tmp_path: Path) -> Callable[[], Site]:
    def make() -> Site:
        root = tmp_path / f"site{len(list(tmp_path.iterdir()))}"
        root.mkdir()
        return Site(pack, root, folder / "store")

    return make


@pytest.fixture
def site(make_site: Callable[[], Site]) -> Site:
    return make_site()


def read_weights(model: TrainedModel, folder: Path) -> dict[str, torch.Tensor]:
    return load_file(open_workspace(folder).path(model, WEIGHTS))


def test_killed_anywhere_it_ends_with_the_same_bytes(pack: Pack, folder: Path) -> None:
    config = tiny_config(model=DROPPING, epochs=5, learning_rate=0.03, **ALL)
    reference = train(pack, config, open_workspace(folder))
    best = int(str(reference.notes["best_epoch"]))
    assert best < 5, "nothing comes after the best epoch: choose another seed"
    draw = random.Random(4)
    kill_at(folder, pack, config, "steps", draw.randrange(2, PER_EPOCH))
    # The same training, read by another process, where all are told to stop and ours does not heed.
    reading = config.model_copy(update={"workers": 1})
    kill_at(folder, pack, reading, "epoch 2/5", 2)
    kill_at(folder, pack, config, "steps", max(best, 2) * PER_EPOCH + draw.randrange(2, PER_EPOCH))
    left = list((folder / "store" / "resumable").rglob("step-*.pt"))
    assert len(left) == 2
    outcome, model = run_train(folder, pack, config)
    assert not outcome.cached
    assert model.files == reference.files
    assert model.temperature == reference.temperature
    assert len(list(model.notes["resumed"])) == 3  # type: ignore[arg-type]
    assert not any((folder / "store" / "resumable").rglob("*.pt"))


def test_a_changed_recipe_is_not_gone_on_with_and_says_what_changed(
    tmp_path: Path,
) -> None:
    said: list[str] = []

    def listen(message: str, done: int = 0, total: int = 0, **metrics: float) -> None:
        said.append(message)

    def fail(message: str, done: int = 0, total: int = 0, **metrics: float) -> None:
        if (message, done) == ("steps", 3):
            raise RuntimeError("the plug is pulled")

    pack = seal_pack(tmp_path)
    first = tiny_config(epochs=2, **ALL)
    with pytest.raises(RuntimeError, match="plug"):
        run_train(tmp_path, pack, first, fail)
    left = tmp_path / "store" / "resumable" / "tiny.train"
    (unfinished,) = left.iterdir()
    changed = tiny_config(epochs=2, **{**ALL, "ema_decay": 0.5})
    _, model = run_train(tmp_path, pack, changed, listen)
    (told,) = [each for each in said if "not resumed" in each]
    assert "config ema_decay: 0.9 -> 0.5" in told
    assert "learning_rate" not in told
    assert model.notes["not_resumed"] == [told]
    assert model.notes["resumed"] == []
    assert not unfinished.exists()
    assert not any(left.iterdir())


def test_an_unfinished_training_that_somebody_works_on_is_left_alone(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    for key in ("mine", "busy", "left"):
        with store.open_resumable("a/train", key, {"config": {"epochs": 3}}) as left:
            (left / "step-1.pt").touch()
    with store.lock("busy", lambda: None):
        assert len(store.list_unfinished("a/train", "mine")) == 1
        store.drop_resumable("a/train", "mine", others=True)
    assert [each.name for each in (tmp_path / "store/resumable/a.train").iterdir()] == ["busy"]


def test_asked_to_stop_it_keeps_a_checkpoint_and_goes_on_from_there(
    site: Site, make_site: Callable[[], Site]
) -> None:
    fields = {"model": DROPPING, "epochs": 2, "ema_decay": 0.9}
    with pytest.raises(Interrupted, match="epoch 2, after 7 steps; a checkpoint is kept"):
        site.train(stop_at=7, **fields)
    assert site.list_checkpoints() == ["step-000000007"]
    model = site.train(**fields)
    assert model.notes["resumed"] == [7]
    assert "goes on after 7 steps" in site.said
    assert make_site().train(**fields).files == model.files


def test_going_on_leaves_no_random_numbers_behind(site: Site) -> None:
    with pytest.raises(Interrupted):
        site.train(stop_at=2, epochs=1)
    random.seed(3)
    np.random.seed(3)
    torch.manual_seed(3)
    before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    site.train(epochs=1)
    after = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    assert after == before


@pytest.mark.usefixtures("faulty")
def test_patience_is_counted_over_a_stop(site: Site) -> None:
    """Stopped with three flat epochs of five, it ends after two more."""
    fields = {"model": {"family": "faulty", "name": "flat"}, "epochs": 20, "patience": 5}
    with pytest.raises(Interrupted):
        site.train(stop_at=4 * PER_EPOCH + 1, **fields)
    model = site.train(**fields)
    assert (model.notes["best_epoch"], len(list(model.notes["history"]))) == (1, 6)  # type: ignore[arg-type]


@pytest.mark.usefixtures("faulty")
def test_out_of_memory_the_parts_get_smaller_and_the_updates_stay(pack: Pack, folder: Path) -> None:
    def learn(most: int, **fields: Any) -> TrainedModel:
        network = {"family": "faulty", "name": f"hungry-{most}"}
        config = tiny_config(model=network, epochs=1, **fields)
        return train(pack, config, open_workspace(folder))

    small, large = learn(5), learn(999)
    assert small.notes["micro_batch"] == 4
    assert large.notes["micro_batch"] == 16
    expected = read_weights(large, folder)
    for name, value in read_weights(small, folder).items():
        torch.testing.assert_close(value, expected[name], rtol=1e-4, atol=1e-6)
    assert any("memory ran out" in str(each) for each in list(small.notes["warnings"]))  # type: ignore[arg-type]
    assert not any("BatchNorm" in str(each) for each in list(small.notes["warnings"]))  # type: ignore[arg-type]


@pytest.mark.usefixtures("faulty")
def test_a_step_that_is_redone_leaves_no_trace_of_the_failed_try(pack: Pack, folder: Path) -> None:
    """Statistics of norms and dropout are as if the parts had been small from the beginning."""
    said: list[str] = []

    def learn(most: int, report: Report = silent, **fields: Any) -> TrainedModel:
        network = {"family": "faulty", "name": f"hungry_norm-{most}"}
        config = tiny_config(model=network, epochs=1, **fields)
        return train(pack, config, open_workspace(folder, report))

    def listen(message: str, done: int = 0, total: int = 0, **metrics: float) -> None:
        said.append(message)

    found = learn(7, listen)
    assert found.files[WEIGHTS] == learn(999, micro_batch=4).files[WEIGHTS]
    assert any("BatchNorm norms by these fewer pictures" in each for each in said)


@pytest.mark.usefixtures("faulty")
def test_one_picture_too_much_is_an_error_that_says_what_to_do(site: Site) -> None:
    with pytest.raises(TrainingError, match=r"one picture at a time.*\n.*prepare\.size"):
        site.train(model={"family": "faulty", "name": "hungry-0"})


@pytest.mark.usefixtures("faulty")
def test_nan_stops_at_once_says_where_and_keeps_what_was_before(
    site: Site, make_site: Callable[[], Site]
) -> None:
    fields = {"epochs": 2, "ema_decay": 0.9}
    with pytest.raises(NonFiniteLoss) as caught:
        site.train(model={"family": "faulty", "name": "7-0"}, **fields)
    told = str(caught.value)
    for word in ("nan in epoch 2 (step 8", "first in what the network returns", "learning rate"):
        assert word in told
    assert "pictures train-" in told
    unbroken = make_site()
    with pytest.raises(Interrupted):
        unbroken.train(stop_at=7, model={"family": "faulty", "name": "99-0"}, **fields)
    kept, expected = site.read_checkpoint(), unbroken.read_checkpoint()
    for part in ("net", "ema"):
        for name, value in expected[part].items():
            assert torch.equal(kept[part][name], value), name
    assert kept["progress"]["updates"] == expected["progress"]["updates"] == 7


@dataclass
class Bench:
    """A stepper over a network of one layer, and a batch of eight pictures for it."""

    stepper: Stepper
    batch: Batch

    @classmethod
    def build(cls, pack: Pack, folder: Path, scaler: torch.amp.GradScaler) -> Bench:
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 32 * 32, 3))
        average = make_average(net, 0.9)
        optimizer = make_optimizer(net, tiny_config(optimizer="sgd"))
        set_rate(optimizer, 0.01)
        state = State(net, net, optimizer, scaler, average, Progress(micro_batch=8))
        split = read_split(pack, "train", open_workspace(folder))
        rows = np.arange(8)
        pictures, targets = split.pick(rows)
        alone = World(0, 1, torch.device("cpu"))
        batch = Batch(pictures.float() / 8, targets, rows, split, 8)
        stepper = Stepper(state, measure, torch.float32, 1.0, alone, state.progress.warnings.append)
        return cls(stepper, batch)

    def take(self) -> Step:
        return self.stepper.take(self.stepper.state.net, self.batch)


def measure(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(logits, targets, reduction="none")


def test_a_step_that_the_scaler_skips_is_no_step_and_no_nan(pack: Pack, folder: Path) -> None:
    # So large a scale makes the gradients infinite, and the loss not; each skip halves it.
    bench = Bench.build(pack, folder, torch.amp.GradScaler("cpu", init_scale=2.0**127))
    state = bench.stepper.state
    before = [value.clone() for value in state.net.parameters()]
    skipped = bench.take()
    assert math.isfinite(skipped.loss)
    assert not skipped.updated
    assert all(map(torch.equal, before, state.net.parameters()))
    assert state.ema is not None
    assert int(state.ema.n_averaged) == 0
    state.progress.advance(skipped.updated)
    num_skips = 1
    while not (step := bench.take()).updated:
        num_skips += 1
    state.progress.advance(step.updated)
    assert num_skips < 20
    assert (state.progress.steps, state.progress.updates, state.progress.skips) == (2, 1, 0)
    assert int(state.ema.n_averaged) == 1
    assert not any(map(torch.equal, before, state.net.parameters()))


def test_a_first_step_that_is_skipped_leaves_no_momentum(pack: Pack, folder: Path) -> None:
    bench = Bench.build(pack, folder, torch.amp.GradScaler("cpu", init_scale=2.0**127))
    usual = Bench.build(pack, folder, torch.amp.GradScaler("cpu", enabled=False))
    torch.use_deterministic_algorithms(True)  # then fresh memory is filled with NaN
    try:
        while not bench.take().updated:
            pass
        usual.take()
    finally:
        torch.use_deterministic_algorithms(False)
    nets = (bench.stepper.state.net, usual.stepper.state.net)
    for found, expected in zip(*(net.parameters() for net in nets), strict=True):
        torch.testing.assert_close(found, expected)


def test_gradients_that_fit_no_scale_are_an_error(pack: Pack, folder: Path) -> None:
    stubborn = torch.amp.GradScaler("cpu", init_scale=2.0**127, backoff_factor=0.99999)
    bench = Bench.build(pack, folder, stubborn)
    for _ in range(MAX_SKIPS - 1):
        bench.take()
    with pytest.raises(NonFiniteLoss, match=f"in {MAX_SKIPS} steps in a row.*gradient scale"):
        bench.take()


def test_a_picture_that_is_no_number_is_named_alone(pack: Pack, folder: Path) -> None:
    bench = Bench.build(pack, folder, torch.amp.GradScaler("cpu", enabled=False))
    bench.batch.inputs[5] = torch.inf
    before = [value.clone() for value in bench.stepper.state.net.parameters()]
    with pytest.raises(NonFiniteLoss, match=r"pictures themselves.*; pictures train-5\.png\."):
        bench.take()
    assert all(map(torch.equal, before, bench.stepper.state.net.parameters()))
    bench.batch.inputs[5] = 0
    assert bench.take().updated


def test_the_look_takes_as_many_parts_as_the_step_did(pack: Pack, folder: Path) -> None:
    """In every process: norms that agree among them wait in each part for all."""
    bench = Bench.build(pack, folder, torch.amp.GradScaler("cpu", enabled=False))
    bench.stepper.world = World(1, 2, torch.device("cpu"))
    bench.stepper.state.progress.micro_batch = 2
    whole = bench.batch  # of five pictures the other process has three, which makes two parts
    bench.batch = Batch(whole.inputs[:2], whole.targets[:2], whole.rows[:2], whole.split, 5)
    bench.batch.inputs[0] = torch.inf
    calls = []
    bench.stepper.state.net.register_forward_hook(lambda *_: calls.append(1))
    with pytest.raises(NonFiniteLoss, match=r"pictures train-0\.png\."):
        bench.take()
    assert len(calls) == 2 + 2
