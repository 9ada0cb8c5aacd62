"""An ONNX file computed as it is written: what every engine that is built from it is held against.

ONNX Runtime on the CPU with all its optimizations off, and fp16 and bf16 rounded as they are meant.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from enginehouse.engine import Contract, Pictures, Probabilities
from enginehouse.export.literal import make_literal
from enginehouse.processor import count_cores

if TYPE_CHECKING:
    import onnx

BATCH = 8


def run_literally(model: onnx.ModelProto, contract: Contract, pictures: Pictures) -> Probabilities:
    """What the graph says, float32 [n, classes], of uint8 [n, 3, size, size]."""
    session = _open_session(model)
    parts = [
        session.run(
            [contract.output_name],
            {contract.input_name: np.ascontiguousarray(pictures[start : start + BATCH])},
        )[0]
        for start in range(0, len(pictures), BATCH)
    ]
    answers: Probabilities = np.concatenate(parts)
    return answers


def read_tensors(
    model: onnx.ModelProto, names: Sequence[str], contract: Contract, pictures: Pictures
) -> dict[str, NDArray[Any]]:
    """The values of tensors inside the graph, by name.

    Args:
        names: outputs of nodes.
        pictures: uint8 [n, 3, size, size]; all go through in one batch.
    """
    import onnx

    shown = onnx.ModelProto()
    shown.CopyFrom(make_literal(model))
    there = {value.name for value in shown.graph.output}
    shown.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in there)
    values = _open_session(shown).run(list(names), {contract.input_name: pictures})
    return dict(zip(names, values, strict=True))


def _open_session(model: onnx.ModelProto) -> Any:
    """A session that takes the graph literally: no fusing, so Q/DQ are computed as written."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = count_cores()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    content = make_literal(model).SerializeToString()
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
