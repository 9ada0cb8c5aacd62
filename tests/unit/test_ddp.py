"""Two processes that train together on the CPU: the same result as one, and the same errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from enginehouse.errors import NonFiniteLoss, TrainingError
from enginehouse.prepare.record import Pack
from enginehouse.train.batches import shuffle_rows
from enginehouse.train.launch import check_devices
from enginehouse.train.randomness import seed_of
from enginehouse.train.record import TrainedModel
from enginehouse.train.world import World
from tests.unit import strained_rank
from tests.unit.tiny_pack import open_workspace, seal_pack, train_tiny

TOLERANCE = 1e-5  # of weights and losses, absolute: gradients are added up in another order


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ddp")


@pytest.fixture(scope="module")
def pack(folder: Path) -> Pack:
    """Neither its batches nor its validation split can be halved evenly."""
    return seal_pack(folder, train_labels=[*(0, 1, 2) * 13, 0], val_labels=(0, 1, 2) * 3)


@pytest.fixture(autouse=True)
def _strained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    strained_rank.install(tmp_path, monkeypatch)


def fit(folder: Path, pack: Pack, how: str, devices: int, **fields: Any) -> TrainedModel:
    network = {"family": "strained", "name": how}
    return train_tiny(folder, pack, model=network, devices=devices, epochs=2, **fields)


def read_weights(folder: Path, model: TrainedModel) -> dict[str, torch.Tensor]:
    return load_file(open_workspace(folder).path(model, "weights.safetensors"))


def assert_alike(folder: Path, one: TrainedModel, other: TrainedModel) -> None:
    """The same weights and the same course, within the tolerance."""
    for name, value in read_weights(folder, one).items():
        found = read_weights(folder, other)[name]
        assert torch.allclose(value, found, rtol=0, atol=TOLERANCE), name
    courses: Any = (one.notes["history"], other.notes["history"])
    for expected, row in zip(*courses, strict=True):
        for name in ("loss", "grad_norm", "val_loss", "accuracy", "macro_f1", "clipped"):
            assert row[name] == pytest.approx(expected[name], abs=TOLERANCE), name
    assert other.temperature == pytest.approx(one.temperature, abs=1e-3)


def test_two_processes_come_to_what_one_does_though_memory_runs_out(
    pack: Pack, folder: Path
) -> None:
    """In training both begin again, and take their eight pictures in two parts from then on, so
    that gradients are synchronised once for both; in scoring it is a matter of one of them."""
    usual = {"ema_decay": 0.9, "checkpoint_minutes": 0}
    alone = fit(folder, pack, "fine", 1, **usual)
    model = fit(folder, pack, "oom-1-4+oom_scoring-0-2", 2, **usual)
    assert_alike(folder, alone, model)
    assert (model.notes["devices"], alone.notes["devices"]) == (2, 1)
    assert model.notes["micro_batch"] == 4
    warnings: Any = model.notes["warnings"]
    training, *scoring = warnings
    assert "memory ran out with 8 pictures at once" in training
    assert "memory ran out with 4 pictures at once" in scoring[0]
    assert all("in scoring" in each for each in scoring)
    assert set(model.reports) == {"first_batch.png", "validation.npy"}


def test_a_loss_that_is_no_number_in_one_process_is_told_by_it(pack: Pack, folder: Path) -> None:
    with pytest.raises(NonFiniteLoss, match=r"epoch 1 \(step 2, ") as caught:
        fit(folder, pack, "nan-1-1", 2)
    second = shuffle_rows(np.arange(40), 16, 2, seed_of(0, 1))[1]
    culprit = World(1, 2, torch.device("cpu")).part(second)[0]
    assert f"pictures train-{culprit}.png." in caught.value.message
    assert "Set a lower train.learning_rate" in caught.value.remedy


def test_more_devices_than_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert check_devices(2, 1) == 2
    assert check_devices(4, 2) == 2
    with pytest.raises(TrainingError, match="wants 3 GPUs on this machine; it has 2"):
        check_devices(3, 1)
    with pytest.raises(TrainingError, match="3; 2 nodes cannot have as many each"):
        check_devices(3, 2)
