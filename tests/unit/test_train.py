"""Training through its public door: learning, repeating, choosing the best, refusing."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from pydantic import ValidationError
from safetensors import safe_open

from enginehouse import models
from enginehouse.errors import DataError, TrainingError
from enginehouse.prepare.record import Pack
from enginehouse.problems import single_label
from enginehouse.train.augment import AugmentConfig
from enginehouse.train.network import load_network, normalise
from enginehouse.train.optimizer import find_rate
from enginehouse.train.record import TrainedModel
from enginehouse.train.scores import Scores
from enginehouse.train.splits import read_split
from enginehouse.train.train import train
from tests.unit.tiny_pack import CLASSES, open_workspace, seal_pack, tiny_config, train_tiny


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("train")


@pytest.fixture(scope="module")
def pack(folder: Path) -> Pack:
    return seal_pack(folder)


@pytest.fixture(scope="module")
def model(folder: Path, pack: Pack) -> TrainedModel:
    return train_tiny(folder, pack)


def test_it_learns_and_says_how(model: TrainedModel, pack: Pack) -> None:
    assert model.val_accuracy > 0.9
    assert model.val_macro_f1 > 0.9
    assert (model.classes, model.size, model.mean) == (pack.classes, pack.size, pack.mean)
    history: Any = model.notes["history"]
    assert [row["epoch"] for row in history] == [1, 2, 3]
    assert history[-1]["loss"] < history[0]["loss"]
    preflight: Any = model.notes["preflight"]
    assert preflight["expected_loss"] == pytest.approx(math.log(3))
    assert model.notes["class_weights"] is None


def test_the_same_arguments_give_the_same_bytes(
    model: TrainedModel, pack: Pack, folder: Path
) -> None:
    torch.manual_seed(99)  # what the process did before must not matter
    assert train_tiny(folder, pack).identity == model.identity


def test_another_seed_gives_other_weights(model: TrainedModel, pack: Pack, folder: Path) -> None:
    assert train_tiny(folder, pack, seed=1).identity != model.identity


def test_nothing_global_is_left_behind(pack: Pack, folder: Path) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    train_tiny(folder, pack, epochs=1)
    assert torch.equal(torch.rand(3), expected)
    assert not torch.are_deterministic_algorithms_enabled()


def test_the_best_weights_are_saved(model: TrainedModel, pack: Pack, folder: Path) -> None:
    here = open_workspace(folder)
    val = read_split(pack, "val", here)
    net = load_network(model, here)
    with torch.inference_mode():
        inputs = normalise(torch.from_numpy(np.array(val.pictures)), model.mean, model.std)
        answers = net(inputs).argmax(1).numpy()
    assert (answers == val.labels).mean() == model.val_accuracy
    with safe_open(here.path(model, "weights.safetensors"), framework="pt") as stored:
        assert stored.metadata() in (None, {})


def test_progress_is_reported(pack: Pack, folder: Path) -> None:
    seen: list[tuple[str, int, int, dict[str, float]]] = []

    def report(message: str, done: int = 0, total: int = 0, **metrics: float) -> None:
        seen.append((message, done, total, metrics))

    train(pack, tiny_config(epochs=2), open_workspace(folder, report))
    message, done, total, metrics = seen[-1]
    assert (message, done, total) == ("epoch 2/2", 2, 2)
    assert {"loss", "val_loss", "accuracy", "macro_f1", "images_per_s", "learning_rate"} <= set(
        metrics
    )


def test_the_first_batch_is_a_picture(model: TrainedModel, folder: Path) -> None:
    with Image.open(open_workspace(folder).path(model, "first_batch.png")) as sheet:
        assert sheet.format == "PNG"
        assert sheet.width == 4 * 96


@pytest.mark.parametrize("precision", ["auto", "bf16"])
def test_other_precisions(precision: str, pack: Pack, folder: Path) -> None:
    model = train_tiny(folder, pack, precision=precision)
    assert model.val_accuracy > 0.8
    assert model.notes["precision"] in ("bfloat16", "float32")


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU has fp16")
def test_fp16_without_a_gpu_is_refused(pack: Pack, folder: Path) -> None:
    with pytest.raises(TrainingError, match="fp16 wants a CUDA device"):
        train_tiny(folder, pack, precision="fp16")


def test_a_last_batch_of_one_does_not_break_batchnorm(tmp_path: Path) -> None:
    pack = seal_pack(tmp_path, train_labels=(0, 1, 2) * 3, val_labels=(0, 1, 2))
    model = train_tiny(tmp_path, pack, batch_size=4, epochs=1)
    assert math.isfinite(model.val_macro_f1)


def test_it_stops_early(pack: Pack, folder: Path) -> None:
    # A rate this small changes no answer, so no epoch beats the first by much.
    model = train_tiny(folder, pack, epochs=12, patience=1, learning_rate=0.02)
    history: Any = model.notes["history"]
    assert len(history) == int(str(model.notes["best_epoch"])) + 1 < 12


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists one more model family."""
    monkeypatch.setitem(models.CHOICES, "faulty", "tests.unit.faulty_family")


@pytest.mark.usefixtures("faulty")
def test_a_loss_that_is_no_number_stops_it(pack: Pack, folder: Path) -> None:
    steps_per_epoch = math.ceil(72 / 16)
    network = {"family": "faulty", "name": f"{steps_per_epoch + 2}-0"}
    with pytest.raises(TrainingError, match="loss became nan in epoch 2"):
        train_tiny(folder, pack, model=network)


@pytest.mark.usefixtures("faulty")
def test_an_epoch_without_a_score_is_never_the_best(pack: Pack, folder: Path) -> None:
    """The validation split is two batches, so each epoch makes two calls."""
    model = train_tiny(folder, pack, model={"family": "faulty", "name": "99-1"})
    history: Any = model.notes["history"]
    assert "val_loss" not in history[0]
    assert int(str(model.notes["best_epoch"])) > 1
    with pytest.raises(TrainingError, match="No epoch of 3 had a finite loss"):
        train_tiny(folder, pack, model={"family": "faulty", "name": "99-6"})


def test_pictures_on_the_wrong_scale_fail_the_preflight(pack: Pack, folder: Path) -> None:
    network = {"family": "torchvision", "name": "squeezenet1_1"}
    broken = pack.model_copy(update={"std": (1e-5, 1e-5, 1e-5)})
    with pytest.raises(TrainingError, match=r"should be near 1\.1"):
        train_tiny(folder, broken, model=network)


def test_missing_class_and_empty_split_are_refused(tmp_path: Path) -> None:
    pack = seal_pack(tmp_path, train_labels=(0, 1) * 8)
    with pytest.raises(TrainingError, match="no picture of blue"):
        train_tiny(tmp_path, pack)
    with pytest.raises(DataError, match="split val holds no pictures"):
        train_tiny(tmp_path, seal_pack(tmp_path, val_labels=()))


def test_a_network_that_cannot_take_the_size_is_refused(pack: Pack, folder: Path) -> None:
    with pytest.raises(TrainingError, match="cannot take pictures of 32 px"):
        train_tiny(folder, pack, model={"family": "torchvision", "name": "vit_b_16"})


def test_pictures_under_two_labels_fail_the_preflight(tmp_path: Path) -> None:
    """The same picture everywhere: nothing can tell the classes apart."""
    here = open_workspace(tmp_path)
    pack = seal_pack(tmp_path)
    same = np.repeat(read_split(pack, "train", here).pictures[:1], 72, axis=0)
    np.save(here.scratch / "train-00000.npy", same)
    broken = pack.model_copy(update={"files": {**pack.files, **here.seal(["train-00000.npy"])}})
    still = AugmentConfig(flip_horizontal=False, flip_vertical=False, shift=0, brightness=0)
    with pytest.raises(TrainingError, match="could not be learned by heart"):
        train_tiny(tmp_path, broken, augment=still.model_dump())


def test_warmup_must_end() -> None:
    with pytest.raises(ValidationError, match="warmup_epochs"):
        tiny_config(epochs=2, warmup_epochs=2)


def test_the_rate_rises_and_falls() -> None:
    config = tiny_config(epochs=5, warmup_epochs=1, learning_rate=1)
    rates = [find_rate(config, epoch) for epoch in (0, 0.5, 1, 3, 5)]
    assert rates == pytest.approx([0, 0.5, 1, 0.5, 0])


def test_no_number_is_never_best() -> None:
    good, equal = Scores(0.5, 0.8, 0.8), Scores(0.4, 0.8, 0.8)
    broken = Scores(math.nan, 0.9, 0.9)
    assert not broken.beats(None)
    assert not broken.beats(good)
    assert good.beats(None)
    assert equal.beats(good)
    assert not good.beats(equal)


def test_macro_f1_counts_the_classes_that_occur() -> None:
    truth, answers = np.eye(3, dtype=np.float32)[[0, 0, 1, 1]], np.eye(3)[[0, 1, 1, 2]]
    quality = single_label.score(truth, answers.astype(np.float32), CLASSES)
    assert quality.macro_f1 == pytest.approx((2 / 3 + 1 / 2) / 2)
