"""Post-training INT8 with explicit Q/DQ: torchao's PT2E with our own symmetric quantizer.

The network is captured by `torch.export`, BatchNorm is folded, observers watch calibration
pictures go by, biases are corrected for the rounding of weights. Then layers that cost answers are
looked for and left in float. The state is plain tensors, so it is stored beside the weights without
pickle and gives the same graph again, bit by bit.
See https://docs.pytorch.org/ao/ (PT2E quantization).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from enginehouse.artifact import Config
from enginehouse.choices import load_choice
from enginehouse.engine import Pictures, Precision
from enginehouse.errors import Interrupted
from enginehouse.quantizer import Material, Quantized
from enginehouse.quantizers._bias import correct_biases
from enginehouse.quantizers._calibrate import calibrate, make_scheme, restore
from enginehouse.quantizers._graph import capture, prepare
from enginehouse.quantizers._search import note_search, search_float
from enginehouse.quantizers._sensitivity import measure_sensitivity, note_sensitivity

if TYPE_CHECKING:
    import torch
    from onnx import ModelProto
    from torch.fx import GraphModule

__all__ = ["LIBRARIES", "PRECISION", "Options", "quantize", "restore", "rewrite"]

LIBRARIES = ("numpy", "onnx", "torch", "torchao")
PRECISION: Precision = "int8"


class Options(Config):
    """How scales are found, and when layers are left in float."""

    observer: Literal["histogram", "minmax", "percentile"] = Field(
        "histogram",
        description="How the range of activations is found: histogram (least squared error), "
        "minmax (all that was seen) or percentile.",
    )
    percentile: float = Field(
        99.99,
        ge=90,
        le=100,
        description="Per cent of an activation's numbers that the percentile observer keeps.",
    )
    sensitivity_pictures: int = Field(
        64,
        ge=0,
        le=10_000,
        description="Validation pictures on which each layer's effect is measured; 0: it is not, "
        "and no layer is left in float.",
    )
    max_flips: int = Field(
        1,
        ge=0,
        le=10_000,
        description="Answers to those pictures that may differ from the network's in float; the "
        "fewest layers that bring it down to that are left in float.",
    )


def quantize(material: Material, options: Options) -> Quantized:
    """Calibrate, and leave in float what costs too many answers.

    Raises:
        QuantizationError: the network cannot be captured, or an activation is not finite.
        Interrupted: it was asked to stop.
    """
    prepared = prepare(
        capture(material.net, material.model.size),
        make_scheme(options.observer, options.percentile),
    )
    for step in (calibrate, correct_biases):
        step(prepared, material.calibration, material.num_pictures, material.here)
    state = {name: value.clone() for name, value in prepared.state_dict().items()}
    if not options.sensitivity_pictures:
        return Quantized(state)
    kept_float, notes = find_costly_layers(
        prepared, material, options.sensitivity_pictures, options.max_flips
    )
    return Quantized(state, kept_float, notes)


def find_costly_layers(
    prepared: GraphModule, material: Material, num_pictures: int, max_flips: int
) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Which layers stay in float, in the order of the network, with notes on each layer's effect.

    Args:
        prepared: calibrated.
        material: its validation pictures are used.
        num_pictures: how many of them.
        max_flips: answers that may differ from those in float.

    Raises:
        Interrupted: it was asked to stop.
    """
    inputs, targets = material.validation(num_pictures)

    def report(message: str, done: int = 0, total: int = 0, **metrics: float) -> None:
        if material.here.stopping():
            raise Interrupted(
                f"Quantizing was stopped at: {message}.",
                "Run again: it starts anew, which takes little time.",
            )
        material.here.report(message, done, total, **metrics)

    def decide(logits: torch.Tensor) -> NDArray[np.bool_]:
        problem = load_choice("problems", material.model.problem)
        probabilities = problem.activate(logits / material.model.temperature)
        decided: NDArray[np.bool_] = problem.decide(probabilities.numpy())
        return decided

    effects = measure_sensitivity(prepared, inputs, decide, targets, report)
    found = search_float(prepared, effects, inputs, decide, max_flips, report)
    notes = {"sensitivity": note_sensitivity(effects), "search": note_search(found, max_flips)}
    return found.kept_float, notes


def rewrite(proto: ModelProto, pictures: Pictures, options: Options) -> ModelProto:
    """The exported graph as it is: `restore` put the Q/DQ in."""
    return proto
