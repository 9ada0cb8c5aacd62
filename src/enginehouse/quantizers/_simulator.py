"""A calibrated network with any of its layers in INT8 and the others in float, run as it stands.

It answers as the network would after `keep_float` and `convert`, to the rounding of float32, but
needs no conversion for each choice of layers. Knows neither truth nor what is a good answer.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterator
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from enginehouse.quantizers._graph import is_observer, list_layers, list_products

if TYPE_CHECKING:
    import torch
    from torch.fx import GraphModule, Node

BATCH = 16  # pictures at once; bounds the memory
FLOAT = ""  # stands for no layer in INT8, where answers go by the name of the one that is

Values = dict["Node", Any]


class Simulator:
    """Runs a prepared graph node by node; nothing in it is changed.

    Attributes:
        layers: those of the graph, in the order of the network.
    """

    def __init__(self, prepared: GraphModule) -> None:
        """Fix the scales.

        Args:
            prepared: what `_graph.prepare` returned, after it saw the calibration pictures.
        """
        self.layers = list_layers(prepared)
        self._prepared = prepared
        self._nodes = list(prepared.graph.nodes)
        self._roundings = {
            node: _round_like(prepared.get_submodule(str(node.target)))
            for node in self._nodes
            if is_observer(prepared, node)
        }
        self._shifts = {
            each.node: (each.bias, each.shift)
            for each in list_products(prepared)
            if each.shift is not None
        }
        names = {layer.node: layer.name for layer in self.layers}
        self._names = {node: names[node.name] for node in self._nodes if node.name in names}
        self._dead = self._find_dead()

    def answer(self, inputs: torch.Tensor, int8: Collection[str]) -> torch.Tensor:
        """Logits, float32 [n, classes].

        Args:
            inputs: normalised pictures, float32 [n, 3, size, size].
            int8: names of the layers in INT8.
        """
        import torch

        chosen = frozenset(int8)
        return torch.cat([self._run(values, 0, chosen) for values in self._iter_batches(inputs)])

    def answer_alone(self, inputs: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
        """Logits with each layer alone in INT8, and with none, by batches of pictures.

        What stands before a layer is computed once: at each layer the run branches off.

        Yields:
            The layer's name and float32 [batch, classes]; the last of a batch is that of `FLOAT`.
        """
        last = len(self._nodes) - 1
        for values in self._iter_batches(inputs):
            for start, node in enumerate(self._nodes[:last]):
                if name := self._names.get(node):
                    yield name, self._run(_copy_values(values), start, frozenset({name}))
                self._step(node, values, frozenset())
            yield FLOAT, self._run(values, last, frozenset())

    def _iter_batches(self, inputs: torch.Tensor) -> Iterator[Values]:
        """What is known before a run."""
        (entry,) = (node for node in self._nodes if node.op == "placeholder")
        for start in range(0, len(inputs), BATCH):
            # A copy: networks may work in place.
            yield {entry: inputs[start : start + BATCH].clone()}

    def _run(self, values: Values, start: int, int8: frozenset[str]) -> torch.Tensor:
        """Go on at a node, from the values that are needed there and later."""
        from torch.utils import _pytree as pytree

        *nodes, end = self._nodes[start:]
        for node in nodes:
            self._step(node, values, int8)
        logits: torch.Tensor
        (logits,) = pytree.tree_leaves(self._read(end.args, end, values, int8))
        return logits

    def _step(self, node: Node, values: Values, int8: frozenset[str]) -> None:
        """Compute one node, and drop what nobody reads after it."""
        import torch

        if node.op == "call_function":
            assert callable(node.target)
            with torch.inference_mode():
                args, kwargs = self._read((node.args, node.kwargs), node, values, int8)
                values[node] = node.target(*args, **kwargs)
        for dead in self._dead.get(node, ()):
            del values[dead]

    def _read(self, args: Any, reader: Node, values: Values, int8: frozenset[str]) -> Any:
        """What a node takes: values in place of nodes, rounded where the reader is in INT8."""
        from torch.fx.node import map_arg

        def load(source: Node) -> Any:
            if source.op == "get_attr":
                value = attrgetter(str(source.target))(self._prepared)
                bias, shift = self._shifts.get(reader, (None, None))
                is_shifted = source is bias and self._names[reader] in int8
                return value + shift if is_shifted else value
            if source not in self._roundings:
                return values[source]
            value = load(source.all_input_nodes[0])
            return self._roundings[source](value) if self._names[reader] in int8 else value

        return map_arg(args, load)

    def _find_dead(self) -> dict[Node, list[Node]]:
        """Which values nobody reads after a node."""
        last: dict[Node, Node] = {}
        for node in self._nodes:
            if node not in self._roundings:
                for source in node.all_input_nodes:
                    last[source.all_input_nodes[0] if source in self._roundings else source] = node
        dead: dict[Node, list[Node]] = {}
        for source, node in last.items():
            if source.op != "get_attr":
                dead.setdefault(node, []).append(source)
        return dead


def _round_like(observer: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    """Quantize and dequantize as the Q/DQ that `convert` puts in the observer's place."""
    import torch

    scale, zero = observer.calculate_qparams()
    assert not bool(zero.any()), "the scheme is symmetric"
    low, high = observer.quant_min, observer.quant_max
    if observer.qscheme == torch.per_channel_symmetric:
        zeros, axis = zero.to(torch.int32), observer.ch_axis
        return lambda value: torch.fake_quantize_per_channel_affine(
            value, scale, zeros, axis, low, high
        )
    step = float(scale)
    return lambda value: torch.fake_quantize_per_tensor_affine(value, step, 0, low, high)


def _copy_values(values: Values) -> Values:
    """Copies that share memory where the originals do."""
    return dict(zip(values, copy.deepcopy(list(values.values())), strict=True))
