"""What a problem and a loss are: the names in the modules under `problems/` and `losses/`.

A problem says what a label is to the network: how labels become targets, how logits become
probabilities, what is decided and how well. A loss says how far logits are from targets. Knows
neither pictures nor engines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from enginehouse.artifact import Config
from enginehouse.choices import load_choice

if TYPE_CHECKING:
    import torch

Targets = NDArray[np.float32]  # [n, classes], each 0..1
Probabilities = NDArray[np.float32]  # [n, classes]
# A row of targets sums to 1, or each class stands for itself.
Shape = Literal["distribution", "independent"]


class ClassScore(Config):
    """How well one class is told; a number is None where nothing of the class occurs.

    Attributes:
        support: pictures that have it.
        average_precision: area under precision over recall; None too where it was not wanted.
    """

    support: int
    precision: float | None
    recall: float | None
    f1: float | None
    average_precision: float | None


@dataclass(frozen=True)
class Quality:
    """How well a problem is solved.

    Attributes:
        accuracy: share of pictures whose answer is right in every class.
        macro_f1: mean F1 over the classes that occur in the truth.
        classes: by name, in index order.
    """

    accuracy: float
    macro_f1: float
    classes: dict[str, ClassScore]


class Answered:
    """Pictures with what is true of them and what was answered; its owner has the attributes.

    Attributes:
        problem: name of the problem.
        targets, probabilities: [n, classes].
    """

    problem: str
    targets: Targets
    probabilities: Probabilities

    @property
    def truth(self) -> NDArray[np.bool_]:
        """Which classes each picture bears, [n, classes]."""
        bears: NDArray[np.bool_] = self.targets > 0.5
        return bears

    @property
    def said(self) -> NDArray[np.bool_]:
        """Which classes each picture is said to bear, [n, classes]."""
        said: NDArray[np.bool_] = load_choice("problems", self.problem).decide(self.probabilities)
        return said


class Problem(Protocol):
    """The names in a module under `problems/`."""

    LIBRARIES: tuple[str, ...]  # distributions whose versions its results depend on
    SHAPE: Shape
    SEVERAL_LABELS: bool  # a picture may bear more than one

    def encode(self, labels: Sequence[Sequence[int]], num_classes: int) -> Targets:
        """Targets from the class indices that each picture bears."""

    def smooth(self, targets: torch.Tensor, amount: float) -> torch.Tensor:
        """Label smoothing: targets moved by `amount` (0..1) towards knowing nothing."""

    def activate(self, logits: torch.Tensor) -> torch.Tensor:
        """Probabilities from logits, [n, classes]; exported as part of the graph."""

    def find_untrained_loss(self, num_classes: int) -> float:
        """The usual loss of a network that knows nothing (ln C, ln 2)."""

    def decide(self, probabilities: Probabilities) -> NDArray[np.bool_]:
        """Which classes each picture is said to have, [n, classes]."""

    def score(
        self,
        targets: Targets,
        probabilities: Probabilities,
        classes: Sequence[str],
        ranked: bool = True,
    ) -> Quality:
        """How good the decisions are. Raises nothing on classes that do not occur.

        Args:
            ranked: whether the average precision is wanted too; its library takes 2 s to import.
        """

    def measure_alarm(self, probabilities: Probabilities, good: int) -> NDArray[np.float64]:
        """How sure the network is that the part is not good, 0..1, [n]."""


class Loss(Protocol):
    """The names in a module under `losses/`."""

    LIBRARIES: tuple[str, ...]
    FITS: tuple[Shape, ...]  # the shapes of targets that it makes sense for
    Options: type[Config]  # its numbers, bounded and described

    def measure(
        self,
        logits: torch.Tensor,
        targets: torch.Tensor,
        weights: torch.Tensor | None,
        problem: Problem,
        options: Any,
    ) -> torch.Tensor:
        """The loss of each picture, float32 [n].

        Over the classes it is a sum where targets are a distribution, as one picture is one
        answer then, and a mean where each class stands for itself.

        Args:
            logits: float32 [n, classes].
            targets: float32 [n, classes], each 0..1; soft ones are taken as they are.
            weights: how much each class counts, [classes]; None: all the same.
            problem: whose SHAPE is one of FITS.
            options: an instance of `Options`.
        """
