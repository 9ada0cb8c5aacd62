"""Temperature scaling: probabilities that mean what they say, from logits that are too sure.

Guo et al., "On Calibration of Modern Neural Networks", https://arxiv.org/abs/1706.04599. One
number divides all logits, so no answer of a single-label network changes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from enginehouse.choices import load_choice
from enginehouse.problem import Targets

BOUNDS = (0.25, 8.0)  # a small split that is told without a mistake would ask for zero


def find_temperature(problem: str, logits: NDArray[np.float32], targets: Targets) -> float:
    """The temperature at which the targets are least surprising, within `BOUNDS`.

    Args:
        problem: name of the problem, whose probabilities are meant.
        logits: float32 [n, classes], of pictures that the network was not trained on.
        targets: [n, classes].
    """
    import torch
    from scipy.optimize import minimize_scalar

    activate = load_choice("problems", problem).activate
    scores = torch.from_numpy(logits).double()
    truth = torch.from_numpy(targets).double()

    def surprise(log_temperature: float) -> float:
        said = activate(scores / float(np.exp(log_temperature))).clamp(1e-12, 1)
        unsaid = (1 - said).clamp(1e-12, 1)
        independent = load_choice("problems", problem).SHAPE == "independent"
        terms = truth * said.log() + ((1 - truth) * unsaid.log() if independent else 0)
        return float(-terms.sum(dim=1).mean())

    low, high = (float(np.log(bound)) for bound in BOUNDS)
    found = minimize_scalar(surprise, bounds=(low, high), method="bounded")
    return round(float(np.exp(found.x)), 4)
