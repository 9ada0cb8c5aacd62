"""Which parts of a graph handle large numbers, on real pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from enginehouse.engine import Pictures

if TYPE_CHECKING:
    from onnx import ModelProto

BATCH = 8


def find_large(model: ModelProto, pictures: Pictures, largest: float) -> set[str]:
    """Names of the nodes that take or give a number beyond a limit for one of the pictures.

    What is no number is beyond any limit. Only the largest size of each tensor leaves the run, so
    that any number of pictures fits in memory.

    Args:
        model: fp32; its nodes have names.
        pictures: uint8 [n, 3, size, size].
        largest: the limit.
    """
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper

    probe = onnx.shape_inference.infer_shapes(model)
    graph = probe.graph
    floats = [
        value.name
        for value in graph.value_info
        if value.type.tensor_type.elem_type == TensorProto.FLOAT
    ]
    del graph.output[:]
    for name in floats:
        graph.node.append(helper.make_node("Abs", [name], [f"{name}.size"]))
        graph.node.append(
            helper.make_node("ReduceMax", [f"{name}.size"], [f"{name}.largest"], keepdims=0)
        )
        graph.output.append(helper.make_tensor_value_info(f"{name}.largest", TensorProto.FLOAT, []))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        probe.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    large: set[str] = set()
    for start in range(0, len(pictures), BATCH):
        batch = np.ascontiguousarray(pictures[start : start + BATCH])
        sizes = session.run(None, {graph.input[0].name: batch})
        large |= {
            name for name, size in zip(floats, sizes, strict=True) if not float(size) <= largest
        }
    return {node.name for node in model.graph.node if large & {*node.input, *node.output}}
