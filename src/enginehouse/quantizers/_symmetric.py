"""Where INT8 goes in a graph that TensorRT, TensorRT-RTX and OpenVINO all take as it is.

Symmetric everywhere (zero point 0): weights per output channel in -127..127, activations per
tensor in -128..127. One tensor has one scale, however many operators read it; a max pool keeps
the scale of its input. What follows an operator is left to the engine to fuse, biases stay float.
Rounded are the inputs of

- products with weights (convolutions, linear layers), but for those of a gate, whose maps have
  one pixel: nothing is gained there, and a gate that is off by a step is off for a whole channel;
- averages and max pools;
- the picture side of a gate's multiplication, which the average before the gate reads anyway;
- additions on the way to such an operator. Those before a normalisation (transformers) stay in
  float: the next reader is float as well, and the sum of all blocks needs the range.

The scheme is that of TensorRT's explicit quantization:
https://docs.nvidia.com/deeplearning/tensorrt/latest/inference-library/work-quantized-types.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch.fx import GraphModule, Node

# Operator to the kind of layer that it is, by the names of torch.ops.aten.
_KINDS = {
    "conv2d.default": "conv",
    "conv2d.padding": "conv",
    "linear.default": "linear",
    "add.Tensor": "add",
    "add_.Tensor": "add",
    "mul.Tensor": "mul",
    "mul_.Tensor": "mul",
    "max_pool2d.default": "max_pool",
    "adaptive_avg_pool2d.default": "average",
    "avg_pool2d.default": "average",
    "mean.dim": "average",
}
_PRODUCTS = frozenset({"conv", "linear"})
# Operators that work on each number by itself or only rearrange, so that INT8 can go on behind.
_PASSING = frozenset(
    {"clamp", "dropout", "feature_dropout", "flatten", "gelu", "hardsigmoid", "hardswish"}
    | {"hardtanh", "leaky_relu", "relu", "relu6", "reshape", "sigmoid", "silu", "view"}
)


class SymmetricQuantizer:
    """Annotates a captured graph; fits torchao's `prepare_pt2e` (its Quantizer interface).

    Args:
        activation, weight: what makes the observer of a tensor, or what rounds it in training: a
            subclass of torchao's ObserverBase, or its `with_args`.
        per_channel: scales of weights per output channel. One scale for a whole weight is what
            ruins depthwise convolutions; it is here to be compared with.
    """

    def __init__(self, activation: Any, weight: Any, per_channel: bool = True) -> None:
        import torch
        from torchao.quantization.pt2e.quantizer import QuantizationSpec

        self.activation = QuantizationSpec(
            torch.int8,
            activation,
            quant_min=-128,
            quant_max=127,
            qscheme=torch.per_tensor_symmetric,
        )
        self.weight = QuantizationSpec(
            torch.int8,
            weight,
            quant_min=-127,
            quant_max=127,
            qscheme=torch.per_channel_symmetric if per_channel else torch.per_tensor_symmetric,
            ch_axis=0 if per_channel else None,
        )

    def transform_for_annotation(self, model: GraphModule) -> GraphModule:
        """Nothing to rewrite before annotating."""
        return model

    def annotate(self, model: GraphModule) -> GraphModule:
        """Write onto each node how its inputs are quantized."""
        from torchao.quantization.pt2e.quantizer import (
            QuantizationAnnotation,
            SharedQuantizationSpec,
        )
        from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY

        # Tensor to the edge whose scale it has.
        places: dict[Node, tuple[Node, Node]] = {}
        for node in model.graph.nodes:
            specs: dict[Node, Any] = {}
            for tensor in _list_rounded(node):
                shared = places.setdefault(tensor, (tensor, node))
                is_first = shared == (tensor, node)
                specs[tensor] = self.activation if is_first else SharedQuantizationSpec(shared)
            if not specs:
                continue
            kind = find_kind(node)
            if kind in _PRODUCTS:
                specs[node.all_input_nodes[1]] = self.weight
            if kind == "max_pool":
                places[node] = places[node.all_input_nodes[0]]
            node.meta[Q_ANNOTATION_KEY] = QuantizationAnnotation(specs, _annotated=True)
        return model

    def validate(self, model: GraphModule) -> None:
        """Nothing to check: the annotations above fit each other."""

    def prepare_obs_or_fq_callback(self, model: GraphModule, observers: Any) -> None:
        """Nothing to change in the observers."""


def find_kind(node: Node) -> str:
    """The kind of layer that an operator is, or "" for those that are never rounded."""
    return _KINDS.get(str(node.target).removeprefix("aten."), "")


def _list_rounded(node: Node) -> list[Node]:
    """Which inputs of an operator are rounded, but for the weight."""
    kind = find_kind(node)
    if not kind or not _is_float(node):
        return []
    tensors: list[Any] = [arg for arg in node.args if _is_float(arg)]
    if kind in _PRODUCTS:
        has_weight = tensors[1].op == "get_attr"
        return tensors[:1] if has_weight and not _is_in_gate(node) else []
    if any(tensor.op == "get_attr" for tensor in tensors):
        return []  # a learnt position or scale: not a picture's
    if kind == "add":
        return tensors if len(tensors) == 2 and _leads_to_rounding(node) else []
    if kind == "mul":
        return _list_gated(tensors)
    return tensors[:1]


def _list_gated(tensors: list[Any]) -> list[Node]:
    """Of the two sides of a multiplication, the picture side, if the other one is a gate."""
    if len(tensors) != 2:
        return []
    return [
        tensor
        for tensor, other in (tensors, tensors[::-1])
        if _is_one_pixel(other) and not _is_one_pixel(tensor)
    ]


def _is_in_gate(node: Node) -> bool:
    """Whether a product works on one pixel, and all that comes of it multiplies a larger map."""
    if not _is_one_pixel(node):
        return False
    todo, gates = list(node.users), 0
    while todo:
        user = todo.pop()
        if find_kind(user) == "mul" and not _is_one_pixel(user):
            gates += 1
        elif _is_one_pixel(user):
            todo += user.users
        else:
            return False
    return gates > 0


def _leads_to_rounding(node: Node) -> bool:
    """Whether any reader of a sum, past activations, is a product or a pool."""
    todo = list(node.users)
    while todo:
        user = todo.pop()
        kind = find_kind(user)
        if kind in _PRODUCTS or kind in ("max_pool", "average"):
            return True
        if _base_name(user) in _PASSING:
            todo += user.users
    return False


def _base_name(node: Node) -> str:
    """`relu` of `aten.relu_.default`."""
    parts = str(node.target).split(".")
    return parts[1].rstrip("_") if len(parts) > 1 and parts[0] == "aten" else ""


def _is_one_pixel(node: Node) -> bool:
    """Whether a tensor is [n, channels, 1, 1]."""
    value: torch.Tensor | None = node.meta.get("val")
    return value is not None and getattr(value, "ndim", 0) == 4 and tuple(value.shape[2:]) == (1, 1)


def _is_float(arg: object) -> bool:
    from torch.fx import Node

    if not isinstance(arg, Node):
        return False
    value: torch.Tensor | None = arg.meta.get("val")
    return value is not None and hasattr(value, "is_floating_point") and value.is_floating_point()
