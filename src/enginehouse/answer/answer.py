"""Answer: what a trained network says of every picture of one split.

Asked of pictures that it was not trained on, in one fold after the other, it gives an opinion of
every picture of a data set that owes nothing to that picture's own label.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field

from enginehouse.answer.record import Answers
from enginehouse.artifact import Config, Workspace
from enginehouse.errors import DataError
from enginehouse.preparation import fold_scores
from enginehouse.prepare.index import read_index
from enginehouse.prepare.record import Pack
from enginehouse.prepare.shards import open_pictures
from enginehouse.problem import Probabilities
from enginehouse.train.machine import choose_device
from enginehouse.train.network import load_network, normalise, to_probabilities
from enginehouse.train.record import TrainedModel

if TYPE_CHECKING:
    import pandas as pd

LIBRARIES = ("numpy", "pandas", "pyarrow", "safetensors", "torch")
AT_ONCE = 64  # pictures


class AnswerConfig(Config):
    """Of what the network is asked."""

    split: Literal["train", "val", "test"] = Field(
        "test", description="Split whose pictures are answered."
    )


def answer(model: TrainedModel, pack: Pack, config: AnswerConfig, here: Workspace) -> Answers:
    """Run every picture of a split through the trained network itself.

    Args:
        model: of the pack's classes, preparation and problem.
        pack: the pictures.
        config: which split.
        here: workspace.

    Raises:
        DataError: model and pack do not belong together, or the split is empty.
        StoreError: bytes are gone or changed.
    """
    import pandas as pd

    theirs = (model.classes, model.preparation, model.problem)
    if theirs != (pack.classes, pack.preparation, pack.problem):
        raise DataError("This network was not trained on this pack.", "Train it again.")
    index = read_index(pack, config.split, here)
    rows, folded = [], []
    probabilities = _run(model, pack, config.split, here)
    for path, windows in index.groupby("path", sort=False):
        scores = probabilities[windows.index.to_numpy()]
        folded.append(fold_scores(scores, pack.classes, pack.preparation.good))
        rows.append({"path": path, "given": _list_given(windows.iloc[0], pack)})
    np.save(here.scratch / "predictions.npy", np.stack(folded))
    pd.DataFrame(rows).to_parquet(here.scratch / "index.parquet", index=False)
    return Answers(
        files=here.seal(["index.parquet", "predictions.npy"]),
        problem=pack.problem,
        classes=pack.classes,
        split=config.split,
        pack=pack.identity,
    )


def _run(model: TrainedModel, pack: Pack, split: str, here: Workspace) -> Probabilities:
    """Probabilities of every row of the pack's split, float32 [rows, classes]."""
    import torch

    device = choose_device()
    net = load_network(model, here).to(device).to(memory_format=torch.channels_last)
    pictures = open_pictures(pack, split, here)
    parts = []
    with torch.inference_mode():
        for start in range(0, len(pictures), AT_ONCE):
            some = torch.from_numpy(pictures[start : start + AT_ONCE]).to(device)
            logits = net(normalise(some, model.mean, model.std)).float().cpu()
            parts.append(to_probabilities(logits, model).numpy())
            here.report(f"answers on {split}", start + len(some), len(pictures))
    answered: Probabilities = np.concatenate(parts)
    return answered


def _list_given(first: pd.Series[Any], pack: Pack) -> list[int]:
    """The class indices that a picture bears, from its first row in the pack."""
    if "class_indices" in first:  # never with tiles
        return [int(each) for each in first["class_indices"]]
    return [int(first["picture_index"] if pack.preparation.tiles else first["class_index"])]
