"""Bias correction: what rounding the weights adds to a layer's mean output is taken off its bias.

E[(W' - W) x] = (W' - W) E[x], with the mean of the layer's input over the calibration pictures
(Nagel et al., Data-Free Quantization Through Weight Equalization and Bias Correction,
https://arxiv.org/abs/1906.04721, section 4.2). It matters most for depthwise convolutions, whose
few weights per channel do not average out. The correction is kept beside the scales of the weight
and is added where the layer is in INT8; the bias itself stays that of the network in float.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from enginehouse.artifact import Workspace
from enginehouse.quantizers._calibrate import follow
from enginehouse.quantizers._graph import list_products
from enginehouse.quantizers._symmetric import find_kind

if TYPE_CHECKING:
    import torch
    from torch.fx import GraphModule, Node


def correct_biases(
    prepared: GraphModule,
    batches: Callable[[], Iterator[torch.Tensor]],
    num_pictures: int,
    here: Workspace,
) -> None:
    """Set the correction of each layer that has a bias of its own, in place.

    Args:
        prepared: calibrated.
        batches, num_pictures, here: as for `calibrate`.

    Raises:
        Interrupted: it was asked to stop.
    """
    import torch

    products = list_products(prepared)
    readers = Counter(str(each.bias.target) for each in products)
    # A bias that two layers share cannot be right for both.
    alone = [each for each in products if readers[str(each.bias.target)] == 1]
    means = _average_inputs(prepared, {each.node for each in alone}, batches, num_pictures, here)
    for each in alone:
        weight = prepared.get_parameter(str(each.weight.target)).detach()
        scale = each.observer.calculate_qparams()[0].view(-1, *[1] * (weight.ndim - 1))
        rounded = (weight / scale).round().clamp(each.observer.quant_min, each.observer.quant_max)
        error = (rounded * scale - weight).double()
        mean = means[each.node]
        if find_kind(each.node) == "conv":
            error = error.sum((2, 3))
            groups = len(mean) // error.shape[1]
            mean = mean.view(groups, -1).repeat_interleave(len(error) // groups, dim=0)
        each.observer.shift = -(error * mean).sum(dim=1).to(torch.float32)


def _average_inputs(
    prepared: GraphModule,
    wanted: set[Node],
    batches: Callable[[], Iterator[torch.Tensor]],
    num_pictures: int,
    here: Workspace,
) -> dict[Node, torch.Tensor]:
    """By layer: the mean of each input channel over all pictures and places, float64 [channels]."""
    import torch
    from torch.fx import Interpreter

    sums: dict[Node, torch.Tensor] = {}
    counts: Counter[Node] = Counter()

    class Reader(Interpreter):
        def run_node(self, n: Node) -> Any:
            if n in wanted:
                x = self.env[n.all_input_nodes[0]]
                axis = 1 if find_kind(n) == "conv" else x.ndim - 1
                places = [dim for dim in range(1, x.ndim) if dim != axis]
                means = (x.mean(places) if places else x).double()
                # Transformers put tokens or windows where pictures stand elsewhere, so the first
                # dimension says nothing of how many numbers were averaged.
                num_each = x[0].numel() // means.shape[1]
                total = means.sum(dim=0) * num_each
                sums[n] = sums[n] + total if n in sums else total
                counts[n] += num_each * len(x)
            return super().run_node(n)

    reader = Reader(prepared)
    with torch.no_grad():
        for batch in follow(batches(), "correct biases", 0, num_pictures, here):
            reader.run(batch)
    return {node: total / counts[node] for node, total in sums.items()}
