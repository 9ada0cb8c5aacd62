"""An engine's answers to one split of a pack: pictures run through it, windows folded."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from enginehouse.artifact import Workspace
from enginehouse.build.record import Engine
from enginehouse.choices import load_choice
from enginehouse.engine import Pictures, Probabilities, open_engine, run_in_batches
from enginehouse.evaluate.record import Split
from enginehouse.evaluate.units import Answers
from enginehouse.preparation import fold_scores
from enginehouse.prepare.record import Pack
from enginehouse.prepare.shards import open_pictures

if TYPE_CHECKING:
    import pandas as pd

Change = Callable[[Pictures, slice], Pictures]


def list_pictures(index: pd.DataFrame, pack: Pack) -> pd.DataFrame:
    """One row per picture: of a tiled pack the first of each picture's windows."""
    if not pack.preparation.tiles:
        return index
    return index.drop_duplicates("path").reset_index(drop=True)


def run_split(
    engine: Engine, pack: Pack, split: Split, here: Workspace, change: Change | None = None
) -> Probabilities:
    """What the engine says of each row of a split, float32 [n, classes].

    Args:
        change: makes of a batch, and the rows that it holds, what the engine is shown.
    """
    pictures = open_pictures(pack, split, here)
    batch = engine.sidecar.batch
    session = open_engine(here.paths(engine), engine.target, engine.sidecar)
    what = f"evaluate on {split}" + (" with holes" if change else "")
    parts = []
    try:
        for start in range(0, len(pictures), batch.max):
            rows = slice(start, min(start + batch.max, len(pictures)))
            shown = change(pictures[rows], rows) if change else pictures[rows]
            parts.append(run_in_batches(session, shown, batch))
            here.report(what, rows.stop, len(pictures))
    finally:
        session.close()
    return np.concatenate(parts)


def make_answers(index: pd.DataFrame, scores: Probabilities, pack: Pack, good: str) -> Answers:
    """Answers to whole pictures, in the order in which they first occur in the index.

    Args:
        index: as `read_index` gives it.
        scores: float32 [rows of the index, classes].
        good: class that means a good part, or "".
    """
    import pandas as pd

    table = list_pictures(index, pack)
    if pack.preparation.tiles:
        windows = index.groupby("path", sort=False).indices
        scores = np.stack(
            [
                fold_scores(scores[windows[path]], pack.classes, pack.preparation.good)
                for path in table["path"]
            ]
        )
        labels = [[label] for label in table["picture_index"]]
    elif "class_indices" in table:
        labels = [list(each) for each in table["class_indices"]]
    else:
        labels = [[label] for label in table["class_index"]]
    return Answers(
        problem=pack.problem,
        classes=pack.classes,
        good=pack.classes.index(good) if good else None,
        targets=load_choice("problems", pack.problem).encode(labels, len(pack.classes)),
        probabilities=scores,
        parts=pd.factorize(table["part"])[0].astype(np.int64),
    )
