"""The pictures of the page: predictions, worst mistakes first, and the first batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from enginehouse.errors import RecipeError
from enginehouse.report.gradcam import find_evidence, paint_evidence
from enginehouse.report.page import PageData
from enginehouse.report.pictures import encode_array, encode_file
from enginehouse.report.statements import Statements

if TYPE_CHECKING:
    import pandas as pd

Picture = NDArray[np.uint8]  # [3, size, size]

NUM_SHOWN = 6
# Pixels: enough for a phone's screen, and the page stays under a megabyte.
PREDICTION_SIDE = 224
BATCH_SIDE = 640


@dataclass(frozen=True)
class Mistakes:
    """The worst mistakes.

    Attributes:
        rows: which of the statements, the truth least likely first.
        doubted: the class that each was most wrong about.
        evidence: painted pictures that say where the network saw that class, uint8
            [3, size, size]; [] where it cannot say.
        reason: why it cannot.
    """

    rows: NDArray[np.int64]
    doubted: NDArray[np.int64]
    evidence: list[Picture]
    reason: str


def find_mistakes(page: PageData, statements: Statements) -> Mistakes:
    """The wrong answers in which the truth seemed least likely, and what they rest on.

    Raises:
        StoreError: the weights are gone, changed, or fit no longer.
    """
    likely, doubted = statements.find_doubts()
    wrong = np.flatnonzero(statements.wrong)
    rows = wrong[np.argsort(likely[wrong], kind="stable")][:NUM_SHOWN]
    evidence, reason = [], ""
    if len(rows):
        pictures = statements.pictures[statements.rows[rows]]
        try:
            found = _look(page, pictures, doubted[rows].tolist())
            evidence = [paint_evidence(*pair) for pair in zip(pictures, found, strict=True)]
        except RecipeError as error:
            reason = error.message
    return Mistakes(rows, doubted[rows], evidence, reason)


def _look(page: PageData, pictures: NDArray[np.uint8], classes: list[int]) -> NDArray[np.float32]:
    """Where the trained network sees these classes in these pictures."""
    import torch

    from enginehouse.train.network import load_network, normalise

    model = page.road.model
    net = load_network(model, page.workspace)
    inputs = normalise(torch.from_numpy(pictures), model.mean, model.std)
    return find_evidence(net, inputs, classes)


def make_predictions(page: PageData, statements: Statements, mistakes: Mistakes) -> dict[str, Any]:
    """The worst mistakes, and six right answers.

    The right ones come from one class after the other, most certain first, so that each class is
    seen.
    """
    likely, _ = statements.find_doubts()
    places = _read_places(page)

    def show(row: int, evidence: Picture | None, doubted: int) -> dict[str, str]:
        entry = statements.table.iloc[row]
        share = statements.probabilities[row]
        truth, said = statements.truth[row], statements.said[row]
        sure = f"{share[said].max() if said.any() else share[doubted]:.1%}"
        about = f"{statements.classes[doubted]} {share[doubted]:.1%}"
        return {
            "path": entry["path"],
            "label": statements.name(truth),
            "answer": statements.name(said),
            "confidence": about if statements.several else sure,
            "of_label": "" if statements.several else f"{likely[row]:.1%}",
            "part": str(entry["part"]),
            "place": places.get(entry["path"], ""),
            "window": _say_where(entry) if page.road.pack.preparation.tiles else "",
            "picture": encode_array(statements.pictures[statements.rows[row]], PREDICTION_SIDE),
            "evidence": "" if evidence is None else encode_array(evidence, PREDICTION_SIDE),
            "doubted": statements.classes[doubted],
        }

    pairs = zip(mistakes.rows, mistakes.doubted, strict=True)
    painted: Sequence[Picture | None] = mistakes.evidence or [None] * len(mistakes.rows)
    return {
        "split": statements.split,
        "several": statements.several,
        "num": len(statements.table),
        "num_wrong": int(statements.wrong.sum()),
        "no_evidence": mistakes.reason,
        "wrong": [show(row, paint, c) for (row, c), paint in zip(pairs, painted, strict=True)],
        "right": [
            show(row, None, int(statements.truth[row].argmax()))
            for row in _pick_right(statements, likely)
        ],
    }


def _pick_right(statements: Statements, likely: NDArray[np.float64]) -> list[int]:
    """Rows of right answers, one class after the other, most certain first."""
    import pandas as pd

    right = np.flatnonzero(~statements.wrong)
    right = right[np.argsort(-likely[right], kind="stable")]
    first = statements.truth[right].argmax(axis=1)
    table = pd.DataFrame({"row": right, "label": first})
    table["turn"] = table.groupby("label").cumcount()
    rows: list[int] = table.sort_values(["turn", "label"], kind="stable")["row"].tolist()
    return rows[:NUM_SHOWN]


def _read_places(page: PageData) -> dict[str, str]:
    """Path of a picture to where its label stands, for labels that stand in a file."""
    import pandas as pd

    path = page.workspace.path(page.road.manifest, "manifest.parquet")
    table = pd.read_parquet(path, columns=["path", "source", "place"]).fillna("")
    words = (table["source"] + " " + table["place"]).str.strip()
    return dict(zip(table["path"], words, strict=True))


def _say_where(entry: pd.Series[Any]) -> str:
    """Where in its picture a window lies."""
    x, y, width, height = (entry[name] for name in ("x", "y", "width", "height"))
    return f"at {x:.0f}, {y:.0f}: {width:.0f} × {height:.0f} px"


def show_first_batch(page: PageData) -> str:
    """The mosaic of the first training batch, as a data URI."""
    return encode_file(page.workspace.path(page.road.model, "first_batch.png"), BATCH_SIDE)
