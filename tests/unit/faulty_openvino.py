"""OpenVINO as a compiler with a fault: it gets one convolution wrong; stands in for `backends/`.

What it gets wrong is said by the name of the target: `sign-<node>` negates the weights of that
convolution, `nan-<node>` makes them no numbers; `opaque-<node>` negates them and builds no graph
that ends before the Softmax.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from enginehouse.artifact import Report
from enginehouse.backends import openvino_backend as right
from enginehouse.engine import Contract, Target
from enginehouse.errors import EngineError

LIBRARY, EXTRA, LIBRARIES, PRECISIONS = (
    *(right.LIBRARY, right.EXTRA),
    *(right.LIBRARIES, right.PRECISIONS),
)
find_missing = right.find_missing
describe_build_device = right.describe_build_device
describe_run_device = right.describe_run_device
load = right.load


def build(
    onnx: Path, target: Target, contract: Contract, folder: Path, report: Report
) -> dict[str, str]:
    """What OpenVINO makes of the graph with its fault."""
    path = damage_file(onnx, target, folder.parent)
    return right.build(path, target, contract, folder, report)


def damage_file(path: Path, target: Target, folder: Path) -> Path:
    """A copy of a graph with the fault that the target asks for."""
    kind, _, node = target.name.partition("-")
    model = onnx.load(path)
    if kind == "opaque" and model.graph.node[-1].op_type != "Softmax":
        raise EngineError("this compiler builds whole networks only.")
    damage(model, node, np.nan if kind == "nan" else -1)
    damaged = folder / f"{folder.name}-damaged.onnx"
    onnx.save(model, damaged)
    return damaged


def damage(model: onnx.ModelProto, name: str, factor: float = -1) -> None:
    """Multiply the weights of the convolution of that name, where the graph holds it."""
    makers = {output: node for node in model.graph.node for output in node.output}
    for node in model.graph.node:
        if node.name == name:
            weights = node.input[1]
            weights = makers[weights].input[0] if weights in makers else weights
            tensor = next(tensor for tensor in model.graph.initializer if tensor.name == weights)
            values = numpy_helper.to_array(tensor)
            changed = (values * factor).astype(values.dtype)
            tensor.CopyFrom(numpy_helper.from_array(changed, weights))
