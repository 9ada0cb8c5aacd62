"""Calibration: pictures go through a prepared graph twice, and each tensor in it gets its scale.

The first walk fixes ranges, the second counts within them. Both come out the same however pictures
are batched, up to the last bits of the network's own arithmetic. From what that leaves, `restore`
builds the network anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal

from enginehouse.artifact import Workspace
from enginehouse.errors import Interrupted, QuantizationError
from enginehouse.quantizers._graph import (
    capture,
    convert,
    is_observer,
    keep_float,
    list_layers,
    load_state,
    prepare,
)
from enginehouse.quantizers._symmetric import SymmetricQuantizer
from enginehouse.quiet import quiet

if TYPE_CHECKING:
    import torch
    from torch.fx import GraphModule, Node

    from enginehouse.quantizer import State
    from enginehouse.quantizers._observers import Method


def make_scheme(
    method: Method = "histogram", percentile: float = 99.99, per_channel: bool = True
) -> SymmetricQuantizer:
    """INT8 with scales that are found by watching.

    Args:
        method, percentile: see `ActivationObserver`.
        per_channel: see `SymmetricQuantizer`.
    """
    with quiet():
        from torchao.quantization.pt2e import MinMaxObserver

        from enginehouse.quantizers._observers import ActivationObserver, PerChannelWeightObserver

    return SymmetricQuantizer(
        ActivationObserver.with_args(method=method, percentile=percentile),
        PerChannelWeightObserver if per_channel else MinMaxObserver,
        per_channel,
    )


def calibrate(
    prepared: GraphModule,
    batches: Callable[[], Iterator[torch.Tensor]],
    num_pictures: int,
    here: Workspace,
) -> None:
    """Let pictures go through a prepared graph, and set the scale of each of its tensors.

    Args:
        prepared: by `make_scheme`; changed in place.
        batches: walks through the pictures, normalised, float32 [n, 3, size, size]; each call
            through the same ones.
        num_pictures: how many those are.
        here: its `report` and `stopping`.

    Raises:
        QuantizationError: a number on the way is not finite; names the layer.
        Interrupted: it was asked to stop.
    """
    import torch

    from enginehouse.quantizers._observers import ActivationObserver

    observers = [each for each in prepared.modules() if isinstance(each, ActivationObserver)]
    walks: list[Literal["range", "counts"]] = ["range"]
    if any(each.needs_counts for each in observers):
        walks.append("counts")
    for number, walk in enumerate(walks):
        for each in observers:
            each.watch = walk
        before, total = number * num_pictures, len(walks) * num_pictures
        for batch in follow(batches(), "calibrate", before, total, here):
            with torch.no_grad():
                logits = prepared(batch)
            seen = torch.stack([logits.sum(), *(each.magnitude for each in observers)])
            if not bool(seen.isfinite().all()):
                raise _describe_not_finite(prepared)
    for each in observers:
        each.settle()


def follow(
    batches: Iterator[torch.Tensor], message: str, done: int, total: int, here: Workspace
) -> Iterator[torch.Tensor]:
    """The batches, with what was `done` of `total` pictures reported after each.

    Raises:
        Interrupted: it was asked to stop.
    """
    for batch in batches:
        if here.stopping():
            raise Interrupted(
                f"Quantizing was stopped after {done} of {total} pictures ({message}).",
                "Run again: it starts anew, which takes little time.",
            )
        yield batch
        done += len(batch)
        here.report(message, done, total)


def restore(
    net: torch.nn.Module, state: State, kept_float: tuple[str, ...], size: int
) -> torch.nn.Module:
    """The quantized network: INT8 weights and Q/DQ in its graph, but for the layers kept in float.

    Args:
        net: the architecture, in evaluation mode, on the CPU; its weights are replaced.
        state, kept_float: what a quantizer worked out on a graph of `make_scheme`.
        size: side of the pictures in pixels.

    Raises:
        QuantizationError: the state is not one of this architecture and these libraries.
    """
    prepared = prepare(capture(net, size), make_scheme())
    load_state(prepared, state)
    keep_float(prepared, kept_float)
    return convert(prepared)


def _describe_not_finite(prepared: GraphModule) -> QuantizationError:
    """Name the first layer that saw a number that is not finite."""
    layers = {layer.node: layer.name for layer in list_layers(prepared)}
    where = "the answers"
    for node in prepared.graph.nodes:
        sources = node.all_input_nodes if node.name in layers else []
        faulty = [source for source in sources if not _is_finite(prepared, source)]
        if faulty:
            is_weight = faulty[0].all_input_nodes[0].op == "get_attr"
            where = f"the {'weight' if is_weight else 'input'} of {layers[node.name]}"
            break
    return QuantizationError(
        f"Calibration wants finite activations; not all numbers are finite in {where}.",
        "Train again with precision fp32, and look at the training curves.",
    )


def _is_finite(prepared: GraphModule, node: Node) -> bool:
    """Whether an observer saw finite numbers only."""
    if not is_observer(prepared, node):
        return True
    observer: Any = prepared.get_submodule(str(node.target))
    return bool(observer.min_val.isfinite().all()) and bool(observer.max_val.isfinite().all())
