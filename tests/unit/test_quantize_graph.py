"""Where INT8 goes in an architecture, what its layers are called, and how scales are found."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torchvision
from torch import nn
from torchvision.models.convnext import CNBlockConfig, ConvNeXt

from enginehouse.errors import Interrupted, QuantizationError
from enginehouse.quantizers._bias import correct_biases
from enginehouse.quantizers._calibrate import calibrate, make_scheme
from enginehouse.quantizers._graph import (
    capture,
    convert,
    keep_float,
    list_layers,
    list_products,
    load_state,
    prepare,
)
from enginehouse.quantizers._observers import (
    NUM_BINS,
    ActivationObserver,
    PerChannelWeightObserver,
    find_percentile,
    find_range,
)
from tests.unit.tiny_pack import open_workspace

SIZE = 32
DEQUANTIZE = "dequantize_per_tensor"


class Residual(nn.Module):
    """A tensor with three readers: a convolution, an addition and a max pool."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, padding=1)
        self.body = nn.Conv2d(4, 4, 3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.head = nn.Linear(4, 3)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        maps = self.stem(pictures).relu()
        pooled = self.pool(maps)
        summed = (self.body(maps) + maps).relu()
        return self.head(summed.mean((2, 3)) + self.stem_of(pooled))

    def stem_of(self, pooled: torch.Tensor) -> torch.Tensor:
        return self.body(pooled).mean((2, 3))


def build(net: nn.Module) -> nn.Module:
    """With statistics as a trained network might have them."""
    with torch.no_grad():
        for module in net.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.running_mean.uniform_(-0.1, 0.1)
                module.running_var.uniform_(0.5, 1.5)
    return net.eval()


def walk(pictures: torch.Tensor, batch: int) -> Any:
    def batches() -> Iterator[torch.Tensor]:
        yield from pictures.split(batch)

    return batches


def calibrated(net: nn.Module, folder: Path, **scheme: Any) -> Any:
    prepared = prepare(capture(net, SIZE), make_scheme(**scheme))
    pictures = torch.randn(8, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(5))
    calibrate(prepared, walk(pictures, 4), len(pictures), open_workspace(folder))
    return prepared


def names_of(net: nn.Module) -> dict[str, str]:
    layers = list_layers(prepare(capture(net, SIZE), make_scheme()))
    assert len({layer.name for layer in layers}) == len(layers)
    return {layer.name: layer.kind for layer in layers}


@pytest.fixture(scope="module")
def mobilenet() -> Any:
    """Prepared, not calibrated."""
    torch.manual_seed(0)
    net = build(torchvision.models.mobilenet_v3_small(num_classes=3))
    return prepare(capture(net, SIZE), make_scheme())


def test_layers_bear_the_names_of_the_network_in_its_order() -> None:
    torch.manual_seed(0)
    names = names_of(build(torchvision.models.resnet18(num_classes=3)))
    assert list(names)[:5] == [
        "conv1",
        "maxpool",
        "layer1.0.conv1",
        "layer1.0.conv2",
        "layer1.0.add",
    ]
    assert list(names)[-2:] == ["avgpool", "fc"]
    assert names["layer2.0.downsample.0"] == "conv"
    assert names["layer4.1.add"] == "add"
    assert names["maxpool"] == "max_pool"
    assert names["avgpool"] == "average"
    assert len(names) == 31  # 20 convolutions, 8 additions, 2 pools and the head


def test_a_layer_that_is_used_twice_is_two_layers() -> None:
    names = names_of(Residual().eval())
    assert list(names) == [
        *("stem", "pool", "body", "add", "average", "body_2", "average_2", "add_2", "head")
    ]


def test_gates_stay_in_float_but_for_the_pictures_they_weigh(mobilenet: Any) -> None:
    names = {layer.name: layer.kind for layer in list_layers(mobilenet)}
    assert names["features.1.block.1.mul"] == "mul"
    assert names["features.1.block.1.avgpool"] == "average"
    assert "features.1.block.1.fc1" not in names
    assert names["features.1.block.0.0"] == "conv"
    assert names["classifier.3"] == "linear"


def test_sums_before_a_normalisation_stay_in_float() -> None:
    torch.manual_seed(0)
    transformer = torchvision.models.VisionTransformer(SIZE, 8, 2, 2, 16, 32, num_classes=3)
    names = names_of(transformer.eval())
    assert names["encoder.layers.encoder_layer_0.self_attention.in_proj"] == "linear"
    assert names["encoder.layers.encoder_layer_1.self_attention.out_proj"] == "linear"
    assert names["heads.head"] == "linear"
    assert set(names.values()) == {"conv", "linear"}
    blocks = [CNBlockConfig(8, 16, 2), CNBlockConfig(16, None, 2)]
    names = names_of(ConvNeXt(blocks, num_classes=3).eval())
    assert names["features.1.0.add"] == "add"  # a convolution reads it
    assert "features.1.1.add" not in names  # a LayerNorm does
    assert names["features.3.1.add"] == "add"  # the average before the head does


def test_what_is_kept_in_float_reads_past_what_others_still_read(tmp_path: Path) -> None:
    torch.manual_seed(0)
    prepared = calibrated(Residual().eval(), tmp_path)
    names = {layer.name for layer in list_layers(prepared)}
    state = {name: value.clone() for name, value in prepared.state_dict().items()}
    keep_float(prepared, ["body"])
    assert {layer.name for layer in list_layers(prepared)} == names
    assert state.keys() == prepared.state_dict().keys()
    sources = {
        node.name: [str(source.target) for source in node.all_input_nodes]
        for node in convert(prepared).graph.nodes
    }
    assert not any("dequantize" in source for source in sources["conv2d_1"])
    assert all(DEQUANTIZE in source for source in sources["add"])
    assert sum("dequantize" in source for source in sources["conv2d_2"]) == 2


def test_all_in_float_is_the_network_itself(mobilenet: Any, tmp_path: Path) -> None:
    """Corrections of biases go with INT8, so none is left."""
    prepared, pictures = copy.deepcopy(mobilenet), torch.randn(2, 3, SIZE, SIZE)
    with torch.no_grad():
        wanted = prepared(pictures)
    for step in (calibrate, correct_biases):
        step(prepared, walk(pictures, 2), 2, open_workspace(tmp_path))
    keep_float(prepared, [layer.name for layer in list_layers(prepared)])
    with torch.no_grad():
        assert torch.allclose(convert(prepared)(pictures), wanted, atol=1e-6)


def test_corrected_biases_bring_the_mean_back_and_come_back_themselves(tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 16, 1), nn.Conv2d(16, 16, 3, groups=16)).eval()
    with torch.no_grad():
        net[1].weight += 2 * torch.rand(16, 1, 1, 1)  # rounding then errs to one side
        net[1].weight[:, :, 0, 0] = 40
    pictures = torch.rand(32, 3, SIZE, SIZE)
    prepared = prepare(capture(net, SIZE), make_scheme())
    calibrate(prepared, walk(pictures, 8), 32, open_workspace(tmp_path))
    plain = copy.deepcopy(prepared)
    correct_biases(prepared, walk(pictures, 8), 32, open_workspace(tmp_path))
    again = prepare(capture(net, SIZE), make_scheme())
    load_state(again, prepared.state_dict())
    with torch.no_grad():
        wanted = net(pictures).mean((0, 2, 3))
        off, corrected, restored = (
            (convert(each)(pictures).mean((0, 2, 3)) - wanted).abs().mean()
            for each in (plain, prepared, again)
        )
    assert corrected < off / 5
    assert corrected == restored


def test_biases_are_corrected_alike_wherever_tokens_stand(tmp_path: Path) -> None:
    """In attention the first dimension is that of tokens, or of windows and pictures at once."""

    class Tokens(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 8)

        def forward(self, pictures: torch.Tensor) -> torch.Tensor:
            return self.arrange(pictures.flatten(2).transpose(1, 2)).mean(1)

        def arrange(self, tokens: torch.Tensor) -> torch.Tensor:
            return self.linear(tokens)

    class TokensFirst(Tokens):
        def arrange(self, tokens: torch.Tensor) -> torch.Tensor:
            return self.linear(tokens.transpose(0, 1)).transpose(0, 1)

    class TokensFlat(Tokens):
        def arrange(self, tokens: torch.Tensor) -> torch.Tensor:
            return self.linear(tokens.reshape(-1, 3)).view(-1, SIZE**2, 8)

    pictures = torch.rand(7, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(0))
    shifts = []
    for kind in (Tokens, TokensFirst, TokensFlat):
        for batch in (7, 4):
            torch.manual_seed(0)
            prepared = prepare(capture(kind().eval(), SIZE), make_scheme())
            for step in (calibrate, correct_biases):
                step(prepared, walk(pictures, batch), 7, open_workspace(tmp_path))
            (product,) = list_products(prepared)
            shifts.append(product.shift)
    assert shifts[0].abs().max() > 1e-4
    for shift in shifts[1:]:
        torch.testing.assert_close(shift, shifts[0], rtol=1e-3, atol=1e-7)


def test_a_norm_is_folded_only_into_a_convolution_of_its_own(tmp_path: Path) -> None:
    class Branching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm, self.other = nn.Conv2d(3, 3, 1), *map(nn.BatchNorm2d, (3, 3))

        def forward(self, pictures: torch.Tensor) -> torch.Tensor:
            maps = self.norm(self.conv(pictures)).relu()
            shared = self.conv(maps)  # the same weight, then two readers
            return (self.other(shared).relu() + shared).mean((2, 3))

    torch.manual_seed(0)
    net = build(Branching())
    pictures = torch.rand(4, 3, SIZE, SIZE)
    prepared = prepare(capture(copy.deepcopy(net), SIZE), make_scheme())
    with torch.no_grad():
        assert torch.allclose(prepared(pictures), net(pictures), atol=1e-5)


def test_a_layer_that_is_not_there_cannot_be_kept() -> None:
    prepared = prepare(capture(Residual().eval(), SIZE), make_scheme())
    with pytest.raises(QuantizationError, match="no layer named layer9"):
        keep_float(prepared, ["body", "layer9"])


def test_a_state_says_what_does_not_fit(tmp_path: Path) -> None:
    state = calibrated(Residual().eval(), tmp_path).state_dict()
    state["stem.weight"] = torch.zeros(5, 3, 3, 3)
    prepared = prepare(capture(Residual().eval(), SIZE), make_scheme())
    with pytest.raises(QuantizationError, match=r"does not fit.*stem\.weight"):
        load_state(prepared, state)


@pytest.mark.parametrize("method", ["histogram", "minmax", "percentile"])
def test_batches_make_no_difference(method: str, mobilenet: Any, tmp_path: Path) -> None:
    pictures = torch.randn(16, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(5))
    found = []
    for batch in (1, 7, 16):
        prepared = copy.deepcopy(mobilenet)
        observers = [each for each in prepared.modules() if isinstance(each, ActivationObserver)]
        for each in observers:
            each.method, each.percentile = method, 99.9
        calibrate(prepared, walk(pictures, batch), 16, open_workspace(tmp_path))
        found.append(torch.cat([each.scale for each in observers]))
    assert len(found[0]) > 50
    for other in found[1:]:
        assert (other / found[0] - 1).abs().max() < 1e-4


def test_the_histogram_cuts_off_what_costs_less_than_it_gives() -> None:
    magnitudes = torch.randn(1_000_000, generator=torch.Generator().manual_seed(1)).abs()
    magnitudes[0] = 40  # alone, so far out
    counts = torch.histc(magnitudes, NUM_BINS, 0, 40).long()
    tried = {
        share: cost_of(magnitudes, share * 40) for share in torch.linspace(0.07, 1, 94).tolist()
    }
    best = min(tried, key=tried.__getitem__)
    assert best < 0.3
    assert cost_of(magnitudes, find_range(counts) * 40) < 1.02 * tried[best]
    assert find_range(torch.ones(NUM_BINS)) > 0.98


def cost_of(magnitudes: torch.Tensor, limit: float) -> float:
    step = limit / 127
    rounded = (magnitudes / step).round().clamp(max=127) * step
    return float((magnitudes - rounded).double().square().mean())


def test_the_percentile_is_one_of_the_numbers_themselves() -> None:
    magnitudes = torch.rand(100_000, generator=torch.Generator().manual_seed(1))
    counts = torch.histc(magnitudes, NUM_BINS, 0, 1).long()
    for percentile in (90.0, 99.0, 99.9, 100.0):
        wanted = float(magnitudes.quantile(percentile / 100))
        assert find_percentile(counts, percentile) == pytest.approx(wanted, abs=1e-3)


def test_small_channels_keep_their_steps_and_dead_ones_take_none() -> None:
    """Channels from 1e-3 to 10 in one weight, as after folding BatchNorm; and one switched off."""
    largest = torch.tensor([1e-3, 1e-2, 0.1, 1, 10, 1e-12])
    weight = torch.rand(6, 1, 3, 3) * largest.view(6, 1, 1, 1)
    observer = PerChannelWeightObserver(
        dtype=torch.int8, quant_min=-127, quant_max=127, qscheme=torch.per_channel_symmetric
    )
    observer(weight)
    scale, zero_point = observer.calculate_qparams()
    steps = (weight.flatten(1) / scale[:, None]).round().abs().amax(dim=1)
    assert steps.tolist() == [127, 127, 127, 127, 127, 0]
    assert not zero_point.any()


def test_one_scale_per_weight_ruins_a_depthwise_convolution(tmp_path: Path) -> None:
    """Both ways on one block, held against float: what is never shipped is measured here."""
    torch.manual_seed(0)
    block = nn.Sequential(nn.Conv2d(3, 16, 1), nn.Conv2d(16, 16, 3, padding=1, groups=16))
    block[1].weight.data *= torch.logspace(-3, 1, 16).view(16, 1, 1, 1)
    pictures = torch.randn(4, 3, SIZE, SIZE)
    ratios = {}
    for per_channel in (True, False):
        quantized = convert(calibrated(block.eval(), tmp_path, per_channel=per_channel))
        with torch.no_grad():
            wanted, found = block(pictures), quantized(pictures)
        error = (wanted - found).square().mean((0, 2, 3))
        ratios[per_channel] = (wanted - wanted.mean((0, 2, 3), keepdim=True)).square().mean(
            (0, 2, 3)
        ) / error
    assert 10 * ratios[True].min().log10() > 25
    assert 10 * ratios[False].min().log10() < 5


def test_calibration_stops_when_it_is_asked_to(tmp_path: Path) -> None:
    prepared = prepare(capture(Residual().eval(), SIZE), make_scheme())
    here = open_workspace(tmp_path)
    seen: list[int] = []
    here.report = lambda message, done=0, total=0, **metrics: seen.append(done)
    here.stopping = lambda: len(seen) == 3
    with pytest.raises(Interrupted, match="after 6 of 16"):
        calibrate(prepared, walk(torch.randn(8, 3, SIZE, SIZE), 2), 8, here)
