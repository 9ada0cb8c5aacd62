"""A network as a graph: captured, prepared for INT8, its layers named, some left in float.

Built on torch.export and torchao's PT2E. Knows neither pictures nor how scales are found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from enginehouse.errors import QuantizationError, first_line
from enginehouse.quantizers._symmetric import SymmetricQuantizer, find_kind
from enginehouse.quiet import quiet

if TYPE_CHECKING:
    import torch
    from torch.fx import GraphModule, Node

    from enginehouse.quantizer import State


@dataclass(frozen=True)
class Layer:
    """An operator whose inputs are rounded.

    Attributes:
        name: where it stands in the network (`layer1.0.conv1`, `layer1.0.add`).
        node: its name in the prepared graph.
        kind: `conv`, `linear`, `add`, `mul`, `max_pool` or `average`.
    """

    name: str
    node: str
    kind: str


@dataclass(frozen=True)
class Product:
    """A convolution or linear layer in INT8 that has a bias.

    Attributes:
        node: of the layer, in the prepared graph.
        weight, bias: the nodes that read them.
        observer: of the weight.
    """

    node: Node
    weight: Node
    bias: Node
    observer: Any

    @property
    def shift(self) -> torch.Tensor | None:
        """What is added to the bias, float32 [channels], or None."""
        found: torch.Tensor | None = getattr(self.observer, "shift", None)
        return found if found is not None and found.numel() else None


def capture(net: torch.nn.Module, size: int) -> GraphModule:
    """The network as one graph, for any batch, in the mode it is in.

    Args:
        net: on the CPU; from float32 [n, 3, size, size] to logits.
        size: side of the pictures in pixels.

    Raises:
        QuantizationError: it cannot be captured.
    """
    import torch

    # Two pictures: a batch of one would be taken for a constant.
    example = torch.zeros(2, 3, size, size)
    batch = torch.export.Dim("batch", min=1)
    with quiet():
        try:
            exported = torch.export.export(net, (example,), dynamic_shapes=({0: batch},))
            graph: GraphModule = exported.module(check_guards=False)
            _guard_norms(graph)
        except Exception as error:  # torch raises dozens of types here, all meaning the same
            raise QuantizationError(
                f"The network cannot be captured as one graph: {first_line(error)}",
                "Choose another architecture, or take the INT8 candidates out of the recipe.",
            ) from error
    return graph


def _guard_norms(graph: GraphModule) -> None:
    """Copy what enters a BatchNorm that must not be folded, where torchao would: others read the
    layer or its weight, the weight is computed, or the norm has no statistics."""
    import torch

    for norm in graph.graph.nodes:
        if norm.target != torch.ops.aten.batch_norm.default:
            continue
        source, mean = norm.args[0], norm.args[3]
        if find_kind(source) in ("conv", "linear"):
            weight = source.args[1]
            if (
                weight.op != "get_attr"
                or len(weight.users) > 1
                or len(source.users) > 1
                or not mean
            ):
                with graph.graph.inserting_before(norm):
                    copied = graph.graph.call_function(torch.ops.aten.clone.default, (source,))
                copied.meta = dict(source.meta)
                norm.update_arg(0, copied)
    graph.recompile()


def prepare(graph: GraphModule, scheme: SymmetricQuantizer) -> GraphModule:
    """Fold BatchNorm, and put observers where INT8 goes.

    Args:
        graph: what `capture` returned; it is used up.
        scheme: what goes where.
    """
    with quiet():
        from torchao.quantization.pt2e.quantize_pt2e import prepare_pt2e

        prepared: GraphModule = prepare_pt2e(graph, scheme)
    return prepared


def list_layers(prepared: GraphModule) -> list[Layer]:
    """The layers of a prepared graph in the order of the network, those left in float as well."""
    nodes = [node for node in prepared.graph.nodes if _is_layer(node)]
    names = [_name_layer(node) for node in nodes]
    seen: Counter[str] = Counter()
    layers = []
    for node, name in zip(nodes, names, strict=True):
        seen[name] += 1
        number = f"_{seen[name]}" if seen[name] > 1 else ""
        layers.append(Layer(f"{name}{number}", node.name, find_kind(node)))
    assert len({layer.name for layer in layers}) == len(layers)
    return layers


def keep_float(prepared: GraphModule, names: Collection[str]) -> None:
    """Leave these layers in float, in place: they read past the observers of input and weight.

    A tensor that other layers read stays observed for these. Modules, and so the state, keep
    their names.

    Args:
        prepared: what `prepare` returned, calibrated or not, not converted yet.
        names: of layers, as `list_layers` has them.

    Raises:
        QuantizationError: no layer has such a name.
    """
    layers = {layer.name: layer for layer in list_layers(prepared)}
    if unknown := [name for name in names if name not in layers]:
        raise QuantizationError(
            f"The network has no layer named {', '.join(sorted(unknown))} to leave in float; it "
            f"has {len(layers)}, from {next(iter(layers), 'none')} on.",
            "Quantize again with the libraries that are installed now.",
        )
    nodes = {node.name: node for node in prepared.graph.nodes}
    for name in names:
        node = nodes[layers[name].node]
        for source in list(node.all_input_nodes):
            if is_observer(prepared, source):
                node.replace_input_with(source, source.all_input_nodes[0])
                if not source.users:
                    prepared.graph.erase_node(source)
    prepared.recompile()


def list_products(prepared: GraphModule) -> list[Product]:
    """The convolutions and linear layers of a prepared graph that are in INT8 and have a bias."""
    found = []
    for node in prepared.graph.nodes:
        if find_kind(node) not in ("conv", "linear") or len(node.args) < 3 or node.args[2] is None:
            continue
        source, bias = node.args[1:3]
        if is_observer(prepared, source) and bias.op == "get_attr":
            observer = prepared.get_submodule(str(source.target))
            found.append(Product(node, source.all_input_nodes[0], bias, observer))
    return found


def is_observer(prepared: GraphModule, node: Node) -> bool:
    """Whether a node is an observer."""
    from torchao.quantization.pt2e import ObserverBase

    return node.op == "call_module" and isinstance(
        prepared.get_submodule(str(node.target)), ObserverBase
    )


def load_state(prepared: GraphModule, state: State) -> None:
    """Put a stored state into a graph that was prepared alike.

    Raises:
        QuantizationError: it is not one of this network and these libraries.
    """
    try:
        prepared.load_state_dict(state)
    except RuntimeError as error:
        reasons = [line.strip() for line in str(error).splitlines()[1:]]
        raise QuantizationError(
            "The calibrated state does not fit the network as it is built here: "
            f"{reasons[0] if reasons else first_line(error)}",
            "Quantize again: the state is of another network, or of other libraries.",
        ) from error


def convert(prepared: GraphModule) -> GraphModule:
    """The network with INT8 weights and Q/DQ, ready for `torch.onnx.export`; uses `prepared` up."""
    import torch

    for each in list_products(prepared):
        if each.shift is not None:
            # A new one: the old one may be that of the network which was captured.
            owner, _, name = str(each.bias.target).rpartition(".")
            bias = prepared.get_parameter(str(each.bias.target)).detach() + each.shift
            prepared.get_submodule(owner).register_parameter(name, torch.nn.Parameter(bias))
    with quiet():
        from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e

        converted: GraphModule = convert_pt2e(prepared)
    return converted


def _is_layer(node: Node) -> bool:
    from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY

    annotation = node.meta.get(Q_ANNOTATION_KEY)
    return annotation is not None and bool(annotation.input_qspec_map) and bool(find_kind(node))


def _name_layer(node: Node) -> str:
    """By its weight where it has one, else by the module that it stands in."""
    kind = find_kind(node)
    if kind in ("conv", "linear"):
        weight: Any = node.args[1]
        while weight.op != "get_attr":  # through observers, and the scaling of a folded BatchNorm
            weight = weight.args[0]
        return str(weight.target).removesuffix("weight").rstrip("._") or kind
    stack = list(node.meta.get("nn_module_stack", {}).values())
    path, module = stack[-1] if stack else ("", "")
    path = path.removeprefix("L['self']").removeprefix(".")
    if "torch.nn.modules.pooling" in str(module):
        return str(path)
    return f"{path}.{kind}" if path else kind
