"""What a recipe changes in a network: head, attention, norms, strides, stem; and its stages."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from enginehouse.architecture.dilation import dilate
from enginehouse.architecture.head import find_head, replace_head
from enginehouse.architecture.probe import find_last_map, trace_calls
from enginehouse.architecture.stages import number_stages
from enginehouse.choices import load_choice
from enginehouse.errors import RecipeError
from enginehouse.export.export import ExportConfig, export
from enginehouse.ingest.record import DataVersion
from enginehouse.quantize.quantize import quantize
from enginehouse.quantize.record import QuantizeConfig
from enginehouse.train.network import build_network, load_network
from enginehouse.train.record import ModelConfig
from tests.unit.tiny_pack import TINY, open_workspace, seal_pack, train_tiny

HEADS = {
    "resnet18": "fc",
    "vgg11": "classifier.6",
    "mobilenet_v3_small": "classifier.3",
    "squeezenet1_1": "classifier.1",
    "densenet121": "classifier",
    "efficientnet_b0": "classifier.1",
    "convnext_tiny": "classifier.2",
    "vit_b_16": "heads.head",
    "swin_t": "head",
}
EVERYTHING = {
    "attention": "cbam",
    "norm": "group",
    "small_input": True,
    "head": {"dropout": 0.1, "hidden": 8},
}


def build(name: str, num_classes: int = 5, **changes: Any) -> nn.Module:
    family = "tiny" if name.startswith("tiny") else "torchvision"
    model = ModelConfig.model_validate({"family": family, "name": name, **changes})
    return build_network(model, num_classes)


@pytest.fixture(scope="module")
def nets() -> dict[str, nn.Module]:
    """Plain networks to look into; tests that change one take a copy."""
    return {name: build(name) for name in HEADS}


@pytest.mark.parametrize("name", HEADS)
def test_the_head_is_found_and_replaced_whatever_its_shape(
    name: str, nets: dict[str, nn.Module]
) -> None:
    net = nets[name]
    assert find_head(net) == HEADS[name]
    assert len(net.get_submodule(find_head(net)).weight) == 5
    changed = copy.deepcopy(net) if name != "vgg11" else net  # half a gigabyte
    replace_head(changed, dropout=0.2, hidden=16)
    calls = trace_calls(changed)
    assert calls[-1].given == (1, 5) or (1, 5, 1, 1) in [call.given for call in calls]
    parts = [
        call.name.removeprefix(f"{HEADS[name]}.") for call in calls if HEADS[name] in call.name
    ]
    assert parts[:5] == ["dropout", "hidden", "relu", "dropout2", "logits"]
    assert len(changed.get_submodule(find_head(changed)).weight) == 5


def test_dropout_alone_keeps_the_heads_weights() -> None:
    net = build("tiny_cnn")
    head = net.get_submodule("8")
    replace_head(net, dropout=0.5, hidden=0)
    assert net.get_submodule("8.logits") is head
    pictures = torch.randn(4, 3, 32, 32)
    net.eval()
    assert torch.equal(net(pictures), net(pictures))
    net.get_submodule("8").train()
    assert not torch.equal(net(pictures), net(pictures))


@pytest.mark.parametrize("kind", ["se", "cbam"])
@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("tiny_cnn", "5.attention"),
        ("resnet18", "layer4.attention"),
        ("densenet121", "features.attention"),
        ("squeezenet1_1", "features.attention"),
        ("googlenet", "inception5b.attention"),
        ("shufflenet_v2_x0_5", "conv5.attention"),
    ],
)
def test_attention_stands_after_the_last_stage(kind: str, name: str, place: str) -> None:
    net = build(name, attention=kind)
    attention = net.get_submodule(place)
    taken = [call for call in trace_calls(net) if call.name == place]
    assert len(taken) == 1
    assert taken[0].taken == taken[0].given
    maps = torch.randn(2, taken[0].given[1], 4, 4)
    gates = attention(maps) / maps
    assert ((gates > 0) & (gates < 1)).all()
    # SE weighs channels, the same at every place; CBAM weighs places as well.
    assert (gates.std((2, 3)) < 1e-5).all() == (kind == "se")


def test_group_norm_takes_the_largest_divisor_and_keeps_the_scales() -> None:
    torch.manual_seed(0)
    plain = build("shufflenet_v2_x0_5")
    for parameter in plain.parameters():
        nn.init.normal_(parameter)
    torch.manual_seed(0)
    net = build("shufflenet_v2_x0_5", norm="group")
    norms = {n: m for n, m in net.named_modules() if isinstance(m, nn.GroupNorm)}
    old = [n for n, m in plain.named_modules() if isinstance(m, nn.BatchNorm2d)]
    assert list(norms) == old
    assert not [m for m in net.modules() if isinstance(m, nn.BatchNorm2d)]
    for norm in norms.values():
        assert norm.num_channels % norm.num_groups == 0
        larger = range(norm.num_groups + 1, min(33, norm.num_channels + 1))
        assert not [n for n in larger if norm.num_channels % n == 0]
    own = {n for n in plain.state_dict() if "running" not in n and "tracked" not in n}
    assert net.state_dict().keys() == own


def test_timm_norms_keep_their_activation() -> None:
    pytest.importorskip("timm", reason="the extra timm is not installed")
    model = ModelConfig(family="timm", name="tf_efficientnet_lite0", norm="group")
    norm = build_network(model, 3).get_submodule("bn1")
    assert norm(torch.randn(2, 32, 4, 4)).min() == 0  # ReLU6


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v3_small", "efficientnet_b0"])
@pytest.mark.parametrize("stride", [16, 8])
def test_dilation_gives_the_stride_that_was_wanted(name: str, stride: int) -> None:
    net = build(name, output_stride=stride)
    assert find_last_map(net).given[2:] == (224 // stride,) * 2


@pytest.mark.parametrize(("stride", "finer"), [(16, 2), (8, 4)])
def test_dilated_features_are_the_old_ones_and_those_between(stride: int, finer: int) -> None:
    torch.manual_seed(0)
    plain = build("resnet18").eval()
    fine = copy.deepcopy(plain)
    dilate(fine, stride)
    assert fine.state_dict().keys() == plain.state_dict().keys()
    pictures = torch.randn(1, 3, 64, 64)
    maps = {}
    for name, net in (("plain", plain), ("fine", fine)):
        net.get_submodule("layer4").register_forward_hook(
            lambda _module, _taken, given, name=name: maps.update({name: given})
        )
        with torch.inference_mode():
            net(pictures)
    assert maps["plain"].shape[2:] == (2, 2)
    torch.testing.assert_close(maps["fine"][:, :, ::finer, ::finer], maps["plain"])


def test_small_input_keeps_the_resolution() -> None:
    net = build("resnet18", small_input=True)
    stem = net.get_submodule("conv1")
    assert (stem.kernel_size, stem.stride, stem.padding) == ((3, 3), (1, 1), (1, 1))
    assert find_last_map(net).given[2:] == (28, 28)
    # A 3x3 stem keeps its weights when it loses its stride.
    torch.manual_seed(3)
    plain = build("mobilenet_v3_small")
    torch.manual_seed(3)
    small = build("mobilenet_v3_small", small_input=True)
    name = "features.0.0.weight"
    assert torch.equal(plain.state_dict()[name], small.state_dict()[name])
    assert find_last_map(small).given[2] == 2 * find_last_map(plain).given[2]


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("vit_b_16", {"attention": "se"}, "no last convolutional stage.*\n.*ResNet"),
        ("vit_b_16", {"output_stride": 16}, "no last convolutional stage"),
        ("vit_b_16", {"small_input": True}, "begins with a stride of 16.*\n.*ResNet"),
        ("vit_b_16", {"norm": "group"}, "no BatchNorm.*\n.*norm: batch"),
        ("squeezenet1_1", {"output_stride": 8}, "cell per 8 px; SqueezeNet has one per 17"),
        ("densenet121", {"output_stride": 16}, "has one per 32 px, and one per 32 px"),
        ("inception_v3", {"output_stride": 16}, "no longer meet"),
        ("tiny_cnn", {"output_stride": 16}, "has one per 8 px"),
    ],
)
def test_a_change_without_a_place_is_refused(name: str, changes: Any, words: str) -> None:
    with pytest.raises(RecipeError, match=words):
        build(name, **changes)


def test_looking_leaves_the_network_and_the_random_numbers_alone() -> None:
    net = build("resnet18")
    net.get_submodule("bn1").eval()
    before = copy.deepcopy(net.state_dict())
    state = torch.get_rng_state()
    trace_calls(net)
    assert torch.equal(torch.get_rng_state(), state)
    assert net.training
    assert not net.get_submodule("bn1").training
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("tiny_cnn", EVERYTHING),
        ("resnet18", {"output_stride": 8, "attention": "se", "head": {"hidden": 8}}),
    ],
)
def test_a_changed_network_can_be_copied_and_exported(name: str, changes: Any) -> None:
    torch.manual_seed(0)
    net = build(name, **changes).eval()
    pictures = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        expected = net(pictures)
        assert torch.equal(copy.deepcopy(net)(pictures), expected)
        exported = torch.export.export(net, (pictures,)).module()
        torch.testing.assert_close(exported(pictures), expected)


def test_a_changed_network_goes_through_training_and_export(tmp_path: Path) -> None:
    pack = seal_pack(tmp_path)
    model = train_tiny(tmp_path, pack, model={**TINY, **EVERYTHING}, epochs=1)
    net = load_network(model, open_workspace(tmp_path))
    assert isinstance(net.get_submodule("8.hidden"), nn.Linear)
    plain = quantize(model, pack, QuantizeConfig(quantizer="none"), open_workspace(tmp_path))
    config = ExportConfig(num_parity_pictures=4)
    here = open_workspace(tmp_path)
    onnx = export(plain, model, pack, DataVersion(digest="d"), config, here)
    steps: Any = onnx.notes["parity"]
    assert [step["max_difference"] < 1e-3 for step in steps] == [True]


def first_of_each_stage(net: nn.Module) -> list[str]:
    firsts: dict[int, str] = {}
    for name, number in number_stages(net).items():
        firsts.setdefault(number, name)
    assert sorted(firsts) == list(range(len(firsts)))
    return [firsts[number] for number in sorted(firsts)]


def test_stages_go_from_the_picture_to_the_head(nets: dict[str, nn.Module]) -> None:
    assert first_of_each_stage(nets["resnet18"]) == [
        "conv1.weight",
        *(f"layer{number}.0.conv1.weight" for number in (1, 2, 3, 4)),
        "fc.weight",
    ]
    assert number_stages(nets["resnet18"])["bn1.weight"] == 0
    # One Sequential of features: its children are the stages.
    assert len(first_of_each_stage(nets["efficientnet_b0"])) == 10
    # A transformer: the tokens belong to the patches, the last norm to the last layer.
    stages = number_stages(nets["vit_b_16"])
    assert stages["class_token"] == stages["conv_proj.weight"] == 0
    assert stages["encoder.pos_embedding"] == 0
    assert stages["encoder.layers.encoder_layer_11.ln_1.weight"] == 12
    assert stages["encoder.ln.weight"] == 12
    assert max(stages.values()) == 13
    # The whole classifier is the head's stage.
    stages = number_stages(nets["mobilenet_v3_small"])
    assert stages["classifier.0.weight"] == max(stages.values())


def test_every_parameter_has_a_stage_also_after_changes() -> None:
    net = build("tiny_cnn", **EVERYTHING)
    stages = number_stages(net)
    assert stages.keys() == {name for name, _ in net.named_parameters()}
    assert stages["5.attention.places.weight"] == stages["5.stage.body.0.weight"]
    assert stages["8.hidden.weight"] == stages["8.logits.weight"] == max(stages.values())


def test_the_names_of_a_family_and_of_its_changes_do_not_meet() -> None:
    family = load_choice("models", "torchvision")
    own = set(family.build_model("resnet18", 5).state_dict())
    more = set(build("resnet18", attention="cbam").state_dict()) - own
    assert {name.rsplit(".", 3)[0] for name in more} <= {"layer4.attention", "layer4"}
