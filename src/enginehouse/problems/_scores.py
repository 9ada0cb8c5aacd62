"""How well classes are told, by torchmetrics: what the problems share."""

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
) -> Quality:
    """Each class against all others.

    The average precision is the step-wise sum of precision over recall, without interpolation,
    as scikit-learn has it.

    Args:
        truth: which classes each picture has, [n, classes].
        said: which it is said to have, [n, classes].
        probabilities: [n, classes].
        classes: their names.
    """
    counts = _count(truth, said)
    scores = {
        name: _score_class(counts[index], truth[:, index], probabilities[:, index])
        for index, name in enumerate(classes)
    }
    present = [score.f1 for score in scores.values() if score.f1 is not None]
    return Quality(
        accuracy=float((truth == said).all(axis=1).mean()),
        macro_f1=float(np.mean(present)) if present else 0.0,
        classes=scores,
    )


def _score_class(
    counts: Sequence[int], truth: NDArray[np.bool_], probabilities: NDArray[np.float32]
) -> ClassScore:
    hits, false_alarms, _, _, support = counts
    answers = hits + false_alarms
    return ClassScore(
        support=support,
        precision=hits / answers if answers else None,
        recall=hits / support if support else None,
        f1=2 * hits / (support + answers) if support else None,
        average_precision=_find_average_precision(truth, probabilities) if support else None,
    )


def _count(truth: NDArray[np.bool_], said: NDArray[np.bool_]) -> list[list[int]]:
    """True and false positives, true and false negatives, and support of each class."""
    import torch
    from torchmetrics.functional.classification import multilabel_stat_scores

    counts: list[list[int]] = multilabel_stat_scores(
        torch.from_numpy(said.astype(np.int64)),
        torch.from_numpy(truth.astype(np.int64)),
        num_labels=truth.shape[1],
        average=None,
        validate_args=False,
    ).tolist()
    return counts


def _find_average_precision(truth: NDArray[np.bool_], probabilities: NDArray[np.float32]) -> float:
    """Of one class that occurs; [n] each."""
    import torch
    from torchmetrics.functional.classification import binary_average_precision

    found: float = binary_average_precision(
        torch.from_numpy(probabilities.astype(np.float64)),
        torch.from_numpy(truth.astype(np.int64)),
        validate_args=False,
    ).item()
    return found
