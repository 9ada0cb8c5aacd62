"""What is done where classes are of uneven size: they are weighed in the loss, or drawn evenly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from enginehouse.errors import TrainingError
from enginehouse.train.randomness import seed_of
from enginehouse.train.splits import Split

Way = Literal["weights", "sampler", "none"]
Rows = NDArray[np.int64]

ORDER = -1  # stands where batches have their numbers, so that no batch shares the order's seed


@dataclass(frozen=True)
class Balance:
    """How the classes of a training split are balanced.

    Attributes:
        way: what is done; `none` where sizes are even enough.
        weights: how much each class counts in the loss; None: all the same.
    """

    way: Way
    weights: list[float] | None = None

    def draw_order(self, split: Split, seed: int, epoch: int) -> Rows | None:
        """The rows of an epoch, in no particular order; None: each row once."""
        if self.way != "sampler":
            return None
        return draw_evenly(split.labels, seed_of(seed, epoch, ORDER))


def find_balance(
    split: Split, classes: tuple[str, ...], wanted: Way, max_imbalance: float
) -> Balance:
    """What is done about uneven class sizes.

    Args:
        split: training pictures.
        classes: names by index.
        wanted: what to do where it is needed.
        max_imbalance: largest ratio of class sizes that needs nothing.

    Raises:
        TrainingError: a class has no pictures.
    """
    counts = split.count_classes()
    if missing := [name for name, count in zip(classes, counts, strict=True) if count == 0]:
        raise TrainingError(
            f"The training split holds no picture of {', '.join(missing)}.",
            "Add pictures of it, or take the class out of the data set.",
        )
    if counts.max() <= max_imbalance * counts.min():
        return Balance("none")
    return Balance(wanted, weigh_classes(counts) if wanted == "weights" else None)


def weigh_classes(counts: NDArray[np.int64]) -> list[float]:
    """Weights N / (C n_c), where N is the sum of the n_c: weighed by them, all classes are alike.

    Args:
        counts: pictures that bear each of C classes, none of them 0.
    """
    return [float(weight) for weight in counts.sum() / (len(counts) * counts)]


def draw_evenly(labels: NDArray[np.int64], seed: int) -> Rows:
    """As many rows as there are, each class equally often (but for one).

    Rows of a class come again only once all of them have come. Which classes get one row more,
    where the number cannot be divided evenly, is drawn.

    Args:
        labels: class index of each row, [n].
        seed: of the draw.

    Returns:
        int64 [n], class by class.
    """
    import torch

    generator = torch.Generator().manual_seed(seed)
    present = np.unique(labels)
    wanted = np.full(len(present), len(labels) // len(present))
    lucky = torch.randperm(len(present), generator=generator).numpy()
    wanted[lucky[: len(labels) % len(present)]] += 1
    drawn = []
    for label, num in zip(present, wanted, strict=True):
        own = np.flatnonzero(labels == label)
        rounds = -(-int(num) // len(own))
        orders = [torch.randperm(len(own), generator=generator).numpy() for _ in range(rounds)]
        drawn.append(own[np.concatenate(orders)[:num]])
    return np.concatenate(drawn)
