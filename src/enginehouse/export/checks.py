"""What an exported graph must keep: valid ONNX, the contract, its types, and symmetric INT8."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from enginehouse.engine import Contract, Precision
from enginehouse.errors import ExportError

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, TensorProto

PRODUCTS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})


def check_graph(model: ModelProto, contract: Contract) -> None:
    """Run ONNX's own full check; compare input and output with the contract.

    Raises:
        ExportError: says what is wrong.
    """
    import onnx

    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise ExportError(
            f"The exported graph is not valid ONNX: {error}",
            "Choose another architecture, or another export.opset.",
        ) from error
    size, types = contract.size, onnx.TensorProto
    wanted = [
        (contract.input_name, types.UINT8, ["batch", 3, size, size]),
        (contract.output_name, types.FLOAT, ["batch", len(contract.classes)]),
    ]
    found = [
        (
            value.name,
            value.type.tensor_type.elem_type,
            [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim],
        )
        for value in (*model.graph.input, *model.graph.output)
    ]
    if found != wanted:
        raise ExportError(
            f"The exported graph takes and gives {found}; the contract wants {wanted}.",
            "The architecture must take any batch and give one logit per class; choose another.",
        )


def check_symmetric(model: ModelProto) -> None:
    """Refuse a quantized graph that TensorRT would read wrongly.

    TensorRT takes uint8 as int8 and zero points as 0, both without a word.

    Raises:
        ExportError: no Q/DQ pair, or a zero point that is not int8 and 0; names the node.
    """
    import onnx

    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    nodes = [n for n in model.graph.node if n.op_type in ("QuantizeLinear", "DequantizeLinear")]
    if not nodes:
        raise ExportError(
            "The quantized graph holds no QuantizeLinear or DequantizeLinear node.",
            "Choose an architecture with convolutions or linear layers.",
        )
    for node in nodes:
        zero = tensors.get(node.input[2]) if len(node.input) > 2 else None
        if zero is None or zero.data_type != onnx.TensorProto.INT8:
            kind = onnx.TensorProto.DataType.Name(zero.data_type) if zero else "no constant"
            raise ExportError(
                f"{node.name} has a zero point of type {kind}; wanted INT8.",
                "Use a symmetric quantizer such as int8_ptq.",
            )
        if onnx.numpy_helper.to_array(zero).any():
            raise ExportError(
                f"{node.name} has a zero point other than 0.",
                "Use a symmetric quantizer such as int8_ptq.",
            )


def check_per_channel(model: ModelProto) -> None:
    """Refuse INT8 weights of convolutions and matrix products that share one scale.

    The channel with the largest weights then sets the steps for all: of a depthwise convolution
    whose channels differ by orders of magnitude, whole channels are rounded to zero.

    Raises:
        ExportError: names the node, and how many of its channels are gone.
    """
    from onnx import numpy_helper

    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    makers = {name: node for node in model.graph.node for name in node.output}
    for node in model.graph.node:
        axis = _find_channel_axis(node)
        source = makers.get(node.input[1]) if axis is not None else None
        if source is not None and source.op_type == "Transpose":
            axis, source = _find_order(source)[axis or 0], makers.get(source.input[0])
        if axis is None or source is None or source.op_type != "DequantizeLinear":
            continue
        weight, scale = _find_weight(source, makers, tensors), tensors.get(source.input[1])
        if weight is None or scale is None or numpy_helper.to_array(scale).size > 1:
            continue
        channels = np.moveaxis(weight, axis, 0).reshape(weight.shape[axis], -1)
        if len(channels) > 1:
            gone = int((~channels.any(axis=1)).sum())
            raise ExportError(
                f"The weights of {node.name} ({node.op_type}) have one scale per tensor: {gone} "
                f"of their {len(channels)} channels are rounded to zero. Wanted is one scale per "
                "channel (per-channel).",
                "Use a quantizer with per-channel weights, such as int8_ptq.",
            )


def _find_channel_axis(node: NodeProto) -> int | None:
    """The axis of a product's second input that numbers what it gives; None for no product."""
    if node.op_type == "Conv":
        return 0
    if node.op_type == "ConvTranspose":
        return 1
    if node.op_type == "Gemm":
        transposed = any(item.name == "transB" and item.i for item in node.attribute)
        return 0 if transposed else 1
    return -1 if node.op_type == "MatMul" else None


def _find_order(transpose: NodeProto) -> list[int]:
    """The axis of the input that each axis of a Transpose's output is."""
    return next(list(item.ints) for item in transpose.attribute if item.name == "perm")


def _find_weight(
    dequantize: NodeProto, makers: Mapping[str, NodeProto], tensors: Mapping[str, TensorProto]
) -> NDArray[Any] | None:
    """The INT8 numbers behind a DequantizeLinear; None where they depend on the pictures."""
    from onnx import numpy_helper

    name = dequantize.input[0]
    if name in tensors:
        return numpy_helper.to_array(tensors[name])
    maker = makers.get(name)
    if maker is None or maker.op_type != "QuantizeLinear" or maker.input[0] not in tensors:
        return None
    weight = numpy_helper.to_array(tensors[maker.input[0]])
    scale = numpy_helper.to_array(tensors[maker.input[1]])
    return np.round(weight / scale) if scale.size == 1 else weight


def check_precision(model: ModelProto, precision: Precision) -> None:
    """Refuse a float graph that does not compute in the type that it promises.

    Strongly typed engines take the types as they stand: nothing is cast where they are not.

    Raises:
        ExportError: no convolution or matrix product is of that type, or a node gives a type that
            the precision has no place for; names the node.
    """
    import onnx

    types = onnx.TensorProto
    half: dict[Precision, int] = {"fp16": types.FLOAT16, "bf16": types.BFLOAT16}
    foreign = {types.FLOAT16, types.BFLOAT16} - {half.get(precision)}
    kinds = _infer_kinds(model)
    for node in model.graph.node:
        for name in node.output:
            if kinds.get(name) in foreign:
                raise ExportError(
                    f"{node.name} ({node.op_type}) gives {types.DataType.Name(kinds[name])}; "
                    f"a graph of precision {precision} has no place for that.",
                    "Choose another quantizer or architecture.",
                )
    products = [node for node in model.graph.node if node.op_type in PRODUCTS]
    wanted = half.get(precision, types.FLOAT)
    if products and not any(kinds.get(node.input[1]) == wanted for node in products):
        found = sorted({types.DataType.Name(kinds[node.input[1]]) for node in products})
        raise ExportError(
            f"None of the {len(products)} convolutions and matrix products of the {precision} "
            f"graph computes in {types.DataType.Name(wanted)}; they compute in {', '.join(found)}.",
            "Keep less in fp32, or choose another quantizer.",
        )


def _infer_kinds(model: ModelProto) -> dict[str, int]:
    """Element type by tensor name."""
    import onnx

    graph = onnx.shape_inference.infer_shapes(model).graph
    kinds = {tensor.name: int(tensor.data_type) for tensor in graph.initializer}
    for value in (*graph.value_info, *graph.input, *graph.output):
        kinds[value.name] = value.type.tensor_type.elem_type
    return kinds
