"""Post-training INT8 with explicit Q/DQ: torchao's PT2E with our own symmetric quantizer.

The network is captured by `torch.export`, BatchNorm is folded, observers watch calibration
pictures go by. Their state is plain tensors, so it is stored beside the weights without pickle
and gives the same graph again, bit by bit. See https://docs.pytorch.org/ao/ (PT2E quantization).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING

from enginehouse.artifact import Report
from enginehouse.errors import QuantizationError, first_line
from enginehouse.quantizers._symmetric import SymmetricQuantizer
from enginehouse.quiet import quiet

if TYPE_CHECKING:
    import torch
    from torch.fx import GraphModule

LIBRARIES = ("torch", "torchao")


def calibrate(
    net: torch.nn.Module, batches: Iterable[torch.Tensor], report: Report
) -> dict[str, torch.Tensor]:
    """Watch calibration pictures go through a network.

    Args:
        net: trained, in evaluation mode, on the CPU; from float32 [n, 3, size, size] to logits.
        batches: normalised pictures, float32 [n, 3, size, size], at least one batch. Histograms
            depend on how pictures are batched, so the caller must always batch them alike.
        report: told how many pictures went through.

    Returns:
        The state for `restore`: folded weights and observers by name, each tensor its own.

    Raises:
        QuantizationError: the network cannot be captured, or an activation is not finite.
    """
    import torch

    prepared: GraphModule | None = None
    done = 0
    with torch.no_grad():
        for batch in batches:
            prepared = prepared or _prepare(net, batch.shape[-1])
            _observe(prepared, batch)
            done += len(batch)
            report("calibrate", done)
    assert prepared is not None, "calibration without pictures"
    return {name: value.clone() for name, value in prepared.state_dict().items()}


def restore(net: torch.nn.Module, state: dict[str, torch.Tensor], size: int) -> GraphModule:
    """The quantized network, ready for `torch.onnx.export`: INT8 weights and Q/DQ in its graph.

    Args:
        net: the architecture, in evaluation mode, on the CPU; its weights are replaced.
        state: what `calibrate` returned.
        size: side of the pictures in pixels.

    Raises:
        QuantizationError: the state is not one of this architecture and these libraries.
    """
    with quiet():
        from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e

    prepared = _prepare(net, size)
    try:
        prepared.load_state_dict(state)
    except RuntimeError as error:
        raise QuantizationError(
            f"The calibrated state does not fit the network as it is built here: "
            f"{first_line(error)}",
            "Quantize again with the libraries that are installed now.",
        ) from error
    with quiet():
        converted: GraphModule = convert_pt2e(prepared)
    return converted


def _prepare(net: torch.nn.Module, size: int) -> GraphModule:
    """Capture the network for any batch, fold BatchNorm, insert observers."""
    import torch

    # Two pictures: a batch of one would be taken for a constant.
    example = torch.zeros(2, 3, size, size)
    batch = torch.export.Dim("batch", min=1)
    with quiet():
        from torchao.quantization.pt2e.quantize_pt2e import prepare_pt2e

        try:
            exported = torch.export.export(net, (example,), dynamic_shapes=({0: batch},))
        except Exception as error:  # torch raises dozens of types here, all meaning the same
            raise QuantizationError(
                f"The network cannot be captured as one graph: {first_line(error)}",
                "Choose another architecture, or targets of precision fp32.",
            ) from error
        graph = exported.module(check_guards=False)
        prepared: GraphModule = prepare_pt2e(graph, SymmetricQuantizer())
    return prepared


def _observe(prepared: GraphModule, batch: torch.Tensor) -> None:
    with warnings.catch_warnings():
        # Observers only warn of infinity, and leave it out of the range.
        warnings.filterwarnings("error", "torch.inf detected")
        try:
            logits = prepared(batch)
        except (RuntimeError, UserWarning) as error:
            raise _not_finite(first_line(error)) from error
    if not bool(logits.isfinite().all()):
        raise _not_finite("its answers are not numbers")


def _not_finite(found: str) -> QuantizationError:
    return QuantizationError(
        f"Calibration wants finite activations; the network does not give them: {found}",
        "Train again with precision fp32, and look at the training curves.",
    )
