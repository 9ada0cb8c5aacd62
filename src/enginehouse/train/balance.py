"""How much each class counts in the loss."""

from __future__ import annotations

from enginehouse.errors import TrainingError
from enginehouse.train.splits import Split


def weigh_classes(
    split: Split, classes: tuple[str, ...], max_imbalance: float
) -> list[float] | None:
    """Weights n / (C n_c) for the loss when class sizes are uneven, else None.

    Args:
        split: training pictures.
        classes: names by index.
        max_imbalance: largest ratio of class sizes that needs no weights.

    Raises:
        TrainingError: a class has no pictures.
    """
    counts = split.count_classes(len(classes))
    if missing := [name for name, count in zip(classes, counts, strict=True) if count == 0]:
        raise TrainingError(
            f"The training split holds no picture of {', '.join(missing)}.",
            "Add pictures of it, or take the class out of the data set.",
        )
    if counts.max() <= max_imbalance * counts.min():
        return None
    return [float(weight) for weight in counts.sum() / (len(counts) * counts)]
