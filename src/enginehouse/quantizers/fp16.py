"""fp16 by casts in the graph: half the bytes, 11 bits, numbers up to 65504."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from enginehouse.engine import Pictures, Precision
from enginehouse.quantizer import Material, Quantized
from enginehouse.quantizers import none
from enginehouse.quantizers._autocast import CastOptions, cast_graph, check_installed

if TYPE_CHECKING:
    from onnx import ModelProto

LIBRARIES = ("numpy", "nvidia-modelopt", "onnx", "onnxruntime", "onnxscript", "torch")
PRECISION: Precision = "fp16"

restore = none.restore


class Options(CastOptions):
    """What stays in fp32."""

    largest: float = Field(
        512,
        ge=1,
        le=65504,
        description="What takes or gives a larger number on real pictures stays in fp32; beyond "
        "512, steps of fp16 are 0.5 and more.",
    )


def quantize(material: Material, options: Options) -> Quantized:
    """The weights as they are: casts come into the exported graph.

    Raises:
        QuantizationError: AutoCast is not installed.
    """
    check_installed()
    return none.quantize(material, none.Options())


def rewrite(proto: ModelProto, pictures: Pictures, options: Options) -> ModelProto:
    """The graph in fp16 but for its ends and what the options name.

    Raises:
        QuantizationError, ExportError: as `cast_graph`.
    """
    return cast_graph(proto, "fp16", options.keep_float, pictures, options.largest)
