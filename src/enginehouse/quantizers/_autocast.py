"""Casts in the graph: ModelOpt's AutoCast, told what must stay in fp32.

TensorRT 11 and TensorRT-RTX take the precision from the graph alone, so the casts are written
into it. Three things stay in fp32: what turns pixels into normalised numbers; the last product
and what follows it (logits of 8 or 11 bits give probabilities in coarse steps, and the same ones
where the network sees a difference); and what the options name. The weights of that last product
are few. See https://nvidia.github.io/Model-Optimizer/guides/8_autocast.html.
"""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field

from enginehouse.artifact import Config
from enginehouse.engine import Pictures
from enginehouse.errors import ExportError, QuantizationError, first_line
from enginehouse.quantizers._large_values import find_large
from enginehouse.quiet import quiet

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto

Kind = Literal["fp16", "bf16"]
# Before 22, ONNX has no bf16 convolution, and a bf16 graph would keep its convolutions in fp32.
_OPSETS: dict[Kind, int] = {"fp16": 18, "bf16": 22}
_PRODUCTS = frozenset({"Conv", "Gemm", "MatMul"})
_OPERATORS = r"^([A-Z][A-Za-z0-9]*(, ?[A-Z][A-Za-z0-9]*)*)?$"


class CastOptions(Config):
    """What both kinds of casts can be told."""

    keep_float: str = Field(
        "",
        pattern=_OPERATORS,
        max_length=400,
        description="ONNX operators that stay in fp32 too, as `Softmax, LayerNormalization`.",
    )


def check_installed() -> None:
    """Check that AutoCast is here, before anything is computed for it.

    Raises:
        QuantizationError: the extra that brings it is not installed.
    """
    if importlib.util.find_spec("modelopt") is None:
        raise _missing("it is not installed")


def cast_graph(
    proto: ModelProto,
    kind: Kind,
    keep_float: str,
    pictures: Pictures,
    largest: float = np.inf,
) -> ModelProto:
    """The graph with weights and activations in a smaller type, input and output as they were.

    Args:
        proto: uint8 pictures in, float32 probabilities out.
        kind: the type.
        keep_float: operators that stay in fp32, with commas between them.
        pictures: uint8 [n, 3, size, size].
        largest: what takes or gives a number beyond it for one of the pictures stays in fp32.

    Returns:
        A new graph; the same one for the same arguments, in any process.

    Raises:
        QuantizationError: AutoCast is not installed, or an operator is not in the graph.
        ExportError: AutoCast fails, or nothing of the network could be cast.
    """
    check_installed()
    named = _name_nodes(_split_hard_swish(proto) if kind == "bf16" else proto)
    kept = _find_ends(named.graph) | _find_operators(named.graph, keep_float)
    if np.isfinite(largest):
        kept |= find_large(named, pictures, largest)
    result = _convert(named, kind, kept)
    _check_cast(result, kind)
    _put_in_order(result.graph)
    return result


def _split_hard_swish(proto: ModelProto) -> ModelProto:
    """A copy with each HardSwish as the product that ONNX defines it by.

    TensorRT's parsers take no HardSwish of bf16, but both of its parts.
    """
    from onnx import helper

    split = type(proto)()
    split.CopyFrom(proto)
    nodes: list[NodeProto] = []
    for node in proto.graph.node:
        if node.op_type == "HardSwish":
            (value,), (output,) = node.input, node.output
            gate = f"{output}.gate"
            nodes.append(helper.make_node("HardSigmoid", [value], [gate], alpha=1 / 6, beta=0.5))
            nodes.append(helper.make_node("Mul", [value, gate], [output]))
        else:
            nodes.append(node)
    _replace(split.graph.node, nodes)
    return split


def _name_nodes(proto: ModelProto) -> ModelProto:
    """A copy whose nodes are named by place: AutoCast is told by name what stays in fp32."""
    named = type(proto)()
    named.CopyFrom(proto)
    for place, node in enumerate(named.graph.node):
        node.name = f"node_{place}"
    return named


def _find_ends(graph: GraphProto) -> set[str]:
    """Names of the nodes before the first products, and of the last products and what follows."""
    constants = {tensor.name for tensor in graph.initializer}
    early, ends = {value.name for value in graph.input}, set()
    for node in graph.node:
        inputs = {name for name in node.input if name and name not in constants}
        if inputs and inputs <= early and node.op_type not in _PRODUCTS | {"Shape"}:
            early |= set(node.output)
            ends.add(node.name)
    wanted = {value.name for value in graph.output}
    for node in reversed(graph.node):
        if wanted & set(node.output):
            ends.add(node.name)
            if node.op_type not in _PRODUCTS:
                wanted |= set(node.input)
    return ends


def _find_operators(graph: GraphProto, keep_float: str) -> set[str]:
    wanted = {name.strip() for name in keep_float.split(",") if name.strip()}
    found = {node.op_type for node in graph.node}
    if unknown := sorted(wanted - found):
        raise QuantizationError(
            f"keep_float names {', '.join(unknown)}; the exported graph holds no such operator.",
            f"It holds {', '.join(sorted(found))}.",
        )
    return {node.name for node in graph.node if node.op_type in wanted}


def _convert(model: ModelProto, kind: Kind, kept: Collection[str]) -> ModelProto:
    """Run AutoCast, which wants a file."""
    autocast = _import_autocast()
    with tempfile.TemporaryDirectory() as folder, quiet():
        path = Path(folder) / "model.onnx"
        path.write_bytes(model.SerializeToString())
        try:
            result: ModelProto = autocast(
                str(path),
                low_precision_type=kind,
                nodes_to_exclude=[f"{name}$" for name in sorted(kept)],  # patterns
                data_max=np.inf,  # it would keep every activation of every picture in memory
                init_max=np.inf if kind == "bf16" else float(np.finfo(np.float16).max),
                keep_io_types=True,
                providers=["cpu"],
                opset=max(_OPSETS[kind], _read_opset(model)),
            )
        except Exception as error:  # it raises a dozen types, all meaning the same
            raise ExportError(
                f"AutoCast cannot cast this graph to {kind}: {first_line(error)}",
                f"Take {kind} out of the candidates, or choose another architecture.",
            ) from error
    return result


def _import_autocast() -> Any:
    try:
        with quiet():
            from modelopt.onnx.autocast import convert_to_mixed_precision
    except ImportError as error:
        raise _missing(f"it says {first_line(error)}") from error
    return convert_to_mixed_precision


def _missing(found: str) -> QuantizationError:
    return QuantizationError(
        f"The quantizers fp16 and bf16 want NVIDIA's ModelOpt: {found}.",
        "Install it: .venv/bin/pip install -c requirements.lock -e '.[modelopt]'",
    )


def _check_cast(model: ModelProto, kind: Kind) -> None:
    from onnx import TensorProto

    if (opset := _read_opset(model)) < _OPSETS[kind]:
        raise ExportError(
            f"A {kind} graph wants ONNX opset {_OPSETS[kind]}; AutoCast left it at {opset}.",
            f"Take {kind} out of the candidates, or choose another architecture.",
        )
    wanted = TensorProto.FLOAT16 if kind == "fp16" else TensorProto.BFLOAT16
    if not any(tensor.data_type == wanted for tensor in model.graph.initializer):
        raise ExportError(
            f"No weight of the network could be cast to {kind}: all of it stays in fp32.",
            "Keep fewer operators in fp32, or let larger activations pass.",
        )


def _read_opset(model: ModelProto) -> int:
    versions: list[int] = [
        item.version for item in model.opset_import if item.domain in ("", "ai.onnx")
    ]
    return max(versions)


def _put_in_order(graph: GraphProto) -> None:
    """Each cast right before its first reader, constants by their first use.

    AutoCast walks through sets of names, so its order differs from process to process.
    """
    casts = {node.output[0]: node for node in graph.node if node.op_type == "Cast"}
    ordered: list[NodeProto] = []

    def place(name: str) -> None:
        if cast := casts.pop(name, None):
            place(cast.input[0])
            ordered.append(cast)

    for node in graph.node:
        if node.op_type != "Cast":
            for name in node.input:
                place(name)
            ordered.append(node)
    for value in graph.output:
        place(value.name)
    used = {name: None for node in ordered for name in node.input}
    constants = {tensor.name: tensor for tensor in graph.initializer}
    _replace(graph.node, ordered)
    _replace(graph.initializer, [constants[name] for name in used if name in constants])


def _replace(field: Any, items: list[Any]) -> None:
    """The items of a repeated field, in another order; copied, as emptying it ends them."""
    copies = [type(item).FromString(item.SerializeToString()) for item in items]
    del field[:]
    field.extend(copies)
