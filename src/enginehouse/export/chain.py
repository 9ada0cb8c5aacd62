"""The parity chain up to the ONNX file: each form of the network against the one before it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from enginehouse.compare.record import Step
from enginehouse.compare.reference import run_literally
from enginehouse.compare.step import (
    compare_answers,
    count_flips,
    describe_step,
    measure_differences,
)
from enginehouse.engine import Contract, Pictures, Precision, Probabilities
from enginehouse.errors import ExportError
from enginehouse.export.graph import wrap_network
from enginehouse.export.trace import choose_pictures, find_in_onnx, find_rounding
from enginehouse.train.record import Normalised

if TYPE_CHECKING:
    import torch
    from onnx import ModelProto
    from torch.export import ExportedProgram

BATCH = 8  # pictures that torch answers at a time


@dataclass(frozen=True)
class Forms:
    """The network in the forms that are held against each other.

    Attributes:
        plain: as it was trained. rounded: as it was exported; both from normalised pictures to
            logits, in evaluation mode.
        model: their normalisation, problem and temperature.
        program: torch's, that the graph was written from.
        names: what its values are called in the graph.
    """

    plain: torch.nn.Module
    rounded: torch.nn.Module
    model: Normalised
    program: ExportedProgram
    graph: ModelProto
    names: dict[str, str]
    contract: Contract
    precision: Precision


def check_chain(
    forms: Forms, pictures: Pictures, max_difference: float, max_flips: float
) -> list[Step]:
    """Walk the chain on real pictures.

    Only int8 rounds in torch already; what rounding costs and what the export costs are then two
    steps. In what rounds, the mean counts: a value on the edge between two steps may go either
    way. torch differs from itself there, by several hundredths in a few pictures, when only the
    batch size changes. A wrong graph differs in most pictures.

    Args:
        pictures: uint8 [n, 3, size, size].
        max_difference: between torch and ONNX: of any probability at fp32, else on average.
        max_flips: share of the pictures whose answer may differ, at each step.

    Returns:
        The steps, in order.

    Raises:
        ExportError: a step fails; names it, its figures and the first node that diverges.
    """
    problem = forms.model.problem
    plain = _answer(forms.plain, forms.model, pictures)
    restored = _answer(forms.rounded, forms.model, pictures)
    literal = run_literally(forms.graph, forms.contract, pictures)

    def in_torch() -> str:
        shown = choose_pictures(pictures, measure_differences(plain, restored))
        return find_rounding(forms.plain, forms.rounded, shown, forms.model)

    def in_onnx() -> str:
        if not np.allclose(before, restored, atol=1e-4):  # nothing rounds, and torch differs
            return in_torch()
        shown = choose_pictures(pictures, measure_differences(before, literal))
        return find_in_onnx(
            *(forms.program, forms.names, forms.graph, forms.contract, shown, forms.precision)
        )

    if forms.precision == "int8":
        before = restored
        rounding = compare_answers("torch fp32 -> fake-quant", plain, restored, problem)
        _check_step(rounding, restored, 1.0, rounding.mean_difference, max_flips, in_torch)
        steps, name = [rounding], "fake-quant -> ONNX"
    else:
        before, steps, name = plain, [], "torch fp32 -> ONNX"
    last = compare_answers(name, before, literal, problem)
    counted = last.max_difference if forms.precision == "fp32" else last.mean_difference
    _check_step(last, literal, max_difference, counted, max_flips, in_onnx)
    return [*steps, last]


def _answer(net: torch.nn.Module, model: Normalised, pictures: Pictures) -> Probabilities:
    import torch

    served = wrap_network(net, model)
    with torch.inference_mode():
        parts = [
            served(torch.from_numpy(np.array(pictures[start : start + BATCH]))).numpy()
            for start in range(0, len(pictures), BATCH)
        ]
    answers: Probabilities = np.concatenate(parts)
    return answers


def _check_step(
    step: Step,
    found: Probabilities,
    max_difference: float,
    counted: float,
    max_flips: float,
    locate: Callable[[], str],
) -> None:
    """Judge one step.

    Args:
        found: what the later form says.
        counted: the figure that `max_difference` limits.
        locate: tells where the two forms part.
    """
    flips = count_flips(max_flips, step.num_pictures)
    if np.isfinite(found).all() and counted <= max_difference and step.flips <= flips:
        return
    allowed = [f"{flips} answers"]
    if max_difference < 1:
        figure = "at most" if counted == step.max_difference else "on average"
        allowed.insert(0, f"{max_difference:.3g} {figure}")
    raise ExportError(
        f"{step.name}: {describe_step(step)}; allowed are {' and '.join(allowed)}. {locate()}",
        "Take this candidate out of the recipe, or choose another architecture; if the figures are "
        "fine for you, raise export.max_difference or export.max_flips.",
    )
