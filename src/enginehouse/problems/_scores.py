"""How well classes are told: what the problems share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from enginehouse.problem import ClassScore, Probabilities, Quality


def score_classes(
    truth: NDArray[np.bool_],
    said: NDArray[np.bool_],
    probabilities: Probabilities,
    classes: Sequence[str],
    ranked: bool,
) -> Quality:
    """Each class against all others.

    The average precision, by torchmetrics, is the step-wise sum of precision over recall, without
    interpolation, as scikit-learn has it.

    Args:
        truth: which classes each picture has, [n, classes].
        said: which it is said to have, [n, classes].
        probabilities: [n, classes].
        classes: their names.
        ranked: whether the average precision is wanted too.
    """
    scores = {
        name: _score_class(
            truth[:, index], said[:, index], probabilities[:, index] if ranked else None
        )
        for index, name in enumerate(classes)
    }
    present = [score.f1 for score in scores.values() if score.f1 is not None]
    return Quality(
        accuracy=float((truth == said).all(axis=1).mean()),
        macro_f1=float(np.mean(present)) if present else 0.0,
        classes=scores,
    )


def _score_class(
    truth: NDArray[np.bool_], said: NDArray[np.bool_], probabilities: NDArray[np.float32] | None
) -> ClassScore:
    hits, answers, support = (int(each.sum()) for each in (truth & said, said, truth))
    average = None
    if support and probabilities is not None:
        average = _find_average_precision(truth, probabilities)
    return ClassScore(
        support=support,
        precision=hits / answers if answers else None,
        recall=hits / support if support else None,
        f1=2 * hits / (support + answers) if support else None,
        average_precision=average,
    )


def _find_average_precision(truth: NDArray[np.bool_], probabilities: NDArray[np.float32]) -> float:
    """Of one class that occurs; [n] each."""
    import torch
    from torchmetrics.functional.classification import binary_average_precision  # 2 s at first

    found: float = binary_average_precision(
        torch.from_numpy(probabilities.astype(np.float64)),
        torch.from_numpy(truth.astype(np.int64)),
        validate_args=False,
    ).item()
    return found
