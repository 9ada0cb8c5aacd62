"""Which few layers to leave in float so that INT8 changes no more answers than it may."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from enginehouse.artifact import Report
from enginehouse.quantizers._sensitivity import LayerEffect, count_flips, measure_sqnr
from enginehouse.quantizers._simulator import Simulator

if TYPE_CHECKING:
    import torch
    from torch.fx import GraphModule

    from enginehouse.quantizers._sensitivity import Decide

Names = tuple[str, ...]


@dataclass(frozen=True)
class SearchStep:
    """What some layers in float and the others in INT8 come to.

    Attributes:
        kept: how many are in float.
        flips: pictures whose answer is not that of float.
        sqnr_db: of the logits, see `measure_sqnr`.
    """

    kept: int
    flips: int
    sqnr_db: float


@dataclass(frozen=True)
class SearchResult:
    """The layers to leave in float, and how they were found.

    Attributes:
        kept_float: their names, in the order of the network.
        flips: pictures whose answer is not that of float, with these in float.
        num_pictures: that were looked at.
        steps: all that was tried, in that order.
    """

    kept_float: Names
    flips: int
    num_pictures: int
    steps: tuple[SearchStep, ...]


def search_float(
    prepared: GraphModule,
    effects: Sequence[LayerEffect],
    inputs: torch.Tensor,
    decide: Decide,
    max_flips: int,
    report: Report,
) -> SearchResult:
    """Leave as few layers in float as the budget asks for; none where INT8 meets it as it is.

    First the shortest run of the worst layers that meets it, by halving, as in Pandey et al.,
    A Practical Mixed Precision Algorithm for Post-Training Quantization
    (https://arxiv.org/abs/2302.05397), phase 2; of these, those that were not needed go back to
    INT8, the least harmful first. With all layers in float nothing flips, so it always ends.

    Args:
        prepared: what `_graph.prepare` returned, after it saw the calibration pictures.
        effects: of all its layers, the worst first, as `measure_sensitivity` returns them.
        inputs: normalised pictures, float32 [n, 3, size, size].
        decide: from logits to which classes each picture is said to have, [n, classes].
        max_flips: pictures whose answer may differ from that of float.
        report: told how many choices of layers were tried.
    """
    simulator = Simulator(prepared)
    names = [layer.name for layer in simulator.layers]
    exact = simulator.answer(inputs, int8=())
    said = decide(exact)
    tried: dict[frozenset[str], SearchStep] = {}

    def try_out(kept: Names) -> SearchStep:
        key = frozenset(kept)
        if key not in tried:
            found = simulator.answer(inputs, int8=set(names) - key)
            flips = count_flips(said, decide(found))
            tried[key] = SearchStep(len(kept), flips, measure_sqnr(exact, found))
            report("search", len(tried))
        return tried[key]

    def holds(kept: Names) -> bool:
        return try_out(kept).flips <= max_flips

    kept: Names = ()
    if not holds(kept):
        kept = _find_prefix(tuple(effect.name for effect in effects), holds)
        for name in reversed(kept):
            fewer = tuple(other for other in kept if other != name)
            if holds(fewer):
                kept = fewer
    return SearchResult(
        kept_float=tuple(name for name in names if name in kept),
        flips=try_out(kept).flips,
        num_pictures=len(inputs),
        steps=tuple(tried.values()),
    )


def _find_prefix(ranking: Names, holds: Callable[[Names], bool]) -> Names:
    """The shortest prefix that holds, where a longer one holds if a shorter does.

    The empty one does not, as the caller knows, and the whole one does.
    """
    short, long = 0, len(ranking)
    while long - short > 1:
        middle = (short + long) // 2
        if holds(ranking[:middle]):
            long = middle
        else:
            short = middle
    return ranking[:long]


def note_search(result: SearchResult, max_flips: int) -> dict[str, Any]:
    """The search as it stands in notes, JSON."""
    return {
        "max_flips": max_flips,
        "num_pictures": result.num_pictures,
        "flips": result.flips,
        "kept": list(result.kept_float),
        "steps": [
            {"kept": step.kept, "flips": step.flips, "sqnr_db": round(step.sqnr_db, 2)}
            for step in result.steps
        ],
    }
