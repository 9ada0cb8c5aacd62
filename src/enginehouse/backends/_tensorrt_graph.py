"""What TensorRT's parser would get wrong without a word, looked for before the build.

TensorRT knows signed INT8 with zero point 0 only. It reads uint8 Q/DQ as int8 and ignores other
zero points or rejects them, depending on the node: in the first case the engine gives wrong
numbers and no error.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from enginehouse.errors import EngineError

if TYPE_CHECKING:
    import onnx

_Q_AND_DQ = frozenset({"QuantizeLinear", "DequantizeLinear"})


def check_symmetric(path: Path) -> None:
    """Refuse a graph with a uint8 or asymmetric QuantizeLinear or DequantizeLinear.

    Args:
        path: ONNX file.

    Raises:
        EngineError: names the first such node and what is wrong with it.
    """
    import onnx

    graph = onnx.load(path).graph
    nodes = list(_iter_nodes(graph))
    constants = {item.name: item for part in _iter_graphs(graph) for item in part.initializer}
    for node in nodes:
        for item in node.attribute:
            if node.op_type == "Constant" and item.name == "value":
                constants[node.output[0]] = item.t
    for node in nodes:
        if node.op_type in _Q_AND_DQ and (fault := _find_fault(node, constants)):
            raise EngineError(
                f"TensorRT takes symmetric int8 only; node {node.name or node.output[0]!r} "
                f"({node.op_type}) {fault}.",
                "Quantize with int8_ptq, which writes int8 with zero point 0.",
            )


def _iter_graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for part in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
                yield from _iter_graphs(part)


def _iter_nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for part in _iter_graphs(graph):
        yield from part.node


def _find_fault(node: onnx.NodeProto, constants: dict[str, onnx.TensorProto]) -> str | None:
    """What TensorRT would not take of a Q or DQ node, or None."""
    from onnx import TensorProto, numpy_helper

    unsigned = {TensorProto.UINT2, TensorProto.UINT4, TensorProto.UINT8, TensorProto.UINT16}
    if len(node.input) < 3 or not node.input[2]:
        # Without a zero point a Q gives `output_dtype`, uint8 unless it is set; a DQ takes what
        # its input is, which a Q (judged by itself) or a constant says.
        if node.op_type == "QuantizeLinear":
            chosen = [item.i for item in node.attribute if item.name == "output_dtype"]
            kind = chosen[0] if chosen and chosen[0] else TensorProto.UINT8
        else:
            source = constants.get(node.input[0])
            kind = source.data_type if source is not None else TensorProto.INT8
        return _name_unsigned(kind) if kind in unsigned else None
    zero_point = constants.get(node.input[2])
    if zero_point is None:
        return "has a zero point that is computed, not constant"
    if zero_point.data_type in unsigned:
        return _name_unsigned(zero_point.data_type)
    values = numpy_helper.to_array(zero_point).reshape(-1)
    wrong = values[values != 0]
    return f"has zero point {wrong[0]}" if wrong.size else None


def _name_unsigned(kind: int) -> str:
    from onnx import TensorProto

    return f"is {TensorProto.DataType.Name(kind).lower()}"
