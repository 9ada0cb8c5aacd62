"""A quantizer as it should not be: one scale for all output channels of a weight.

Depthwise convolutions lose whole channels by it. It is here to see that such a candidate is caught.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginehouse.artifact import Config
from enginehouse.engine import Pictures, Precision
from enginehouse.quantizer import Material, Quantized, State
from enginehouse.quantizers._calibrate import calibrate, make_scheme
from enginehouse.quantizers._graph import capture, convert, load_state, prepare

if TYPE_CHECKING:
    import torch
    from onnx import ModelProto
    from torch.fx import GraphModule

LIBRARIES = ("torch", "torchao")
PRECISION: Precision = "int8"


class Options(Config):
    """It has none."""


def quantize(material: Material, options: Options) -> Quantized:
    """Calibrate, as int8_ptq does."""
    prepared = _prepare(material.net, material.model.size)
    calibrate(prepared, material.calibration, material.num_pictures, material.here)
    return Quantized({name: value.clone() for name, value in prepared.state_dict().items()})


def restore(
    net: torch.nn.Module, state: State, kept_float: tuple[str, ...], size: int
) -> torch.nn.Module:
    """The quantized network."""
    prepared = _prepare(net, size)
    load_state(prepared, state)
    return convert(prepared)


def rewrite(proto: ModelProto, pictures: Pictures, options: Options) -> ModelProto:
    """The exported graph as it is."""
    return proto


def _prepare(net: torch.nn.Module, size: int) -> GraphModule:
    return prepare(capture(net, size), make_scheme(per_channel=False))
