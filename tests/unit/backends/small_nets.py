"""Small relatives of real architectures, quantized: the graphs that backends are tried on."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from torch import nn
from torchvision.models import ConvNeXt, MobileNetV3, ResNet, VisionTransformer
from torchvision.models.convnext import CNBlockConfig
from torchvision.models.mobilenetv3 import InvertedResidualConfig
from torchvision.models.resnet import BasicBlock

from enginehouse.choices import load_choice
from enginehouse.engine import Contract
from enginehouse.export.canonical import make_canonical
from enginehouse.export.graph import onnx_from_torch, wrap_network
from enginehouse.preparation import Preparation
from enginehouse.quantizer import Material
from enginehouse.train.network import normalise
from tests.unit.tiny_engines import open_workspace

SIZE = 32
CLASSES = ("a", "b", "c", "d")
CONTRACT = Contract(preparation=Preparation(size=SIZE), classes=CLASSES)
_MODEL: Any = SimpleNamespace(
    mean=(0.5,) * 3, std=(0.25,) * 3, problem="single_label", temperature=1.0, size=SIZE
)


def _make_mobilenet() -> nn.Module:
    """Squeeze-and-excitation gates, hard swish, a depthwise convolution, an addition."""
    norm = partial(nn.BatchNorm2d, eps=0.001, momentum=0.01)
    blocks = [
        InvertedResidualConfig(16, 3, 16, 16, True, "RE", 2, 1, 1.0),
        InvertedResidualConfig(16, 3, 32, 24, False, "RE", 2, 1, 1.0),
        InvertedResidualConfig(24, 5, 48, 24, True, "HS", 1, 1, 1.0),
    ]
    return MobileNetV3(blocks, 64, num_classes=len(CLASSES), norm_layer=norm)


NETS: dict[str, Callable[[], nn.Module]] = {
    "resnet": lambda: ResNet(BasicBlock, [1, 1, 1, 1], num_classes=len(CLASSES)),
    "mobilenet": _make_mobilenet,
    "convnext": lambda: ConvNeXt(
        [CNBlockConfig(16, 32, 2), CNBlockConfig(32, None, 1)], num_classes=len(CLASSES)
    ),
    "vit": lambda: VisionTransformer(SIZE, 8, 2, 2, 32, 64, num_classes=len(CLASSES)),
}


def draw(num_pictures: int, seed: int) -> NDArray[np.uint8]:
    """Blots with some noise, uint8 [n, 3, 32, 32]."""
    rng = np.random.default_rng(seed)
    blots = rng.integers(0, 256, (num_pictures, 3, 4, 4)).repeat(8, axis=2).repeat(8, axis=3)
    return (blots + rng.normal(0, 10, blots.shape)).clip(0, 255).astype(np.uint8)


def make_net(name: str) -> nn.Module:
    """In evaluation mode, with BatchNorm that has seen pictures, and logits of some size."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = NETS[name]()
        head = [module for module in net.modules() if isinstance(module, nn.Linear)][-1]
        nn.init.normal_(head.weight)
    inputs = _normalise(draw(32, seed=1))
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = None
    with torch.no_grad():
        net.train()(inputs)
        net.eval()
        head.weight /= net(inputs).std(dim=0).mean()
    return net


def quantize_net(net: nn.Module, folder: Path, kept_float: Collection[str] = ()) -> nn.Module:
    """INT8 but for those layers, calibrated."""
    quantizer: Any = load_choice("quantizers", "int8_ptq")

    def calibration() -> Iterator[torch.Tensor]:
        yield _normalise(draw(32, seed=2))

    material = Material(
        net=copy.deepcopy(net),
        model=_MODEL,
        pack=None,  # type: ignore[arg-type]
        calibration=calibration,
        num_pictures=32,
        validation=None,  # type: ignore[arg-type]
        seed=0,
        here=open_workspace(folder),
    )
    options = quantizer.Options(sensitivity_pictures=0)
    state = quantizer.quantize(material, options).state
    restored: nn.Module = quantizer.restore(copy.deepcopy(net), state, tuple(kept_float), SIZE)
    return restored


def export_net(net: nn.Module) -> onnx.ModelProto:
    """From pixels to probabilities."""
    proto, _ = onnx_from_torch(wrap_network(net, _MODEL), CONTRACT, 20)
    return make_canonical(proto, {})


def run_torch(net: nn.Module, pictures: NDArray[np.uint8]) -> NDArray[np.float32]:
    """What torch says of pictures, float32 [n, classes]."""
    with torch.inference_mode():
        answers: NDArray[np.float32] = wrap_network(net, _MODEL)(torch.from_numpy(pictures)).numpy()
    return answers


def _normalise(pictures: NDArray[np.uint8]) -> torch.Tensor:
    return normalise(torch.from_numpy(pictures), _MODEL.mean, _MODEL.std)
