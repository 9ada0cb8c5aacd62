"""Fine-tuning: what is frozen stays as it is to the last bit, and rates fall with depth."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import load_file, save_file
from torch import nn

from enginehouse.choices import load_choice
from enginehouse.errors import RecipeError
from enginehouse.prepare.record import Pack
from enginehouse.recipe import Recipe, check_recipe
from enginehouse.train.finetune import FinetuneConfig, Policy, group_parameters
from enginehouse.train.loop import is_over
from enginehouse.train.network import WEIGHTS, build_network
from enginehouse.train.optimizer import make_optimizer, set_rate
from enginehouse.train.record import ModelConfig, Pretrained
from enginehouse.train.state import Progress
from enginehouse.train.train import train
from tests.unit.tiny_pack import TINY, open_workspace, seal_pack, tiny_config

STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


def build(name: str = "tiny_cnn") -> nn.Module:
    torch.manual_seed(0)
    family = "tiny" if name.startswith("tiny") else "torchvision"
    return build_network(ModelConfig(family=family, name=name), 3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("finetune")


@pytest.fixture(scope="module")
def pack(folder: Path) -> Pack:
    return seal_pack(folder)


@pytest.fixture(scope="module")
def start() -> dict[str, torch.Tensor]:
    """What every training here starts from: statistics that a new network does not have."""
    net = build()
    with torch.no_grad():
        for seed in range(3):
            net(torch.randn(8, 3, 32, 32, generator=torch.Generator().manual_seed(seed)))
    return dict(net.state_dict())


@pytest.fixture(scope="module")
def train_and_read(
    folder: Path, pack: Pack, start: dict[str, torch.Tensor]
) -> Callable[..., dict[str, torch.Tensor]]:
    here = open_workspace(folder)
    save_file(start, here.scratch / "weights")
    pretrained = Pretrained(files=here.seal(["weights"]))

    def run(**fields: Any) -> dict[str, torch.Tensor]:
        """The weights after two epochs."""
        config = tiny_config(epochs=2, **fields)
        model = train(pack, config, open_workspace(folder), pretrained)
        weights: dict[str, torch.Tensor] = load_file(open_workspace(folder).path(model, WEIGHTS))
        return weights

    return run


def find_moved(before: dict[str, torch.Tensor], after: dict[str, torch.Tensor]) -> set[str]:
    assert before.keys() == after.keys()
    return {name for name, value in after.items() if not torch.equal(value, before[name])}


Trainer = Callable[..., dict[str, torch.Tensor]]


@pytest.mark.parametrize("ema_decay", [0, 0.9])
def test_frozen_parts_and_their_batchnorms_stay_bit_by_bit(
    train_and_read: Trainer, start: dict[str, torch.Tensor], ema_decay: float
) -> None:
    frozen = ("0.*", "1.*", "4.*")
    after = train_and_read(finetune={"frozen": frozen}, ema_decay=ema_decay)
    # All that is not frozen moved: weights, scales and statistics.
    free = {name for name in start if not name.startswith(("0.", "1.", "4."))}
    assert find_moved(start, after) == free


def test_without_a_policy_all_moves(
    train_and_read: Trainer, start: dict[str, torch.Tensor]
) -> None:
    assert find_moved(start, train_and_read()) == start.keys()


def test_freeze_batchnorm_stops_statistics_and_lets_scales_learn(
    train_and_read: Trainer, start: dict[str, torch.Tensor]
) -> None:
    after = train_and_read(finetune={"freeze_batchnorm": True})
    assert find_moved(start, after) == {name for name in start if not name.endswith(STATISTICS)}


def test_a_frozen_batchnorm_moves_in_no_mode_that_training_uses() -> None:
    net = build()
    Policy(net, FinetuneConfig(frozen=("0.*", "1.*"))).begin_epoch(1)
    before = copy.deepcopy(net.state_dict())
    with torch.no_grad():
        net(torch.randn(8, 3, 32, 32))
    moved = find_moved(before, net.state_dict())
    assert moved == {n for n in before if n.endswith(STATISTICS) and not n.startswith("1.")}


def test_frozen_parts_learn_from_the_unfreeze_epoch_on() -> None:
    net = build()
    policy = Policy(net, FinetuneConfig(frozen=("4.*",), unfreeze_epoch=3))
    for epoch, learns in ((1, False), (2, False), (3, True), (4, True), (2, False)):
        policy.begin_epoch(epoch)
        block = net.get_submodule("4")
        assert all(parameter.requires_grad == learns for parameter in block.parameters())
        norms = [module for module in block.modules() if isinstance(module, nn.BatchNorm2d)]
        assert all(norm.training == learns for norm in norms)
        assert net.get_submodule("1").training


@pytest.mark.parametrize("fields", [{}, {"optimizer": "sgd", "learning_rate": 0.02}])
def test_unfreezing_shows_in_the_weights(
    train_and_read: Trainer, start: dict[str, torch.Tensor], fields: dict[str, Any]
) -> None:
    policy = {"frozen": ("0.*", "1.*"), "unfreeze_epoch": 2}
    # Of two epochs the second is the better one here, and is kept.
    after = train_and_read(finetune=policy, **fields)
    assert {"0.weight", "1.weight", "1.running_mean"} <= find_moved(start, after)


def test_batchnorm_without_scales_is_frozen_by_its_own_name() -> None:
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, affine=False), nn.Conv2d(4, 2, 1))
    Policy(net, FinetuneConfig(frozen=("[01].*",))).begin_epoch(1)
    assert not net[1].training


@pytest.mark.parametrize(
    ("frozen", "words"),
    [
        (("layer1.*",), "no parameter fits 'layer1.\\*'"),
        (("0.wieght",), "no parameter fits.*did you mean '0.weight'"),
        (("*",), "all is frozen"),
    ],
)
def test_a_pattern_that_makes_no_sense_is_refused(frozen: tuple[str, ...], words: str) -> None:
    config = FinetuneConfig(frozen=frozen)
    with pytest.raises(RecipeError, match=words):
        Policy(build(), config)
    # Also before anything is computed.
    recipe = Recipe.model_validate(
        {
            "name": "line",
            "data": {"path": "data"},
            "train": {"model": TINY, "finetune": {"frozen": frozen}},
        }
    )
    with pytest.raises(RecipeError, match=words):
        check_recipe(recipe)


def test_patience_waits_for_the_thaw() -> None:
    """No epoch after the first is better: it ends two later, or two after frozen parts thaw."""

    def count_epochs(**fields: Any) -> int:
        config = tiny_config(epochs=20, patience=2, **fields)
        progress = Progress(micro_batch=16, best_epoch=1)
        while not is_over(progress, config):
            progress.end_epoch({})
        return len(progress.history)

    assert count_epochs() == 3
    assert count_epochs(finetune={"frozen": ("0.*",), "unfreeze_epoch": 6}) == 7


@pytest.mark.parametrize(
    "fields", [{"unfreeze_epoch": 3}, {"frozen": ("0.*",), "unfreeze_epoch": 1}]
)
def test_an_unfreeze_epoch_that_does_nothing_is_refused(fields: Any) -> None:
    with pytest.raises(ValidationError, match="unfreeze_epoch"):
        FinetuneConfig(**fields)


def rates(net: nn.Module, **fields: Any) -> dict[str, float]:
    """The learning rate of each parameter, where the highest is 1."""
    optimizer = make_optimizer(net, tiny_config(**fields))
    set_rate(optimizer, 1.0)
    by_id = {id(p): group["lr"] for group in optimizer.param_groups for p in group["params"]}
    return {name: by_id[id(parameter)] for name, parameter in net.named_parameters()}


def test_rates_fall_from_the_head_to_the_picture() -> None:
    found = rates(build("resnet18"), finetune={"layer_decay": 0.5})
    expected = {"conv1": 1 / 32, "bn1": 1 / 32, "layer1": 1 / 16, "layer2": 1 / 8}
    expected |= {"layer3": 1 / 4, "layer4": 1 / 2, "fc": 1}
    assert {name: expected[name.partition(".")[0]] for name in found} == found
    assert set(rates(build("resnet18")).values()) == {1.0}


def test_every_layer_of_a_transformer_has_a_rate_of_its_own() -> None:
    found = rates(build("vit_b_16"), finetune={"layer_decay": 0.5})
    assert found["heads.head.weight"] == 1
    assert found["encoder.layers.encoder_layer_11.mlp.0.weight"] == 1 / 2
    assert found["encoder.layers.encoder_layer_0.mlp.0.weight"] == 1 / 2**12
    assert found["conv_proj.weight"] == found["class_token"] == 1 / 2**13


def test_groups_are_the_same_whatever_is_frozen() -> None:
    config = FinetuneConfig(frozen=("0.*", "1.*"), unfreeze_epoch=2, layer_decay=0.7)
    net = build()
    policy = Policy(net, config)

    def describe() -> list[Any]:
        groups = group_parameters(net, config, 0.01)
        return [(g["share"], g["weight_decay"], [id(p) for p in g["params"]]) for g in groups]

    policy.begin_epoch(1)
    first = describe()
    policy.begin_epoch(2)
    assert describe() == first
    assert sum(len(ids) for *_, ids in first) == len(list(net.parameters()))
    assert {decay for _, decay, _ in first} == {0.0, 0.01}


def test_a_network_that_cannot_be_looked_into_is_told() -> None:
    class Picky(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = load_choice("models", "tiny").build_model("tiny_cnn", 3)

        def forward(self, pictures: torch.Tensor) -> torch.Tensor:
            if pictures.shape[-1] != 32:
                raise ValueError("wants 32 px")
            out: torch.Tensor = self.net(pictures)
            return out

    with pytest.raises(RecipeError, match=r"could not be looked into.*wants 32 px"):
        group_parameters(Picky(), FinetuneConfig(layer_decay=0.5), 0.0)
