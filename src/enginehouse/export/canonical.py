"""One spelling per graph: the same network gives the same bytes in any folder and process.

torch writes stack traces with absolute paths, source lines and counters of the process into the
graph; they are taken out here, and every name is given by place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onnx import ModelProto

PRODUCER = "enginehouse"


def make_canonical(model: ModelProto, metadata: Mapping[str, str]) -> ModelProto:
    """A copy without traces of where it was made, with names by place and our own metadata.

    Args:
        model: a graph without subgraphs, weights inside.
        metadata: the model's `metadata_props`, written in order of their names.
    """
    from onnx import ModelProto as Proto

    clean = Proto()
    clean.CopyFrom(model)
    clean.producer_name, clean.producer_version = PRODUCER, ""
    clean.doc_string = clean.domain = ""
    clean.model_version = 1
    del clean.metadata_props[:]
    for name in sorted(metadata):
        clean.metadata_props.add(key=name, value=metadata[name])
    graph = clean.graph
    graph.name, graph.doc_string = PRODUCER, ""
    # Shapes in between hold torch's symbols; every engine infers them anew.
    del graph.value_info[:]
    for part in (graph, *graph.node, *graph.input, *graph.output, *graph.initializer):
        part.doc_string = ""
        del part.metadata_props[:]
    _rename(clean)
    return clean


def plan_names(model: ModelProto) -> dict[str, str]:
    """What `make_canonical` calls each tensor of a graph: old name to new one.

    Nodes are named by operator and place, their outputs after them, constants in order. Weights
    keep the name that they have in the network (`net.layer1.0.conv1.weight`).
    """
    graph = model.graph
    fixed = {value.name for value in (*graph.input, *graph.output)}
    names = {name: name for name in fixed}
    constants = [t for t in graph.initializer if not t.name.startswith("net.")]
    names |= {tensor.name: f"constant_{place}" for place, tensor in enumerate(constants)}
    for node, name in zip(graph.node, _name_nodes(graph), strict=True):
        for place, output in enumerate(node.output):
            if output and output not in fixed:
                names[output] = f"{name}_out{place}"
    return names


def _name_nodes(graph: Any) -> list[str]:
    seen: Counter[str] = Counter()
    names = []
    for node in graph.node:
        names.append(f"{node.op_type}_{seen[node.op_type]}")
        seen[node.op_type] += 1
    return names


def _rename(model: ModelProto) -> None:
    graph, names = model.graph, plan_names(model)
    for node, name in zip(graph.node, _name_nodes(graph), strict=True):
        node.name = name
        node.input[:] = [names.get(each, each) for each in node.input]
        node.output[:] = [names.get(each, each) for each in node.output]
    for tensor in graph.initializer:
        tensor.name = names.get(tensor.name, tensor.name)
