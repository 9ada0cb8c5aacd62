"""The model families: names, heads, and one error for a wrong name."""

from __future__ import annotations

import pytest
import torch

from enginehouse.choices import list_choices, load_choice
from enginehouse.errors import RecipeError

FAMILIES = sorted(list_choices("models"))
# One per shape of head: a linear layer, in a Sequential, a convolution, auxiliary heads.
TORCHVISION = (
    "resnet18",
    "mobilenet_v3_small",
    "squeezenet1_1",
    "googlenet",
    "shufflenet_v2_x0_5",
    "densenet121",
    "convnext_tiny",
    "swin_t",
)


@pytest.mark.parametrize("name", TORCHVISION)
def test_every_shape_of_torchvision_head_is_replaced(name: str) -> None:
    net = load_choice("models", "torchvision").build_model(name, 5).eval()
    with torch.inference_mode():
        logits = net(torch.zeros(2, 3, 64, 64))
    assert logits.shape == (2, 5)


def test_inception_trains_without_auxiliary_logits() -> None:
    net = load_choice("models", "torchvision").build_model("inception_v3", 3)
    with torch.inference_mode():
        assert net(torch.zeros(2, 3, 80, 80)).shape == (2, 3)


@pytest.mark.parametrize("name", load_choice("models", "tiny").list_names())
@pytest.mark.parametrize("size", [16, 40])
def test_tiny_networks_take_any_size(name: str, size: int) -> None:
    net = load_choice("models", "tiny").build_model(name, 4)
    assert net(torch.zeros(2, 3, size, size)).shape == (2, 4)


@pytest.mark.parametrize(
    ("family", "name"), [("tiny", "tiny_cnn"), ("torchvision", "mobilenet_v3_small")]
)
def test_weights_come_from_the_current_seed(family: str, name: str) -> None:
    first, again, other = (_weights(family, name, seed) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def _weights(family: str, name: str, seed: int) -> torch.Tensor:
    torch.manual_seed(seed)
    net: torch.nn.Module = load_choice("models", family).build_model(name, 3)
    return next(net.parameters()).detach()


def test_torchvision_lists_classification_only() -> None:
    names = load_choice("models", "torchvision").list_names()
    assert {"resnet18", "vit_b_16", "efficientnet_b0"} <= set(names)
    assert not [name for name in names if "segmentation" in name or "rcnn" in name or "r3d" in name]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("verb", ["check_name", "build_model"])
def test_a_wrong_name_is_refused_with_the_near_ones(family: str, verb: str) -> None:
    wrong = {"tiny": "tiny_cn", "torchvision": "resnet81"}[family]
    right = {"tiny": "tiny_cnn", "torchvision": "resnet18"}[family]
    module = load_choice("models", family)
    with pytest.raises(RecipeError, match=f"{wrong}.*did you mean.*{right}"):
        module.check_name(wrong) if verb == "check_name" else module.build_model(wrong, 2)
    module.check_name(right)
