"""From a symmetric INT8 Q/DQ graph to one whose INT8 kernels ONNX Runtime's CPU code finds.

The master graph has int8 activations with zero point 0, which TensorRT and OpenVINO want. ONNX
Runtime then cannot fold a ReLU into the quantization behind it, keeps float operators between the
INT8 ones and is about three times slower. The rewrite changes spelling, not numbers:

- activations become uint8 of the same scale: with zero point 0 behind an operator that gives no
  negative numbers, else with zero point 128, which is int8 shifted;
- with zero point 0 there is room up to 255; what int8 cuts off at 127 is cut off on the integers,
  which costs next to nothing, and takes in the ReLU or the ReLU6 in front;
- a float bias becomes int32 of scale (input scale x weight scale), as the integer kernels add it;
- the weight of a convolution whose result is read in float (by a hard swish, say) becomes float:
  there is no INT8 kernel for it, and the weight would be dequantized anew for every picture;
- every weight gets a zero point of its own: one that several share makes ONNX Runtime 1.32 fail
  with `session.x64quantprecision`, which processors without VNNI need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from enginehouse.backends._onnxruntime_graph import Graph

if TYPE_CHECKING:
    import onnx

FloatArray = NDArray[np.float32]

_HIGHEST = 127


def onnxruntime_from_symmetric(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same network, spelled for ONNX Runtime on CPU.

    Args:
        model: explicit Q/DQ, int8, zero points 0; what is spelled otherwise stays as it is.

    Returns:
        A new, checked model.
    """
    import onnx

    result = onnx.ModelProto()
    result.CopyFrom(model)
    graph = Graph(result)
    _separate_zero_points(graph)
    widened = _widen_activations(graph)
    _widen_weights(graph)
    _quantize_biases(graph)
    graph.finish(widened)
    onnx.checker.check_model(result)
    return result


def _separate_zero_points(graph: Graph) -> None:
    """Give each quantized weight its own zero point."""
    for number, node in enumerate(graph.nodes):
        if (
            node.op_type == "DequantizeLinear"
            and len(node.input) > 2
            and graph.is_constant(node.input[0])
            and (zero_point := graph.read_constant(node.input[2])) is not None
        ):
            node.input[2] = graph.add_constant(f"weight_zero_point_{number}", zero_point)


def _widen_activations(graph: Graph) -> set[str]:
    """int8 to uint8 in every activation's Q and its DQs; gives the names of these tensors."""
    from onnx import helper

    zero = graph.add_constant("activation_zero_point_0", np.array(0, np.uint8))
    middle = graph.add_constant("activation_zero_point_128", np.array(128, np.uint8))
    # All signs are told before any ReLU goes.
    signs = {
        node.output[0]: graph.is_non_negative(node.input[0])
        for node in graph.nodes
        if node.op_type == "QuantizeLinear" and _is_symmetric_activation(node, graph)
    }
    nodes: list[onnx.NodeProto] = []
    for node in graph.nodes:
        nodes.append(node)
        output = node.output[0]
        if output not in signs:
            continue
        is_positive = signs[output]
        for user in (node, *graph.list_consumers(output)):
            user.input[2] = zero if is_positive else middle
        if is_positive and not _is_cut_off(node, graph):
            highest = graph.add_constant(*_name_highest(_absorb(node, graph)))
            node.output[0] = f"{output}_up_to_255"
            nodes.append(
                helper.make_node(
                    "Clip", [node.output[0], zero, highest], [output], f"{node.name}_cut_off"
                )
            )
    graph.nodes = _drop_unread(nodes)
    graph.look_again()
    return set(signs)


def _is_symmetric_activation(node: onnx.NodeProto, graph: Graph) -> bool:
    zero_point = graph.read_constant(node.input[2]) if len(node.input) > 2 else None
    return (
        not graph.is_constant(node.input[0])
        and zero_point is not None
        and zero_point.dtype == np.int8
        and zero_point.size == 1
        and not zero_point.any()
        and all(
            user.op_type == "DequantizeLinear" and len(user.input) > 2
            for user in graph.list_consumers(node.output[0])
        )
    )


def _is_cut_off(node: onnx.NodeProto, graph: Graph) -> bool:
    """Whether a Q reads, past a max pool, what was dequantized with its own scale."""
    pool = graph.find_producer(node.input[0])
    if pool is None or pool.op_type != "MaxPool":
        return False
    source = graph.find_producer(pool.input[0])
    return (
        source is not None
        and source.op_type == "DequantizeLinear"
        and graph.read_constant(source.input[1]) == graph.read_constant(node.input[1])
    )


def _absorb(node: onnx.NodeProto, graph: Graph) -> int:
    """Let a Q read past a ReLU or a clip at 0; gives the highest integer that may be left."""
    source = graph.find_producer(node.input[0])
    scale = graph.read_constant(node.input[1])
    if source is None or source.op_type not in {"Clip", "Relu"} or scale is None:
        return _HIGHEST
    low, high = graph.read_limits(source)
    if low != 0 or not graph.is_read_only_by("QuantizeLinear", node.input[0]):
        return _HIGHEST
    node.input[0] = source.input[0]
    return int(min(float(np.round(np.float32(high) / scale)), _HIGHEST))


def _name_highest(value: int) -> tuple[str, NDArray[np.uint8]]:
    return f"activation_highest_{value}", np.array(value, np.uint8)


def _drop_unread(nodes: list[onnx.NodeProto]) -> list[onnx.NodeProto]:
    """Without the ReLUs and clips that nobody reads any more."""
    read = {name for node in nodes for name in node.input}
    return [n for n in nodes if n.op_type not in {"Clip", "Relu"} or n.output[0] in read]


def _widen_weights(graph: Graph) -> None:
    """The weights of convolutions that give float become float."""
    for node in graph.nodes:
        if node.op_type != "Conv" or graph.is_read_only_by("QuantizeLinear", node.output[0]):
            continue
        source = graph.find_producer(node.input[1])
        if source is not None and source.op_type == "DequantizeLinear":
            weight = _dequantize(source, graph)
            if weight is not None:
                node.input[1] = graph.add_constant(f"{source.input[0]}_float", weight)
    read = {name for node in graph.nodes for name in node.input}
    graph.nodes = [
        node
        for node in graph.nodes
        if not graph.is_constant(node.input[0] if node.input else "") or node.output[0] in read
    ]
    graph.look_again()


def _dequantize(node: onnx.NodeProto, graph: Graph) -> FloatArray | None:
    """What a DQ makes of a symmetric weight, with a scale per output channel or one for all."""
    values, scale = graph.read_constant(node.input[0]), graph.read_constant(node.input[1])
    axis = next((item.i for item in node.attribute if item.name == "axis"), 1)
    if values is None or scale is None or (scale.size > 1 and axis != 0):
        return None
    shape = (-1, *(1 for _ in values.shape[1:])) if scale.size > 1 else ()
    result: FloatArray = values.astype(np.float32) * scale.reshape(shape)
    return result


def _quantize_biases(graph: Graph) -> None:
    """Float biases of quantized Conv and Gemm to int32 with a DequantizeLinear."""
    from onnx import helper

    nodes: list[onnx.NodeProto] = []
    for node in graph.nodes:
        found = _find_bias_scale(node, graph)
        if found is not None:
            scale, bias = found
            name = f"{node.input[2]}_int32_{len(nodes)}"
            inputs = [
                graph.add_constant(name, np.round(bias / scale).astype(np.int32)),
                graph.add_constant(f"{name}_scale", scale),
            ]
            node.input[2] = f"{name}_float"
            nodes.append(
                helper.make_node(
                    "DequantizeLinear", inputs, [node.input[2]], f"{name}_dequantize", axis=0
                )
            )
        nodes.append(node)
    graph.nodes = nodes
    graph.look_again()


def _find_bias_scale(node: onnx.NodeProto, graph: Graph) -> tuple[FloatArray, FloatArray] | None:
    """Scale per channel and float bias of a Conv or Gemm with two quantized inputs."""
    if node.op_type not in {"Conv", "Gemm"} or len(node.input) < 3:
        return None
    bias = graph.read_constant(node.input[2])
    scales = []
    for name in node.input[:2]:
        source = graph.find_producer(name)
        if source is None or source.op_type != "DequantizeLinear":
            return None
        scales.append(graph.read_constant(source.input[1]))
    if bias is None or bias.ndim != 1 or scales[0] is None or scales[1] is None:
        return None
    scale = (scales[0] * scales[1].reshape(-1)).astype(np.float32)
    scale = np.ascontiguousarray(np.broadcast_to(scale, bias.shape))
    # A bias beyond int32 stays float: right, if slower.
    fits = bool((np.abs(bias) < scale.astype(np.float64) * np.iinfo(np.int32).max).all())
    return (scale, bias) if fits else None
