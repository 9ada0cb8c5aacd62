"""No quantizer: the network as it was trained, which all others are held against."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginehouse.artifact import Config
from enginehouse.engine import Pictures, Precision
from enginehouse.errors import QuantizationError, first_line
from enginehouse.quantizer import Material, Quantized, State

if TYPE_CHECKING:
    import torch
    from onnx import ModelProto

LIBRARIES = ("numpy", "onnx", "torch")
PRECISION: Precision = "fp32"


class Options(Config):
    """There is nothing to set."""


def quantize(material: Material, options: Options) -> Quantized:
    """The weights."""
    return Quantized({name: each.clone() for name, each in material.net.state_dict().items()})


def restore(
    net: torch.nn.Module, state: State, kept_float: tuple[str, ...], size: int
) -> torch.nn.Module:
    """The network with these weights.

    Args:
        net: the architecture, in evaluation mode, on the CPU; its weights are replaced.
        state: what `quantize` returned.
        kept_float, size: not looked at; all of it is in float.

    Raises:
        QuantizationError: the state is not one of this architecture.
    """
    try:
        net.load_state_dict(state)
    except RuntimeError as error:
        raise QuantizationError(
            f"The weights do not fit the network as it is built here: {first_line(error)}",
            "Quantize again with the libraries that are installed now.",
        ) from error
    return net


def rewrite(proto: ModelProto, pictures: Pictures, options: Options) -> ModelProto:
    """The exported graph as it is."""
    return proto
