"""An ONNX graph to be changed: who makes a tensor, who reads it, which ones are constant.

Knows nothing of quantization but one question: whether a tensor can hold negative numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import onnx

# Operators whose results are never negative, and those that give no sign that was not there.
_NON_NEGATIVE = frozenset({"HardSigmoid", "Relu", "Sigmoid", "Softmax"})
_SIGN_KEEPING = frozenset(
    {
        "AveragePool",
        "DequantizeLinear",
        "Flatten",
        "GlobalAveragePool",
        "MaxPool",
        "QuantizeLinear",
        "ReduceMean",
        "Reshape",
        "Squeeze",
        "Transpose",
    }
)


class Graph:
    """The nodes of a model, with look-ups by tensor name.

    Args:
        model: without subgraphs; it stays as it is until `finish`.

    Attributes:
        nodes: copies, in order; they may be changed.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        from onnx import NodeProto

        self._proto = model.graph
        self.nodes = [NodeProto.FromString(n.SerializeToString()) for n in model.graph.node]
        self._constants = {item.name: item for item in model.graph.initializer}
        self._outputs = {item.name for item in model.graph.output}
        self._signs: dict[str, bool] = {}
        self.look_again()

    def look_again(self) -> None:
        """Learn anew who makes and reads what, after nodes were changed."""
        self._producers = {name: node for node in self.nodes for name in node.output}
        self._consumers: dict[str, list[onnx.NodeProto]] = {}
        for node in self.nodes:
            for name in node.input:
                self._consumers.setdefault(name, []).append(node)

    def find_producer(self, name: str) -> onnx.NodeProto | None:
        """The node that makes a tensor; None for constants and inputs."""
        return self._producers.get(name)

    def list_consumers(self, name: str) -> list[onnx.NodeProto]:
        """The nodes that read a tensor."""
        return self._consumers.get(name, [])

    def is_read_only_by(self, operator: str, name: str) -> bool:
        """Whether a tensor has readers, and all of them are of that operator."""
        readers = self.list_consumers(name)
        return (
            bool(readers)
            and name not in self._outputs
            and all(reader.op_type == operator for reader in readers)
        )

    def is_constant(self, name: str) -> bool:
        """Whether a tensor is stored in the graph."""
        return name in self._constants

    def read_constant(self, name: str) -> NDArray[Any] | None:
        """The value of a constant, or None where it is computed."""
        from onnx import numpy_helper

        return numpy_helper.to_array(self._constants[name]) if name in self._constants else None

    def add_constant(self, name: str, value: NDArray[Any]) -> str:
        """Store a constant, once; gives its name back."""
        from onnx import numpy_helper

        if name not in self._constants:
            self._constants[name] = numpy_helper.from_array(value, name)
        return name

    def is_non_negative(self, name: str) -> bool:
        """Whether a tensor can be told to hold no negative number."""
        if name not in self._signs:
            node = self.find_producer(name)
            self._signs[name] = node is not None and (
                node.op_type in _NON_NEGATIVE
                or (node.op_type in _SIGN_KEEPING and self.is_non_negative(node.input[0]))
                or (node.op_type == "Clip" and self.read_limits(node)[0] >= 0)
                or (
                    node.op_type in {"Add", "Concat", "Mul"}
                    and all(self.is_non_negative(item) for item in node.input)
                )
            )
        return self._signs[name]

    def read_limits(self, node: onnx.NodeProto) -> tuple[float, float]:
        """What a Clip or Relu cuts off below and above."""
        if node.op_type == "Relu":
            return 0.0, np.inf
        # Either may be left out, the first by an empty name.
        low, high = (self.read_constant(name) for name in [*node.input[1:3], "", ""][:2])
        return (
            -np.inf if low is None else float(low),
            np.inf if high is None else float(high),
        )

    def finish(self, without_shapes: set[str]) -> None:
        """Write nodes and the constants that they use into the model.

        Args:
            without_shapes: tensors whose recorded types do not hold any more.
        """
        kept = [info for info in self._proto.value_info if info.name not in without_shapes]
        used = {name for node in self.nodes for name in node.input}
        constants = [item for name, item in self._constants.items() if name in used]
        for field, items in (
            (self._proto.node, self.nodes),
            (self._proto.initializer, constants),
            (self._proto.value_info, kept),
        ):
            copies = [type(item).FromString(item.SerializeToString()) for item in items]
            del field[:]
            field.extend(copies)
