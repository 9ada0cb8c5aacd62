"""The pictures of the page: predictions, the quarantine, the first batch."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from enginehouse.errors import UnreadablePicture
from enginehouse.picture import decode_picture
from enginehouse.report.page import PageData
from enginehouse.report.pictures import encode_array, encode_file
from enginehouse.store import hash_file

if TYPE_CHECKING:
    import pandas as pd

NUM_SHOWN = 6
# Pixels: enough for a phone's screen, and the page stays under a megabyte.
PREDICTION_SIDE = 224
THUMB_SIDE = 96
BATCH_SIDE = 640
MAX_QUARANTINE = 24


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
    pictures = np.load(page.workspace.path(page.road.pack, f"{card.split}.npy"), mmap_mode="r")

    def show(row: Any) -> dict[str, str]:
        return {
            "path": row.path,
            "label": row.label,
            "answer": card.classes[row.answer],
            "confidence": f"{row.confidence:.1%}",
            "of_label": f"{row.of_label:.1%}",
            "picture": encode_array(pictures[row.row], PREDICTION_SIDE),
        }

    return {
        "split": card.split,
        "num": len(table),
        "num_wrong": len(wrong),
        "wrong": [show(row) for row in wrong.head(NUM_SHOWN).itertuples()],
        "right": [show(row) for row in right.head(NUM_SHOWN).itertuples()],
    }


def _read_answers(page: PageData) -> pd.DataFrame:
    """The split's rows of the index with answer and confidence, most certain first."""
    import pandas as pd

    card = page.shipped
    assert card is not None
    index = pd.read_parquet(page.workspace.path(page.road.pack, "index.parquet"))
    table = index[index["split"] == card.split].sort_values("row")
    probabilities = np.load(page.workspace.path(card, "predictions.npy"))
    truth = table["class_index"].to_numpy()
    return table.assign(
        answer=probabilities.argmax(axis=1),
        confidence=probabilities.max(axis=1),
        of_label=probabilities[np.arange(len(truth)), truth],
    ).sort_values("confidence", ascending=False, kind="stable")


def make_quarantine(page: PageData) -> dict[str, Any]:
    """Files that could not be used, the rarest reasons first, with thumbnails."""
    import pandas as pd

    table = pd.read_parquet(page.workspace.path(page.road.manifest, "quarantine.parquet"))
    rows = [(str(r.path), str(r.reason), str(r.detail)) for r in table.itertuples(index=False)]
    counts = Counter(reason for _, reason, _ in rows)
    rows.sort(key=lambda row: (counts[row[1]], row[1], row[0]))
    words = ", ".join(f"{reason}: {num}" for reason, num in counts.most_common())
    more = f" The first {MAX_QUARANTINE} are shown." if len(rows) > MAX_QUARANTINE else ""
    return {
        "summary": f"{words}.{more}",
        "rows": [
            {"path": path, "reason": reason, "detail": detail, **_show_file(page, path)}
            for path, reason, detail in rows[:MAX_QUARANTINE]
        ],
    }


def _show_file(page: PageData, path: str) -> dict[str, str]:
    """A thumbnail, written anew; or `gone`: why the file of this data version is not shown."""
    file = page.source.folder / path
    if not file.is_file():
        return {"picture": "", "gone": "No longer there, so not shown."}
    if hash_file(file, "md5") != page.source.listing.get(path):
        return {"picture": "", "gone": "Changed since this run, so not shown."}
    try:
        pixels = decode_picture(file).array
    except UnreadablePicture:
        return {"picture": "", "gone": ""}
    return {"picture": encode_array(pixels.transpose(2, 0, 1), THUMB_SIDE), "gone": ""}


def show_first_batch(page: PageData) -> str:
    """The mosaic of the first training batch, as a data URI."""
    return encode_file(page.workspace.path(page.road.model, "first_batch.png"), BATCH_SIDE)
