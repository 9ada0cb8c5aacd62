"""One step of the parity chain: what two forms of a network say of the same pictures."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from enginehouse.artifact import Workspace
from enginehouse.choices import load_choice
from enginehouse.compare.record import Step
from enginehouse.engine import Pictures, Probabilities
from enginehouse.errors import DataError
from enginehouse.prepare.record import Pack
from enginehouse.prepare.shards import open_pictures


def pick_pictures(pack: Pack, wanted: int, here: Workspace) -> Pictures:
    """Validation pictures, evenly spread over the split, uint8 [n, 3, size, size].

    Raises:
        DataError: the split is empty.
    """
    pictures = open_pictures(pack, "val", here)
    if not len(pictures):
        raise DataError(
            "The validation split holds no pictures on which forms of the network can be compared.",
            "Add data, or give that split a larger share in the recipe.",
        )
    rows = np.linspace(0, len(pictures) - 1, min(wanted, len(pictures))).round().astype(int)
    return pictures[rows]


def measure_differences(wanted: Probabilities, found: Probabilities) -> NDArray[np.float32]:
    """The largest difference of a probability in each picture, [n].

    What is not finite counts as 1, the largest that there is.
    """
    difference = np.nan_to_num(np.abs(wanted - found), nan=1.0, posinf=1.0)
    largest: NDArray[np.float32] = difference.max(axis=1)
    return largest


def compare_answers(name: str, wanted: Probabilities, found: Probabilities, problem: str) -> Step:
    """Put two forms of a network side by side.

    Args:
        name: of the step, as `fake-quant -> ONNX`.
        wanted, found: what each says, float32 [n, classes], of the same pictures.
        problem: how an answer follows from probabilities.
    """
    decide = load_choice("problems", problem).decide
    differences = measure_differences(wanted, found)
    return Step(
        name=name,
        num_pictures=len(differences),
        max_difference=float(differences.max()),
        mean_difference=float(differences.mean()),
        flips=int((decide(wanted) != decide(found)).any(axis=1).sum()),
    )


def count_flips(share: float, num_pictures: int) -> int:
    """How many answers may differ: the share of the pictures, but one where any may at all.

    Of few pictures, a single one on the edge between two classes says nothing of a network.
    """
    return max(int(share * num_pictures), int(share > 0))


def describe_step(step: Step) -> str:
    """The figures in one clause, for messages."""
    return (
        f"the probabilities of {step.num_pictures} pictures differ by {step.mean_difference:.3g} "
        f"on average and {step.max_difference:.3g} at most, and {step.flips} answers differ"
    )
