"""How much each layer, alone in INT8, changes what a network answers; the worst come first."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from enginehouse.artifact import Report
from enginehouse.quantizers._simulator import BATCH, FLOAT, Simulator

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray
    from torch.fx import GraphModule

    # From logits, float32 [n, classes], to which classes each picture is said to have.
    Decide = Callable[[torch.Tensor], NDArray[np.bool_]]

# float32 has 24 bits: what is nearer than 20 log10(2^24) is told from nothing by luck alone.
CEILING_DB = 144.5


@dataclass(frozen=True)
class LayerEffect:
    """What a layer does to the answers when it alone is in INT8.

    Attributes:
        name, kind: as `list_layers` has them.
        sqnr_db: of the logits, see `measure_sqnr`.
        flips: pictures whose answer is not that of float.
        lost: pictures that float gets right and this does not, less the reverse.
    """

    name: str
    kind: str
    sqnr_db: float
    flips: int
    lost: int


def measure_sensitivity(
    prepared: GraphModule,
    inputs: torch.Tensor,
    decide: Decide,
    targets: NDArray[np.float32],
    report: Report,
) -> list[LayerEffect]:
    """The effect of each layer alone, the worst (lowest SQNR) first.

    As in Pandey et al., A Practical Mixed Precision Algorithm for Post-Training Quantization
    (https://arxiv.org/abs/2302.05397), phase 1.

    Args:
        prepared: what `_graph.prepare` returned, after it saw the calibration pictures.
        inputs: normalised pictures, float32 [n, 3, size, size].
        decide: from logits to which classes each picture is said to have, [n, classes].
        targets: which classes each picture has, 0 or 1, [n, classes].
        report: told how many runs are over.
    """
    import torch

    simulator = Simulator(prepared)
    total = math.ceil(len(inputs) / BATCH) * (len(simulator.layers) + 1)
    batches: dict[str, list[torch.Tensor]] = defaultdict(list)
    for done, (name, part) in enumerate(simulator.answer_alone(inputs), 1):
        batches[name].append(part)
        report("sensitivity", done, total)
    logits = {name: torch.cat(parts) for name, parts in batches.items()}
    exact = logits[FLOAT]
    said, truth = decide(exact), targets > 0.5
    effects = []
    for layer in simulator.layers:
        found = logits[layer.name]
        answers = decide(found)
        right, still_right = ((each == truth).all(axis=1).sum() for each in (said, answers))
        effects.append(
            LayerEffect(
                name=layer.name,
                kind=layer.kind,
                sqnr_db=measure_sqnr(exact, found),
                flips=count_flips(said, answers),
                lost=int(right) - int(still_right),
            )
        )
    return sorted(effects, key=lambda effect: effect.sqnr_db)


def measure_sqnr(exact: torch.Tensor, found: torch.Tensor) -> float:
    """Signal to quantization noise in dB: 10 log10(sum exact^2 / sum (found - exact)^2).

    The definition of Pandey et al., section 3.2, with both sums over all pictures. Within
    -144.5..144.5, so that it is a number also where nothing differs.

    Args:
        exact, found: logits in float and with something in INT8, float32 [n, classes].
    """
    signal = float(exact.double().square().sum())
    noise = float((found.double() - exact.double()).square().sum())
    if noise == 0:
        return CEILING_DB
    if signal == 0:
        return -CEILING_DB
    return max(-CEILING_DB, min(CEILING_DB, 10 * math.log10(signal / noise)))


def count_flips(exact: NDArray[np.bool_], found: NDArray[np.bool_]) -> int:
    """Pictures whose answers differ in any class; both [n, classes]."""
    return int((exact != found).any(axis=1).sum())


def note_sensitivity(effects: Sequence[LayerEffect]) -> list[dict[str, Any]]:
    """The effects as they stand in notes, JSON, in the order given."""
    return [
        {
            "name": effect.name,
            "kind": effect.kind,
            "sqnr_db": round(effect.sqnr_db, 2),
            "flips": effect.flips,
            "lost": effect.lost,
        }
        for effect in effects
    ]
