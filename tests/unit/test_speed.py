"""How the device is used changes what is learnt by rounding at most, and conflicts are refused."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import load_file
from torchvision.models import mobilenet_v3_small, resnet18

from enginehouse.errors import RecipeError
from enginehouse.prepare.record import Pack
from enginehouse.train.ema import make_average
from enginehouse.train.optimizer import find_rate, make_optimizer, set_rate
from enginehouse.train.recompute import checkpoint_blocks
from enginehouse.train.record import TrainedModel
from tests.unit.tiny_pack import open_workspace, seal_pack, tiny_config, train_tiny


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("speed")


@pytest.fixture(scope="module")
def pack(folder: Path) -> Pack:
    return seal_pack(folder)


def read_weights(model: TrainedModel, folder: Path) -> dict[str, torch.Tensor]:
    return load_file(open_workspace(folder).path(model, "weights.safetensors"))


@pytest.mark.parametrize("build", [resnet18, mobilenet_v3_small])
def test_computing_twice_gives_the_same_gradients_and_statistics(build: type) -> None:
    torch.manual_seed(0)
    plain = build(num_classes=3)
    saving = copy.deepcopy(plain)
    checkpoint_blocks(saving)
    pictures = torch.randn(4, 3, 64, 64)
    for net in (plain, saving, copy.deepcopy(saving)):
        torch.manual_seed(1)  # of dropout
        net.train()
        net(pictures).square().sum().backward()
    assert plain.state_dict().keys() == saving.state_dict().keys()
    for one, other in zip(plain.state_dict().values(), saving.state_dict().values(), strict=True):
        assert torch.equal(one, other)
    for one, other in zip(plain.parameters(), saving.parameters(), strict=True):
        assert torch.equal(one.grad, other.grad)


def test_computing_twice_keeps_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted where autograd packs what it keeps for the backward pass."""

    def count_kept(net: torch.nn.Module) -> int:
        kept = 0

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            nonlocal kept
            kept += tensor.nbytes * (not isinstance(tensor, torch.nn.Parameter))
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            net.train()(torch.randn(2, 3, 64, 64))
        return kept

    plain = resnet18(num_classes=3)
    saving = copy.deepcopy(plain)
    checkpoint_blocks(saving)
    assert count_kept(saving) < 0.6 * count_kept(plain)


def test_a_network_without_blocks_cannot_compute_twice() -> None:
    with pytest.raises(RecipeError, match="has no blocks"):
        checkpoint_blocks(torch.nn.Sequential(torch.nn.Linear(3, 3)))


def test_training_is_the_same_when_it_computes_twice(pack: Pack, folder: Path) -> None:
    plain = train_tiny(folder, pack, epochs=1, ema_decay=0.9)
    saving = train_tiny(
        folder, pack, epochs=1, ema_decay=0.9, speed={"gradient_checkpointing": True}
    )
    assert saving.identity == plain.identity


def test_compiled_training_learns_the_same_whatever_was_compiled_before(
    pack: Pack, folder: Path
) -> None:
    """Torch compiles a function for so many networks, and then no more."""
    plain = read_weights(train_tiny(folder, pack, epochs=1), folder)
    limit = torch._dynamo.config.patch(recompile_limit=3, fail_on_recompile_limit_hit=True)
    with limit:
        first, again = (
            train_tiny(folder, pack, epochs=1, speed={"compile": True}) for _ in range(2)
        )
    assert again.files == first.files
    compiled = read_weights(first, folder)
    for name, value in plain.items():
        assert torch.allclose(value.float(), compiled[name].float(), atol=5e-3), name


def test_parts_of_a_batch_add_up_to_the_whole(pack: Pack, folder: Path) -> None:
    model = {"family": "tiny", "name": "tiny_cnn", "norm": "group"}  # BatchNorm sees the parts
    whole = read_weights(train_tiny(folder, pack, epochs=1, model=model), folder)
    parts = train_tiny(folder, pack, epochs=1, model=model, micro_batch=5)
    assert parts.notes["micro_batch"] == 5
    for name, value in read_weights(parts, folder).items():
        assert torch.allclose(value, whole[name], atol=1e-5), name


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"cudnn_benchmark": True}, "deterministic: false"),
        ({"compile": True, "gradient_checkpointing": True}, "choose it or"),
    ],
)
def test_conflicts_are_refused(fields: dict[str, bool], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        tiny_config(speed=fields)


def test_settings_of_torch_are_given_back(pack: Pack, folder: Path) -> None:
    before = torch.backends.cuda.matmul.fp32_precision, torch.backends.cudnn.benchmark
    speed = {"tf32": False, "deterministic": False, "cudnn_benchmark": True, "channels_last": False}
    train_tiny(folder, pack, epochs=1, speed=speed)
    assert (torch.backends.cuda.matmul.fp32_precision, torch.backends.cudnn.benchmark) == before


def test_the_average_follows_weights_and_statistics() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(1, 1, bias=False), torch.nn.BatchNorm1d(1))
    torch.nn.init.constant_(net[0].weight, 1.0)
    average = make_average(net, 0.5)
    assert average is not None
    for value in (3.0, 5.0):
        torch.nn.init.constant_(net[0].weight, value)
        net[1].running_mean.fill_(value)
        net[1].num_batches_tracked.fill_(int(value))
        average.update_parameters(net)
    # The first update copies; then the decay is at most (1 + n) / (10 + n).
    decay = 2 / 11
    assert average.module[0].weight.item() == pytest.approx(3 * decay + 5 * (1 - decay))
    assert average.module[1].running_mean.item() == pytest.approx(3 * decay + 5 * (1 - decay))
    assert average.module[1].num_batches_tracked.item() == 5
    assert make_average(net, 0) is None


def test_the_average_is_what_is_kept(pack: Pack, folder: Path) -> None:
    plain = read_weights(train_tiny(folder, pack, epochs=2, patience=2), folder)
    averaged = train_tiny(folder, pack, epochs=2, patience=2, ema_decay=0.99)
    kept = read_weights(averaged, folder)
    assert kept.keys() == plain.keys()
    assert any(not torch.equal(kept[name], value) for name, value in plain.items())
    assert averaged.val_macro_f1 > 0.5


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_vectors_do_not_decay(optimizer: str) -> None:
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4))
    made = make_optimizer(net, tiny_config(optimizer=optimizer, weight_decay=0.1))
    for group in made.param_groups:
        assert all((p.ndim > 1) == (group["weight_decay"] == 0.1) for p in group["params"])
    set_rate(made, 0.25)
    assert {group["lr"] for group in made.param_groups} == {0.25}


def test_sgd_learns_too(pack: Pack, folder: Path) -> None:
    model = train_tiny(folder, pack, epochs=4, optimizer="sgd", learning_rate=0.05)
    assert model.val_macro_f1 > 0.8


def test_schedules_rise_and_fall() -> None:
    def rates(**fields: object) -> list[float]:
        config = tiny_config(epochs=5, warmup_epochs=1, learning_rate=1, **fields)
        return [find_rate(config, epoch) for epoch in (0, 0.5, 1, 3, 5)]

    assert rates() == pytest.approx([0, 0.5, 1, 0.5, 0])
    assert rates(schedule="linear") == pytest.approx([0, 0.5, 1, 0.5, 0])
    assert rates(schedule="constant") == pytest.approx([0, 0.5, 1, 1, 1])
