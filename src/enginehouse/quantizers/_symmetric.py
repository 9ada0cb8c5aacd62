"""Where INT8 goes in a graph that TensorRT, TensorRT-RTX and OpenVINO all take as it is.

Symmetric everywhere (zero point 0): weights per output channel in -127..127, activations per
tensor in -128..127. The inputs of convolutions, matrix products, additions and pools are
quantized; what follows a convolution is left to the engine to fuse, and biases stay float. One
tensor has one scale, however many operators read it; a max pool keeps the scale of its input.

The scheme is that of TensorRT's explicit quantization:
https://docs.nvidia.com/deeplearning/tensorrt/latest/inference-library/work-quantized-types.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch.fx import GraphModule, Node

# Smallest scale: keeps an all-zero tensor from dividing by nothing.
_EPS = 2**-12


class SymmetricQuantizer:
    """Annotates an exported graph; fits torchao's `prepare_pt2e` (its Quantizer interface)."""

    def __init__(self) -> None:
        import torch
        from torchao.quantization.pt2e import HistogramObserver, PerChannelMinMaxObserver
        from torchao.quantization.pt2e.quantizer import QuantizationSpec

        self.activation = QuantizationSpec(
            torch.int8,
            HistogramObserver.with_args(eps=_EPS),
            quant_min=-128,
            quant_max=127,
            qscheme=torch.per_tensor_symmetric,
        )
        self.weight = QuantizationSpec(
            torch.int8,
            PerChannelMinMaxObserver.with_args(eps=_EPS),
            quant_min=-127,
            quant_max=127,
            qscheme=torch.per_channel_symmetric,
            ch_axis=0,
        )

    def transform_for_annotation(self, model: GraphModule) -> GraphModule:
        """Nothing to rewrite before annotating."""
        return model

    def annotate(self, model: GraphModule) -> GraphModule:
        """Write onto each node how its inputs and output are quantized."""
        import torch
        from torchao.quantization.pt2e.quantizer import SharedQuantizationSpec

        aten = torch.ops.aten
        products = {aten.conv2d.default, aten.conv2d.padding, aten.linear.default}
        additions = {aten.add.Tensor, aten.add_.Tensor}
        averages = {aten.adaptive_avg_pool2d.default, aten.avg_pool2d.default, aten.mean.dim}
        # Tensor to the place (an edge or a node) whose scale it has.
        places: dict[Node, Any] = {}
        for node in model.graph.nodes:
            specs: dict[Node, Any] = {}
            if node.target in products and node.args[1].op == "get_attr":
                specs = {node.args[0]: self.activation, node.args[1]: self.weight}
            elif node.target in additions and _is_float(node):
                specs = {arg: self.activation for arg in node.args if _is_tensor(arg)}
            elif node.target in averages or node.target is aten.max_pool2d.default:
                specs = {node.args[0]: self.activation}
            for arg, spec in specs.items():
                if spec is self.activation:
                    if arg in places:
                        specs[arg] = SharedQuantizationSpec(places[arg])
                    places.setdefault(arg, (arg, node))
            output = None
            if node.target is aten.max_pool2d.default:
                output = SharedQuantizationSpec((node.args[0], node))
                places[node] = node
            if specs:
                _annotate(node, specs, output)
        return model

    def validate(self, model: GraphModule) -> None:
        """Nothing to check: the annotations above fit each other."""

    def prepare_obs_or_fq_callback(self, model: GraphModule, observers: Any) -> None:
        """Nothing to change in the observers."""


def _annotate(node: Node, specs: dict[Node, Any], output: Any) -> None:
    from torchao.quantization.pt2e.quantizer import QuantizationAnnotation
    from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY

    node.meta[Q_ANNOTATION_KEY] = QuantizationAnnotation(
        input_qspec_map=specs, output_qspec=output, _annotated=True
    )


def _is_tensor(arg: object) -> bool:
    from torch.fx import Node

    return isinstance(arg, Node) and _is_float(arg)


def _is_float(node: Node) -> bool:
    value: torch.Tensor | None = node.meta.get("val")
    return value is not None and value.is_floating_point()
