"""A quantizer that writes another graph than torch computes; stands in for `quantizers/`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginehouse.engine import Pictures
from enginehouse.quantizers import int8_ptq

if TYPE_CHECKING:
    from onnx import ModelProto

LIBRARIES, PRECISION, Options = int8_ptq.LIBRARIES, int8_ptq.PRECISION, int8_ptq.Options
quantize, restore = int8_ptq.quantize, int8_ptq.restore


def rewrite(proto: ModelProto, pictures: Pictures, options: int8_ptq.Options) -> ModelProto:
    """The graph, with the third Relu turned into a change of sign."""
    activations = [node for node in proto.graph.node if node.op_type == "Relu"]
    activations[2].op_type = "Neg"
    return proto
