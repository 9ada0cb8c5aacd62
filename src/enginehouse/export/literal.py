"""A graph as it is meant, spelled so that ONNX Runtime's CPU code computes just that.

Between casts to fp16 ONNX Runtime computes in fp32 there and never rounds; of bf16 it knows the
casts only. So every number of such a type becomes fp32, rounded to its type right behind the
node that makes it: what a device does that adds products up in fp32 and stores the sum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, TensorProto


def make_literal(model: ModelProto) -> ModelProto:
    """A copy without fp16 and bf16 but for pairs of casts; itself where it holds neither.

    Nodes and tensors keep their names. What is rounded holds the same numbers, as float32.

    Args:
        model: types can be inferred; input and output are of other types.
    """
    import onnx

    low = _find_low(model)
    if not low:
        return model
    result = onnx.ModelProto()
    result.CopyFrom(model)
    graph = result.graph
    del graph.value_info[:]
    for tensor in graph.initializer:
        if tensor.name in low:
            tensor.CopyFrom(_widen(tensor))
    nodes = [new for node in graph.node for new in _spell_out(node, low)]
    copies = [type(node).FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)
    return result


def _find_low(model: ModelProto) -> dict[str, int]:
    """Names of the fp16 and bf16 tensors, with their types."""
    import onnx

    types = (onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)
    values = onnx.shape_inference.infer_shapes(model).graph.value_info
    found = {value.name: value.type.tensor_type.elem_type for value in values}
    found |= {tensor.name: tensor.data_type for tensor in model.graph.initializer}
    return {name: kind for name, kind in found.items() if kind in types}


def _spell_out(node: NodeProto, low: dict[str, int]) -> list[NodeProto]:
    """The node, computed in fp32, and the rounding of each of its outputs."""
    import onnx

    changed = onnx.NodeProto()
    changed.CopyFrom(node)
    for attribute in changed.attribute:
        if attribute.name == "value" and attribute.HasField("t"):
            attribute.t.CopyFrom(_widen(attribute.t))
        elif node.op_type == "Cast" and attribute.name == "to" and node.output[0] in low:
            attribute.i = onnx.TensorProto.FLOAT
    nodes = [changed]
    for place, name in enumerate(node.output):
        if name in low:
            exact, rounded = f"{name}.exact", f"{name}.rounded"
            changed.output[place] = exact
            nodes += [
                onnx.helper.make_node("Cast", [exact], [rounded], f"{name}.round", to=low[name]),
                onnx.helper.make_node(
                    "Cast", [rounded], [name], f"{name}.widen", to=onnx.TensorProto.FLOAT
                ),
            ]
    return nodes


def _widen(tensor: TensorProto) -> TensorProto:
    """The same numbers as float32; other types as they are."""
    from onnx import TensorProto, numpy_helper

    if tensor.data_type not in (TensorProto.FLOAT16, TensorProto.BFLOAT16):
        return tensor
    return numpy_helper.from_array(numpy_helper.to_array(tensor).astype("float32"), tensor.name)
