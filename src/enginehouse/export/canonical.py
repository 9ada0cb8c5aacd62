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
    _rename(graph)
    return clean


def _rename(graph: Any) -> None:
    """Name nodes by operator and place, their outputs after them, constants in order.

    Weights keep the name that they have in the network (`net.layer1.0.conv1.weight`).
    """
    fixed = {value.name for value in (*graph.input, *graph.output)}
    names = {name: name for name in fixed}
    constants = [t for t in graph.initializer if not t.name.startswith("net.")]
    names |= {tensor.name: f"constant_{place}" for place, tensor in enumerate(constants)}
    seen: Counter[str] = Counter()
    for node in graph.node:
        node.name = f"{node.op_type}_{seen[node.op_type]}"
        seen[node.op_type] += 1
        for place, output in enumerate(node.output):
            if output and output not in fixed:
                names[output] = f"{node.name}_out{place}"
    for tensor in graph.initializer:
        tensor.name = names.get(tensor.name, tensor.name)
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
