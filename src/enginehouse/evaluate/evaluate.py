"""Evaluate: one engine on one split becomes a scorecard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from enginehouse.artifact import Config, Workspace
from enginehouse.build.record import Engine
from enginehouse.choices import suggest
from enginehouse.engine import Device, Probabilities, open_engine, run_in_batches
from enginehouse.errors import DataError, RecipeError
from enginehouse.evaluate.defects import score_defects
from enginehouse.evaluate.fit import check_fit
from enginehouse.evaluate.record import DefectScores, Scorecard, Split
from enginehouse.preparation import fold_scores
from enginehouse.prepare.record import Pack
from enginehouse.prepare.shards import open_pictures

if TYPE_CHECKING:
    import pandas as pd

LIBRARIES = ("numpy", "pandas", "scikit-learn")


class EvaluateConfig(Config):
    """What is scored."""

    split: Split = Field("test", description="Split that is scored.")
    good_class: str = Field(
        "",
        description="Class that means a good part; escapes and overkill are counted by it. "
        "Empty: with tiles the class of a window without defects, else none.",
    )


def evaluate(
    engine: Engine, pack: Pack, device: Device, config: EvaluateConfig, here: Workspace
) -> Scorecard:
    """Run every picture of a split through the engine itself and score the answers.

    A tiled pack is scored twice: its windows against the labelled defects, and, after folding
    as in `predict`, its pictures against their own labels.

    Args:
        engine: what is scored.
        pack: pictures and labels; of the engine's classes and preparation.
        device: what the backend's `describe_run_device` says of the engine's target, here and now.
        config: split and good class.
        here: workspace.

    Raises:
        EngineMismatch: engine, pack and device do not belong together.
        DataError: the split is empty, or the pack's index does not fit its pictures.
        RecipeError: the good class is none of the pack's classes.
    """
    check_fit(engine, pack, device)
    if config.good_class and config.good_class not in pack.classes:
        raise RecipeError(
            f"good_class {config.good_class!r} is none of the classes {', '.join(pack.classes)}.",
            f"Name one of them{suggest(config.good_class, pack.classes)}.",
        )
    index = _read_index(pack, config.split, here)
    probabilities = _run_split(engine, pack, config.split, here)
    np.save(here.scratch / "predictions.npy", probabilities)
    truth, defects = index["class_index"].to_numpy(np.int64), None
    if pack.preparation.tiles:
        defects = _score_windows(index, probabilities, pack, here)
        truth, probabilities = _fold_windows(index, probabilities, pack)
    return Scorecard(
        files=here.seal(["predictions.npy"]),
        split=config.split,
        pack=pack.identity,
        classes=pack.classes,
        num_pictures=len(truth),
        defects=defects,
        **score(truth, probabilities, pack.classes, config.good_class or pack.preparation.good),
    )


def _read_index(pack: Pack, split: Split, here: Workspace) -> pd.DataFrame:
    """The rows of a split, in the order of its array."""
    import pandas as pd

    index = pd.read_parquet(here.path(pack, "index.parquet"))
    rows = index[index["split"] == split].sort_values("row")
    if len(rows) == 0:
        raise DataError(
            f"The split {split} holds no pictures.",
            "Add data, or give that split a larger share in the recipe.",
        )
    if rows["row"].tolist() != list(range(pack.counts[split])):
        raise DataError(
            f"The pack's index lists {len(rows)} rows of {split}; its array holds "
            f"{pack.counts[split]}.",
            "Prepare the data again.",
        )
    return rows


def _run_split(engine: Engine, pack: Pack, split: Split, here: Workspace) -> Probabilities:
    pictures = open_pictures(pack, split, here)
    batch = engine.sidecar.batch
    session = open_engine(here.paths(engine), engine.target, engine.sidecar)
    parts = []
    try:
        for start in range(0, len(pictures), batch.max):
            part = pictures[start : start + batch.max]
            parts.append(run_in_batches(session, part, batch))
            here.report(f"evaluate on {split}", start + len(part), len(pictures))
    finally:
        session.close()
    return np.concatenate(parts)


def _score_windows(
    index: pd.DataFrame, probabilities: Probabilities, pack: Pack, here: Workspace
) -> DefectScores | None:
    import pandas as pd

    good = pack.preparation.good
    boxes = pd.read_parquet(here.path(pack, "boxes.parquet"))
    defects = boxes[boxes["label"] != good]
    return score_defects(index, defects, probabilities, pack.classes.index(good), pack.min_visible)


def _fold_windows(
    index: pd.DataFrame, probabilities: Probabilities, pack: Pack
) -> tuple[NDArray[np.int64], Probabilities]:
    """Truth and probabilities of whole pictures, in the order in which they first occur."""
    truth, folded = [], []
    for _, windows in index.reset_index(drop=True).groupby("path", sort=False):
        truth.append(int(windows["picture_index"].iloc[0]))
        scores = probabilities[windows.index.to_numpy()]
        folded.append(fold_scores(scores, pack.classes, pack.preparation.good))
    return np.array(truth, np.int64), np.stack(folded)


def score(
    truth: NDArray[np.int64], probabilities: Probabilities, classes: tuple[str, ...], good: str
) -> dict[str, Any]:
    """The scored fields of a `Scorecard`.

    Args:
        truth: class index per picture, [n].
        probabilities: [n, classes]; the largest one is the answer.
        classes: their names.
        good: class that means a good part, or "".

    Returns:
        accuracy, macro_f1 (scikit-learn's, over the classes that occur in `truth`; an F1 without
        predictions is 0), recalls, confusion, escapes, overkill, num_defects, num_good.
    """
    from sklearn.metrics import confusion_matrix, f1_score

    answers = probabilities.argmax(axis=1)
    present = np.unique(truth)
    confusion = confusion_matrix(truth, answers, labels=range(len(classes)))
    is_good, said_good = truth == _index(classes, good), answers == _index(classes, good)
    counts: dict[str, int | None] = dict.fromkeys(
        ("escapes", "overkill", "num_defects", "num_good")
    )
    if good:
        counts = {
            "escapes": int((said_good & ~is_good).sum()),
            "overkill": int((~said_good & is_good).sum()),
            "num_defects": int((~is_good).sum()),
            "num_good": int(is_good.sum()),
        }
    return {
        "accuracy": float((answers == truth).mean()),
        "macro_f1": float(
            f1_score(truth, answers, labels=present, average="macro", zero_division=0)
        ),
        "recalls": {
            classes[i]: float(confusion[i, i] / confusion[i].sum()) for i in present.tolist()
        },
        "confusion": tuple(tuple(int(n) for n in row) for row in confusion),
        **counts,
    }


def _index(classes: tuple[str, ...], name: str) -> int:
    return classes.index(name) if name else -1
