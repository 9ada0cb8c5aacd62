"""From a symmetric INT8 Q/DQ graph to one whose INT8 kernels ONNX Runtime's CPU code finds.

The master graph has int8 activations with zero point 0, which TensorRT and OpenVINO want. ONNX
Runtime then cannot fold a ReLU into the quantization behind it, keeps float operators between the
INT8 ones and is about three times slower. The rewrite changes spelling, not calibration:

- activations become uint8 of the same scale: with zero point 0 behind an operator that gives no
  negative numbers (q becomes 0..255, so what int8 cut off at 127 is kept), else with zero point
  128, which is int8 shifted;
- a float bias becomes int32 of scale (input scale x weight scale), as the integer kernels add it;
- every weight gets a zero point of its own: one that several share makes ONNX Runtime 1.32 fail
  with `session.x64quantprecision`, which processors without VNNI need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import onnx

FloatArray = NDArray[np.float32]

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
_ZERO, _MIDDLE = "activation_zero_point_0", "activation_zero_point_128"


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
    graph = _Graph(result)
    graph.separate_zero_points()
    graph.widen_activations()
    graph.quantize_biases()
    onnx.checker.check_model(result)
    return result


class _Graph:
    """A model with its look-ups by tensor name; mutates the model it is given."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.proto = model.graph
        self.constants = {item.name: item for item in self.proto.initializer}
        self.producers = {name: node for node in self.proto.node for name in node.output}
        self.consumers: dict[str, list[onnx.NodeProto]] = {}
        for node in self.proto.node:
            for name in node.input:
                self.consumers.setdefault(name, []).append(node)
        self._signs: dict[str, bool] = {}

    def separate_zero_points(self) -> None:
        """Give each quantized weight its own zero point."""
        for number, node in enumerate(self.proto.node):
            if (
                node.op_type == "DequantizeLinear"
                and len(node.input) > 2
                and node.input[0] in self.constants
                and (zero_point := self._constant(node.input[2])) is not None
            ):
                node.input[2] = f"weight_zero_point_{number}"
                self._add_constant(node.input[2], zero_point)

    def widen_activations(self) -> None:
        """int8 to uint8 in every activation's Q and its DQs."""
        widened = set()
        for node in self.proto.node:
            if node.op_type == "QuantizeLinear" and self._is_symmetric_activation(node):
                zero_point = _ZERO if self.is_non_negative(node.input[0]) else _MIDDLE
                for user in (node, *self.consumers[node.output[0]]):
                    user.input[2] = zero_point
                widened.add(node.output[0])
        self._add_constant(_ZERO, np.array(0, np.uint8))
        self._add_constant(_MIDDLE, np.array(128, np.uint8))
        kept = [info for info in self.proto.value_info if info.name not in widened]
        del self.proto.value_info[:]
        self.proto.value_info.extend(kept)

    def quantize_biases(self) -> None:
        """Float biases of quantized Conv and Gemm to int32 with a DequantizeLinear."""
        from onnx import helper

        nodes: list[onnx.NodeProto] = []
        for node in self.proto.node:
            found = self._find_bias_scale(node)
            if found is not None:
                scale, bias = found
                name = f"{node.input[2]}_int32_{len(nodes)}"
                self._add_constant(name, np.round(bias / scale).astype(np.int32))
                self._add_constant(f"{name}_scale", scale)
                nodes.append(
                    helper.make_node(
                        "DequantizeLinear",
                        [name, f"{name}_scale"],
                        [f"{name}_float"],
                        name=f"{name}_dequantize",
                        axis=0,
                    )
                )
                node.input[2] = f"{name}_float"
            nodes.append(node)
        ordered = [type(node).FromString(node.SerializeToString()) for node in nodes]
        del self.proto.node[:]
        self.proto.node.extend(ordered)

    def is_non_negative(self, name: str) -> bool:
        """Whether a tensor can be told to hold no negative number."""
        if name not in self._signs:
            node = self.producers.get(name)
            self._signs[name] = node is not None and (
                node.op_type in _NON_NEGATIVE
                or (node.op_type in _SIGN_KEEPING and self.is_non_negative(node.input[0]))
                or (node.op_type == "Clip" and self._is_clipped_at_zero(node))
                or (
                    node.op_type in {"Add", "Concat", "Mul"}
                    and all(self.is_non_negative(item) for item in node.input)
                )
            )
        return self._signs[name]

    def _is_clipped_at_zero(self, node: onnx.NodeProto) -> bool:
        low = self._constant(node.input[1]) if len(node.input) > 1 else None
        return low is not None and float(low) >= 0

    def _is_symmetric_activation(self, node: onnx.NodeProto) -> bool:
        zero_point = self._constant(node.input[2]) if len(node.input) > 2 else None
        return (
            node.input[0] not in self.constants
            and zero_point is not None
            and zero_point.dtype == np.int8
            and zero_point.size == 1
            and not zero_point.any()
            and all(
                user.op_type == "DequantizeLinear" and len(user.input) > 2
                for user in self.consumers[node.output[0]]
            )
        )

    def _find_bias_scale(self, node: onnx.NodeProto) -> tuple[FloatArray, FloatArray] | None:
        """Scale per channel and float bias of a Conv or Gemm with two quantized inputs."""
        if node.op_type not in {"Conv", "Gemm"} or len(node.input) < 3:
            return None
        bias = self._constant(node.input[2])
        scales = []
        for name in node.input[:2]:
            source = self.producers.get(name)
            if source is None or source.op_type != "DequantizeLinear":
                return None
            scales.append(self._constant(source.input[1]))
        if bias is None or bias.ndim != 1 or scales[0] is None or scales[1] is None:
            return None
        scale = (scales[0] * scales[1].reshape(-1)).astype(np.float32)
        scale = np.ascontiguousarray(np.broadcast_to(scale, bias.shape))
        # A bias beyond int32 stays float: right, if slower.
        fits = bool((np.abs(bias) < scale.astype(np.float64) * np.iinfo(np.int32).max).all())
        return (scale, bias) if fits else None

    def _constant(self, name: str) -> NDArray[Any] | None:
        from onnx import numpy_helper

        return numpy_helper.to_array(self.constants[name]) if name in self.constants else None

    def _add_constant(self, name: str, value: NDArray[Any]) -> None:
        from onnx import numpy_helper

        tensor = numpy_helper.from_array(value, name)
        self.proto.initializer.append(tensor)
        self.constants[name] = tensor
