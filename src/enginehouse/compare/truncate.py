"""An ONNX graph cut off at a tensor inside it, so that an engine can be asked for that tensor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from enginehouse.engine import Contract

if TYPE_CHECKING:
    import onnx
    from onnx import ModelProto, NodeProto


class Cuts:
    """The tensors of a graph at which it can be cut: float values that depend on the pictures.

    Args:
        model: a graph without subgraphs, batch dynamic.

    Attributes:
        tensors: their names in the order of the network; the graph's output comes last.
    """

    def __init__(self, model: ModelProto, contract: Contract) -> None:
        self.model = model
        self.contract = contract
        self._producers = {name: node for node in model.graph.node for name in node.output if name}
        varying = {contract.input_name}
        for node in model.graph.node:
            if varying & set(node.input):
                varying |= set(node.output)
        self._varying = varying
        kinds = _find_kinds(model)
        self._shapes = {name for name, kind in kinds.items() if kind == "shape"}
        self.tensors = [
            name
            for name in self._producers
            if name in varying and kinds.get(name) == "values" and name != contract.output_name
        ]
        self.tensors.append(contract.output_name)

    def drop(self, tensor: str) -> None:
        """Take a tensor out: the graph cannot be cut there after all."""
        self.tensors.remove(tensor)

    def find_before(self, tensor: str) -> set[str]:
        """Every other tensor that this one depends on, whether or not it is one to cut at."""
        found: set[str] = set()
        todo = [tensor]
        while todo:
            node = self._producers.get(todo.pop())
            fresh = [name for name in node.input if name and name not in found] if node else []
            found.update(fresh)
            todo += fresh
        return found

    def find_nearest(self, tensor: str) -> list[str]:
        """The tensors to cut at from which this one is made, with no other one in between."""
        return [name for name in self._walk_back(tensor) if isinstance(name, str)]

    def name_nodes(self, tensor: str) -> str:
        """The nodes that make this tensor out of the nearest ones, as `Conv_3 (Conv)`."""
        nodes = [node for node in self._walk_back(tensor) if not isinstance(node, str)]
        shown = [node for node in nodes if not self._shapes & set(node.output)]
        return " after ".join(f"{node.name} ({node.op_type})" for node in shown)

    def _walk_back(self, tensor: str) -> Iterator[NodeProto | str]:
        """Nodes from a tensor back to the nearest ones to cut at, and the names of these."""
        ends, todo, seen = set(self.tensors), [tensor], {tensor}
        while todo:
            node = self._producers[todo.pop(0)]
            yield node
            for name in node.input:
                if name in seen:
                    continue
                seen.add(name)
                if name in ends:
                    yield name
                elif name in self._producers and name in self._varying:
                    todo.append(name)

    def cut(self, tensor: str, step: int = 1) -> ModelProto:
        """The graph up to a tensor, which becomes the output: float32 [batch, values].

        Args:
            step: of the values of each picture only every so many-th.
        """
        import onnx
        from onnx import TensorProto, helper, numpy_helper

        output = self.contract.output_name
        if tensor == output:
            return self.model
        wanted = {tensor, *self.find_before(tensor)}
        cut = onnx.ModelProto()
        cut.CopyFrom(self.model)
        graph = cut.graph
        nodes = [node for node in self.model.graph.node if wanted & set(node.output)]
        constants = {
            "cut_first": np.array([0], np.int64),
            "cut_end": np.array([np.iinfo(np.int64).max], np.int64),
            "cut_rest": np.array([-1], np.int64),
            "cut_axis": np.array([1], np.int64),
            "cut_step": np.array([step], np.int64),
        }
        # The batch need not be the first dimension of what is cut at, so it is asked for.
        tail = [
            helper.make_node("Shape", [self.contract.input_name], ["cut_shape"], start=0, end=1),
            helper.make_node("Concat", ["cut_shape", "cut_rest"], ["cut_flat"], axis=0),
            helper.make_node("Cast", [tensor], ["cut_float"], to=TensorProto.FLOAT),
            helper.make_node("Reshape", ["cut_float", "cut_flat"], ["cut_values"]),
            helper.make_node(
                "Slice", ["cut_values", "cut_first", "cut_end", "cut_axis", "cut_step"], [output]
            ),
        ]
        for place, node in enumerate(tail):
            node.name = f"cut_{place}"
        del graph.node[:]
        graph.node.extend([*nodes, *tail])
        kept = [item for item in self.model.graph.initializer if item.name in wanted]
        del graph.initializer[:]
        graph.initializer.extend(kept)
        graph.initializer.extend(
            numpy_helper.from_array(value, name) for name, value in constants.items()
        )
        del graph.output[:]
        graph.output.append(
            helper.make_tensor_value_info(output, TensorProto.FLOAT, ["batch", "values"])
        )
        return cut


def _find_kinds(model: onnx.ModelProto) -> dict[str, str]:
    """`values` for float tensors whose size hangs on the batch, `shape` for those of int64."""
    import onnx

    types = onnx.TensorProto
    kinds = {}
    for value in onnx.shape_inference.infer_shapes(model).graph.value_info:
        tensor = value.type.tensor_type
        if tensor.elem_type == types.INT64:
            kinds[value.name] = "shape"
        elif tensor.elem_type in (types.FLOAT, types.FLOAT16, types.BFLOAT16) and any(
            not dim.HasField("dim_value") for dim in tensor.shape.dim
        ):
            kinds[value.name] = "values"
    return kinds
