"""bf16 by casts in the graph: half the bytes, 8 bits, the range of fp32."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginehouse.engine import Pictures, Precision
from enginehouse.quantizer import Material, Quantized
from enginehouse.quantizers import none
from enginehouse.quantizers._autocast import CastOptions, cast_graph, check_installed

if TYPE_CHECKING:
    from onnx import ModelProto

LIBRARIES = ("numpy", "nvidia-modelopt", "onnx", "onnxruntime", "onnxscript", "torch")
PRECISION: Precision = "bf16"

restore = none.restore


class Options(CastOptions):
    """What stays in fp32."""


def quantize(material: Material, options: Options) -> Quantized:
    """The weights as they are: casts come into the exported graph.

    Raises:
        QuantizationError: AutoCast is not installed.
    """
    check_installed()
    return none.quantize(material, none.Options())


def rewrite(proto: ModelProto, pictures: Pictures, options: Options) -> ModelProto:
    """The graph in bf16 but for its ends and what the options name.

    Raises:
        QuantizationError, ExportError: as `cast_graph`.
    """
    return cast_graph(proto, "bf16", options.keep_float, pictures)
