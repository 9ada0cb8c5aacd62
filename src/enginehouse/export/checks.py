"""What an exported graph must keep: valid ONNX, the contract, and symmetric INT8."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginehouse.engine import Contract
from enginehouse.errors import ExportError

if TYPE_CHECKING:
    from onnx import ModelProto


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
