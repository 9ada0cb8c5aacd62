"""What the engine, or the network, said of the pictures of one split, one by one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from enginehouse.choices import load_choice
from enginehouse.prepare.index import read_index
from enginehouse.prepare.shards import PackedPictures
from enginehouse.problem import Answered, Probabilities, Targets
from enginehouse.report.page import PageData
from enginehouse.train.splits import read_split

if TYPE_CHECKING:
    import pandas as pd

VALIDATION = "validation.npy"


@dataclass(frozen=True)
class Statements(Answered):
    """What was said of the n pictures of a split that count, and what is true.

    Attributes:
        problem: name of the problem.
        table: a row per picture, as the pack's index has it.
        pictures: of the whole split; picture i is `pictures[rows[i]]`.
        targets, probabilities: [n, classes].
    """

    split: str
    problem: str
    classes: tuple[str, ...]
    table: pd.DataFrame
    pictures: PackedPictures
    rows: NDArray[np.int64]
    targets: Targets
    probabilities: Probabilities

    @property
    def wrong(self) -> NDArray[np.bool_]:
        """Where something else was said than is true, [n]."""
        wrong: NDArray[np.bool_] = (self.truth != self.said).any(axis=1)
        return wrong

    @property
    def several(self) -> bool:
        """Whether a picture may bear several labels."""
        return bool(load_choice("problems", self.problem).SEVERAL_LABELS)

    def find_doubts(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """How likely the truth was found, [n], and the class that it was most wrong about, [n].

        Of several labels, the truth is as likely as that about its least likely class; of one,
        the class that is most wrong is the likeliest of the others.
        """
        fine = self.probabilities.astype(np.float64)
        if self.several:
            right = np.where(self.truth, fine, 1 - fine)
            return right.min(axis=1), right.argmin(axis=1)
        likeliest = np.where(self.truth, -1.0, fine).argmax(axis=1)
        return (fine * self.truth).sum(axis=1), likeliest

    def name(self, bears: NDArray[np.bool_]) -> str:
        """The classes of one row, in words."""
        return " + ".join(np.array(self.classes, object)[bears]) or "nothing"

    def count_confusion(self) -> list[list[int]]:
        """Rows are true classes, columns answers; of a problem with one label only."""
        counts = np.zeros((len(self.classes), len(self.classes)), int)
        np.add.at(counts, (self.truth.argmax(axis=1), self.said.argmax(axis=1)), 1)
        rows: list[list[int]] = counts.tolist()
        return rows


def read_shipped(page: PageData) -> Statements | None:
    """Of the engine that ships, on the split that it was scored on; None if it was not."""
    card = page.shipped
    if card is None:
        return None
    said = np.load(page.workspace.path(card, "predictions.npy"))
    return _read(page, card.split, said, all_rows=True)


def read_validation(page: PageData) -> Statements:
    """Of the network whose weights were kept, on validation."""
    said = np.load(page.workspace.path(page.road.model, VALIDATION))
    return _read(page, "val", said, all_rows=False)


def _read(page: PageData, name: str, said: Probabilities, all_rows: bool) -> Statements:
    """Those rows that count; of a window that shows too little of a defect no answer is wrong.

    Args:
        said: float32 [n, classes], of `all_rows` of the split or of those that count.
    """
    pack = page.road.pack
    split = read_split(pack, name, page.workspace)
    table = read_index(pack, name, page.workspace).iloc[split.rows]
    return Statements(
        split=name,
        problem=pack.problem,
        classes=pack.classes,
        table=table.reset_index(drop=True),
        pictures=split.pictures,
        rows=split.rows,
        targets=split.targets,
        probabilities=said[split.rows] if all_rows else said,
    )
