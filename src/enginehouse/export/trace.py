"""Where two forms of a network part: the values inside them, node by node, on the same pictures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from enginehouse.compare.divergence import LIMITS, Divergence, measure_divergence, name_first
from enginehouse.compare.reference import read_tensors
from enginehouse.engine import Contract, Pictures, Precision
from enginehouse.quiet import quiet
from enginehouse.train.network import normalise
from enginehouse.train.record import Normalised

if TYPE_CHECKING:
    import torch
    from onnx import ModelProto
    from torch.export import ExportedProgram
    from torch.fx import GraphModule, Node

    See = Callable[[Node, torch.Tensor], None]

ROUNDING_LIMIT = 10.0  # dB of signal over noise below which rounding has destroyed a value
NUM_PICTURES = 4


def choose_pictures(pictures: Pictures, differences: NDArray[np.float32]) -> Pictures:
    """Those on which two forms differ most: a few, but two at least (one may come twice).

    Args:
        pictures: uint8 [n, 3, size, size], n at least 1.
        differences: of the answers to each, [n].
    """
    rows = np.argsort(-differences, kind="stable")[:NUM_PICTURES]
    return pictures[np.resize(rows, max(2, len(rows)))]


def find_rounding(
    plain: torch.nn.Module, rounded: torch.nn.Module, pictures: Pictures, model: Normalised
) -> str:
    """The first node that rounding destroys, as a sentence.

    Args:
        plain, rounded: both from normalised pictures to logits, in evaluation mode; their nodes
            have the same names, but for those that were folded into the one before.
        pictures: uint8 [n, 3, size, size], n at least 2.
        model: how they are normalised.
    """
    inputs = normalise(_to_torch(pictures), model.mean, model.std)
    later = _capture(rounded, inputs)
    there = {node.name for node in later.graph.nodes if node.op == "call_function"}
    wanted: dict[str, torch.Tensor] = {}
    homes: dict[Node, str] = {}
    places: list[Divergence] = []

    def keep(node: Node, value: torch.Tensor) -> None:
        # What the later graph lacks was folded into its input: BatchNorm into a convolution.
        before = node.all_input_nodes[0] if node.all_input_nodes else node
        homes[node] = node.name if node.name in there else homes.get(before, node.name)
        wanted[homes[node]] = value.clone()  # what follows may work in place

    def hold(node: Node, value: torch.Tensor) -> None:
        if node.name in wanted and wanted[node.name].shape == value.shape:
            pair = wanted[node.name].numpy(), value.numpy()
            places.append(measure_divergence(_name(node), *pair))

    _interpret(_capture(plain, inputs), inputs, keep)
    _interpret(later, inputs, hold)
    return name_first(places, ROUNDING_LIMIT)


def find_in_onnx(
    program: ExportedProgram,
    names: Mapping[str, str],
    model: ModelProto,
    contract: Contract,
    pictures: Pictures,
    precision: Precision,
) -> str:
    """The first node of an ONNX graph that gives something else than torch, as a sentence.

    Args:
        program: what the graph was written from.
        names: of a value in torch, to that of the same one in the graph.
        model: the graph.
        pictures: uint8 [n, 3, size, size], n at least 2.
        precision: of the graph; says how much rounding is healthy.
    """
    graph = program.module(check_guards=False)
    (last,) = next(node for node in graph.graph.nodes if node.op == "output").args[0]
    makers = {name: node for node in model.graph.node for name in node.output}
    homes = {old: new for old, new in names.items() if new in makers}
    homes[last.name] = contract.output_name
    wanted: dict[str, tuple[str, NDArray[Any]]] = {}

    def keep(node: Node, value: torch.Tensor) -> None:
        if node.name in homes:
            wanted[homes[node.name]] = node.name, value.clone().numpy()

    _interpret(graph, _to_torch(pictures), keep)
    order = [name for name in makers if name in wanted]
    found = read_tensors(model, order, contract, pictures)
    places = []
    for name in order:
        (torch_name, value), maker = wanted[name], makers[name]
        if value.shape == found[name].shape:
            place = f"{maker.name} ({maker.op_type}; in torch {torch_name})"
            places.append(measure_divergence(place, value, found[name]))
    return name_first(places, LIMITS[precision])


def _to_torch(pictures: Pictures) -> torch.Tensor:
    import torch

    return torch.from_numpy(np.array(pictures))


def _capture(net: torch.nn.Module, inputs: torch.Tensor) -> GraphModule:
    """The network as one graph; itself where it is one already."""
    import torch
    from torch.fx import GraphModule

    if isinstance(net, GraphModule):
        return net
    batch = torch.export.Dim("batch", min=1)
    with quiet():
        exported = torch.export.export(net, (inputs,), dynamic_shapes=({0: batch},))
        graph: GraphModule = exported.module(check_guards=False)
    return graph


def _interpret(graph: GraphModule, inputs: torch.Tensor, see: See) -> None:
    """Run a graph node by node, and show each tensor that an operator gives."""
    import torch
    from torch.fx import Interpreter

    class Watched(Interpreter):
        def run_node(self, n: Node) -> object:
            value = super().run_node(n)
            if n.op == "call_function" and isinstance(value, torch.Tensor):
                see(n, value)
            return value

    with torch.no_grad():
        Watched(graph).run(inputs)


def _name(node: Node) -> str:
    """A node with its operator and the module that it stands in."""
    stack = list(node.meta.get("nn_module_stack", {}).values())
    path = str(stack[-1][0]).removeprefix("L['self']").lstrip(".") if stack else ""
    return f"{node.name} ({node.target}" + (f" in {path})" if path else ")")
