"""Layers in INT8 one by one: as converted, the worst first, and the fewest left in float."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
import torchvision
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.fx import GraphModule

from enginehouse.artifact import silent
from enginehouse.problems import single_label
from enginehouse.quantizers._calibrate import calibrate, make_scheme
from enginehouse.quantizers._graph import capture, convert, keep_float, load_state, prepare
from enginehouse.quantizers._search import note_search, search_float
from enginehouse.quantizers._sensitivity import (
    LayerEffect,
    measure_sensitivity,
    measure_sqnr,
    note_sensitivity,
)
from enginehouse.quantizers._simulator import FLOAT, Simulator
from tests.unit.tiny_pack import SIZE, draw, open_workspace

LABELS = (0, 1, 2) * 8  # more than one batch
OUTLIER = 2.0**12  # a power of two: what is scaled up and down again is the same to the bit


class Chain(nn.Module):
    """Three convolutions and a head, each reading the one before."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, stride=2)
        self.second = nn.Conv2d(16, 16, 3)
        self.third = nn.Conv2d(16, 16, 3)
        self.head = nn.Linear(16, 3)

    def see(self, pictures: Tensor) -> Tensor:
        """What the head reads, [n, 16]."""
        maps = self.second(self.first(pictures).relu()).relu()
        return torch.as_tensor(self.third(maps).relu().mean((2, 3)))

    def forward(self, pictures: Tensor) -> Tensor:
        return torch.as_tensor(self.head(self.see(pictures)))


class Shared(nn.Module):
    """One tensor for several readers, a skip connection, work in place, a pool and a gate."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.one = nn.Conv2d(8, 8, 3, padding=1)
        self.two = nn.Conv2d(8, 8, 1)
        self.swish = nn.Hardswish(inplace=True)
        self.gate = nn.Conv2d(8, 8, 1)
        self.last = nn.Conv2d(8, 8, 3, groups=8)
        self.head = nn.Linear(8, 3)

    def forward(self, pictures: Tensor) -> Tensor:
        shared = nn.functional.max_pool2d(self.stem(pictures).relu_(), 2)
        out = self.one(shared)
        out += shared
        out = self.swish(out) + self.two(shared)
        out = self.gate(out.mean((2, 3), keepdim=True)).sigmoid() * out
        return torch.as_tensor(self.head(self.last(out).mean((2, 3))))


@pytest.fixture(scope="module")
def inputs() -> Tensor:
    return (torch.from_numpy(draw(LABELS, 3)).float() / 255 - 0.48) / 0.09


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sensitivity")


def make_shared() -> nn.Module:
    torch.manual_seed(0)
    return Shared().eval()


def make_resnet() -> torchvision.models.ResNet:
    """With statistics of BatchNorm as after training: of all sizes."""
    torch.manual_seed(0)
    net = torchvision.models.resnet18(num_classes=3).eval()
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.uniform_(-0.1, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    return net


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (make_shared, ("one", "add", "last")),
        (make_resnet, ("conv1", "layer1.0.add", "layer2.0.conv1", "layer4.0.downsample.0")),
    ],
)
def test_any_layers_in_int8_answer_as_converted(
    make: Callable[[], nn.Module], names: Sequence[str], inputs: Tensor, folder: Path
) -> None:
    net = make()
    prepared = calibrated(net, inputs, folder)
    simulator = Simulator(prepared)
    layers = {layer.name for layer in simulator.layers}
    before = {name: value.clone() for name, value in prepared.state_dict().items()}
    with torch.no_grad():
        assert torch.allclose(simulator.answer(inputs, int8=()), net(inputs), atol=1e-5)
        for kept in ((), names):
            again = prepare(capture(make(), SIZE), make_scheme())
            load_state(again, before)
            keep_float(again, kept)
            wanted = convert(again)(inputs)
            found = simulator.answer(inputs, int8=layers - set(kept))
            assert torch.allclose(found, wanted, atol=1e-5)
            assert (decide(found) == decide(wanted)).all()
            assert not torch.allclose(found, net(inputs), atol=1e-4)
    after = prepared.state_dict()
    assert all(torch.equal(value, after[name]) for name, value in before.items())


def test_branching_off_is_the_same_as_running_from_the_start(inputs: Tensor, folder: Path) -> None:
    simulator = Simulator(calibrated(make_shared(), inputs, folder))
    found: dict[str, list[Tensor]] = {}
    for name, part in simulator.answer_alone(inputs):
        found.setdefault(name, []).append(part)
    assert set(found) == {FLOAT, *(layer.name for layer in simulator.layers)}
    for name, parts in found.items():
        wanted = simulator.answer(inputs, int8={name} - {FLOAT})
        assert torch.equal(torch.cat(parts), wanted), name


def test_an_outlier_is_first_in_the_list_and_alone_stays_in_float(
    inputs: Tensor, folder: Path
) -> None:
    """The layer that reads the outlier suffers: one scale has to do for all of its input."""
    net = make_chain(inputs)
    with torch.no_grad():
        exact = net(inputs)
        plant(net.first, net.second)
        assert torch.equal(net(inputs), exact)
    prepared = calibrated(net, inputs, folder)
    effects = measure(prepared, inputs)
    assert effects[0].name == "second"
    assert effects[0].sqnr_db < min(effect.sqnr_db for effect in effects[1:]) - 10
    assert effects[0].flips > 4
    found = search_float(prepared, effects, inputs, decide, 1, silent)
    assert found.kept_float == ("second",)
    assert found.flips <= 1
    assert found.steps[0].kept == 0
    assert found.steps[0].flips > 4


def test_layers_that_do_no_harm_go_back_to_int8(inputs: Tensor, folder: Path) -> None:
    """Also where the ranking is wrong: its last layer is the one that matters."""
    net = make_chain(inputs)
    plant(net.first, net.second)
    prepared = calibrated(net, inputs, folder)
    ranking = sorted(measure(prepared, inputs), key=lambda effect: effect.name == "second")
    found = search_float(prepared, ranking, inputs, decide, 1, silent)
    assert found.kept_float == ("second",)


def test_all_that_is_needed_stays_in_float(inputs: Tensor, folder: Path) -> None:
    net = make_chain(inputs)
    plant(net.first, net.second)
    plant(net.second, net.third)
    prepared = calibrated(net, inputs, folder)
    effects = measure(prepared, inputs)
    found = search_float(prepared, effects, inputs, decide, 0, silent)
    assert [effect.name for effect in effects[:2]] == ["third", "second"]
    assert (found.kept_float, found.flips) == (("second", "third"), 0)
    generous = search_float(prepared, effects, inputs, decide, len(inputs), silent)
    assert generous.kept_float == ()


def test_a_healthy_network_keeps_nothing_in_float(inputs: Tensor, folder: Path) -> None:
    prepared = calibrated(make_chain(inputs), inputs, folder)
    effects = measure(prepared, inputs)
    assert min(effect.sqnr_db for effect in effects) > 20
    found = search_float(prepared, effects, inputs, decide, 0, silent)
    assert (found.kept_float, found.flips, len(found.steps)) == ((), 0, 1)


def test_the_same_network_gives_the_same_list_and_search(inputs: Tensor, folder: Path) -> None:
    results = []
    for seed in (1, 2):
        net = make_chain(inputs)
        plant(net.first, net.second)
        torch.manual_seed(seed)
        prepared = calibrated(net, inputs, folder)
        effects = measure(prepared, inputs)
        results.append((effects, search_float(prepared, effects, inputs, decide, 0, silent)))
    assert results[0] == results[1]


def test_flips_and_losses_are_counted_by_picture(inputs: Tensor, folder: Path) -> None:
    net = make_chain(inputs)
    plant(net.first, net.second)
    prepared = calibrated(net, inputs, folder)
    simulator = Simulator(prepared)
    truth = np.array(LABELS)
    exact = simulator.answer(inputs, int8=()).argmax(1).numpy()
    reports: list[tuple[str, int, int]] = []
    effects = measure_sensitivity(
        prepared, inputs, decide, make_targets(), lambda *said: reports.append(said)
    )
    for effect in effects:
        found = simulator.answer(inputs, int8={effect.name}).argmax(1).numpy()
        assert effect.flips == (found != exact).sum()
        assert effect.lost == (exact == truth).sum() - (found == truth).sum()
    assert max(effect.lost for effect in effects) > 0
    total = 2 * (len(effects) + 1)
    assert reports == [("sensitivity", done, total) for done in range(1, total + 1)]


def test_the_ratio_of_signal_to_noise_is_in_decibel() -> None:
    exact = torch.tensor([[3.0, -4.0], [0.0, 5.0]])
    assert measure_sqnr(exact, exact * 1.1) == pytest.approx(20, abs=1e-4)
    assert measure_sqnr(exact, exact + torch.tensor([[0.0, 0.0], [5.0, 5.0]])) == 0
    assert measure_sqnr(exact, exact) == 144.5
    assert measure_sqnr(torch.zeros(1, 2), exact) == -144.5


def test_notes_are_plain_json(inputs: Tensor, folder: Path) -> None:
    prepared = calibrated(make_chain(inputs), inputs, folder)
    effects = measure(prepared, inputs)
    found = search_float(prepared, effects, inputs, decide, 2, silent)
    rows, search = note_sensitivity(effects), note_search(found, 2)
    assert set(rows[0]) == {"name", "kind", "sqnr_db", "flips", "lost"}
    assert search == {
        "max_flips": 2,
        "num_pictures": len(LABELS),
        "flips": 0,
        "kept": [],
        "steps": [{"kept": 0, "flips": 0, "sqnr_db": search["steps"][0]["sqnr_db"]}],
    }
    assert json.loads(json.dumps([rows, search])) == [rows, search]


def make_chain(inputs: Tensor) -> Chain:
    """A chain of random convolutions whose head was fitted to the pictures."""
    torch.manual_seed(0)
    net = Chain().eval()
    with torch.no_grad():
        seen = torch.cat([net.see(inputs), torch.ones(len(inputs), 1)], dim=1)
        # Ridge regression: weights that are small, so that rounding is not blown up by them.
        square = seen.T @ seen + 1e-3 * torch.eye(seen.shape[1])
        fitted = torch.linalg.solve(square, seen.T @ (4 * torch.from_numpy(make_targets()) - 2))
        net.head.weight.copy_(fitted[:-1].T)
        net.head.bias.copy_(fitted[-1])
        assert (net(inputs).argmax(1) == torch.tensor(LABELS)).float().mean() > 0.9
    return net


def plant(writer: nn.Conv2d, reader: nn.Conv2d) -> None:
    """Make one channel between two layers an outlier; in float nothing changes."""
    assert writer.bias is not None
    with torch.no_grad():
        channel = int(writer.bias.argmax())
        writer.weight[channel] *= OUTLIER
        writer.bias[channel] *= OUTLIER
        reader.weight[:, channel] /= OUTLIER


def calibrated(net: nn.Module, inputs: Tensor, folder: Path) -> GraphModule:
    prepared = prepare(capture(net, SIZE), make_scheme())
    here = open_workspace(folder)
    calibrate(prepared, lambda: iter(inputs.split(8)), len(inputs), here)
    return prepared


def measure(prepared: GraphModule, inputs: Tensor) -> list[LayerEffect]:
    return measure_sensitivity(prepared, inputs, decide, make_targets(), silent)


def make_targets() -> NDArray[np.float32]:
    return np.eye(3, dtype=np.float32)[list(LABELS)]


def decide(logits: Tensor) -> NDArray[np.bool_]:
    return single_label.decide(single_label.activate(logits).detach().numpy())
