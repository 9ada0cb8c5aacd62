"""The pictures of the page: predictions, and the first batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from enginehouse.prepare.shards import open_pictures
from enginehouse.report.page import PageData
from enginehouse.report.pictures import encode_array, encode_file

if TYPE_CHECKING:
    import pandas as pd

NUM_SHOWN = 6
# Pixels: enough for a phone's screen, and the page stays under a megabyte.
PREDICTION_SIDE = 224
BATCH_SIDE = 640


def make_predictions(page: PageData) -> dict[str, Any]:
    """Six wrong answers of the shipped engine, most certain first, and six right ones.

    The right ones come from one class after the other, most certain first, so that each class is
    seen.
    """
    card = page.shipped
    if card is None:
        return {}
    table = _read_answers(page)
    wrong = table[table["answer"] != table["class_index"]]
    right = table[table["answer"] == table["class_index"]]
    turn = right.groupby("answer").cumcount()
    right = right.assign(turn=turn).sort_values(["turn", "answer"], kind="stable")
    pictures = open_pictures(page.road.pack, card.split, page.workspace)

    def show(row: Any) -> dict[str, str]:
        return {
            "path": row.path,
            "label": row.label,
            "answer": card.classes[row.answer],
            "confidence": f"{row.confidence:.1%}",
            "of_label": f"{row.of_label:.1%}",
            "window": _say_where(row) if page.road.pack.preparation.tiles else "",
            "picture": encode_array(pictures[row.row], PREDICTION_SIDE),
        }

    return {
        "split": card.split,
        "num": len(table),
        "num_wrong": len(wrong),
        "wrong": [show(row) for row in wrong.head(NUM_SHOWN).itertuples()],
        "right": [show(row) for row in right.head(NUM_SHOWN).itertuples()],
    }


def _say_where(row: Any) -> str:
    """Where in its picture a window lies."""
    return f"at {row.x:.0f}, {row.y:.0f}: {row.width:.0f} × {row.height:.0f} px"


def _read_answers(page: PageData) -> pd.DataFrame:
    """The split's rows of the index with answer and confidence, most certain first.

    Windows that show too little of a defect to bear its label are left out: no answer is wrong.
    """
    import pandas as pd

    card = page.shipped
    assert card is not None
    index = pd.read_parquet(page.workspace.path(page.road.pack, "index.parquet"))
    table = index[index["split"] == card.split].sort_values("row")
    probabilities = np.load(page.workspace.path(card, "predictions.npy"))
    truth = table["class_index"].to_numpy()
    table = table.assign(
        answer=probabilities.argmax(axis=1),
        confidence=probabilities.max(axis=1),
        of_label=probabilities[np.arange(len(truth)), truth],
    ).sort_values("confidence", ascending=False, kind="stable")
    if page.road.pack.preparation.tiles:
        unsure = ~table["clean"] & (table["label"] == page.road.pack.preparation.good)
        table = table[~unsure]
    return table


def show_first_batch(page: PageData) -> str:
    """The mosaic of the first training batch, as a data URI."""
    return encode_file(page.workspace.path(page.road.model, "first_batch.png"), BATCH_SIDE)
