"""Evaluate: one engine on one split becomes a scorecard.

Without an earlier scorecard it is the validation split, on which the operating point is fixed;
with it, the test split, once, at that point.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from enginehouse.artifact import Workspace
from enginehouse.build.record import Engine
from enginehouse.choices import load_choice, suggest
from enginehouse.engine import Device, Pictures, Probabilities
from enginehouse.errors import EngineMismatch, RecipeError
from enginehouse.evaluate.answers import list_pictures, make_answers, run_split
from enginehouse.evaluate.config import EvaluateConfig, MaskingConfig
from enginehouse.evaluate.defects import score_defects
from enginehouse.evaluate.fit import check_fit
from enginehouse.evaluate.intervals import Resamples, estimate_quality
from enginehouse.evaluate.masking import cut_holes
from enginehouse.evaluate.operating import find_point
from enginehouse.evaluate.outcome import measure_outcome
from enginehouse.evaluate.point import OperatingPoint
from enginehouse.evaluate.record import DefectScores, Masked, Scorecard, Split
from enginehouse.evaluate.slices import cut_slices, score_slices
from enginehouse.evaluate.units import Answers
from enginehouse.prepare.index import read_index
from enginehouse.prepare.record import Pack

if TYPE_CHECKING:
    import pandas as pd

LIBRARIES = ("numpy", "pandas", "scipy", "torch")


def evaluate(
    engine: Engine,
    pack: Pack,
    device: Device,
    config: EvaluateConfig,
    here: Workspace,
    validation: Scorecard | None = None,
) -> Scorecard:
    """Run every picture of a split through the engine itself and score the answers.

    A tiled pack is scored twice: its windows against the labelled defects, and, after folding
    as in `predict`, its pictures against their own labels.

    Args:
        engine: what is scored.
        pack: pictures and labels; of the engine's classes and preparation.
        device: what the backend's `describe_run_device` says of the engine's target, here and now.
        config: good class, limits of the operating point, holes and slices.
        here: workspace.
        validation: what this engine scored on validation; None: that is what is scored now.

    Raises:
        EngineMismatch: engine, pack, device and the earlier scorecard do not belong together.
        DataError: the split is empty, or the pack's index does not fit its pictures.
        RecipeError: the recipe names a class or a column that the pack does not have.
    """
    check_fit(engine, pack, device)
    good = _find_good(config, pack)
    if validation is not None:
        _check_validation(validation, engine, pack)
    split: Split = "val" if validation is None else "test"
    index = read_index(pack, split, here)
    table = list_pictures(index, pack)
    slices = cut_slices(table, config.slices, config.slice_patterns)
    scores = run_split(engine, pack, split, here)
    np.save(here.scratch / "predictions.npy", scores)
    answers = make_answers(index, scores, pack, good)
    point, notes = (
        (validation.point, validation.notes["operating"])
        if validation
        else find_point(answers, config.operating)
    )
    masked = None
    if validation is not None and config.masking.holes:
        masked = _score_masked(engine, pack, index, config.masking, good, point, here)
    return Scorecard(
        files=here.seal(["predictions.npy"]),
        notes={"operating": notes},
        split=split,
        engine=engine.identity,
        pack=pack.identity,
        masked=masked,
        slices=score_slices(slices, answers, point),
        defects=_score_windows(index, scores, pack, here) if pack.preparation.tiles else None,
        **score(answers, point),
    )


def _find_good(config: EvaluateConfig, pack: Pack) -> str:
    """The good class, after a look at every class that the recipe names."""
    named = {"good_class": config.good_class} if config.good_class else {}
    named |= {f"operating.class_limits {name}": name for name in config.operating.class_limits}
    for field, name in named.items():
        if name not in pack.classes:
            raise RecipeError(
                f"{field} {name!r} is none of the classes {', '.join(pack.classes)}.",
                f"Name one of them{suggest(name, pack.classes)}.",
            )
    good = config.name_good(pack.preparation)
    if good in config.operating.class_limits:
        raise RecipeError(
            f"operating.class_limits names {good}, the good class, which cannot escape.",
            "Limit defect classes only.",
        )
    return good


def _check_validation(validation: Scorecard, engine: Engine, pack: Pack) -> None:
    found = (validation.split, validation.engine, validation.pack)
    if found != ("val", engine.identity, pack.identity):
        raise EngineMismatch(
            "The operating point has to come from this engine on this pack's validation split; "
            f"the scorecard is of the split {found[0]}, engine {found[1][:12]}, pack "
            f"{found[2][:12]}.",
            "Evaluate the engine on validation first, and pass on that scorecard.",
        )


def score(answers: Answers, point: OperatingPoint | None) -> dict[str, Any]:
    """The fields of a `Scorecard` that follow from answers and operating point alone."""
    problem = load_choice("problems", answers.problem)
    quality = problem.score(answers.targets, answers.probabilities, answers.classes)
    resamples = Resamples(answers.parts)
    confusion = answers.truth.astype(np.int64).T @ answers.said.astype(np.int64)
    return {
        "classes": tuple(answers.classes),
        "num_pictures": len(answers.parts),
        "num_parts": resamples.num_parts,
        "accuracy": quality.accuracy,
        "macro_f1": quality.macro_f1,
        "intervals": estimate_quality(answers.truth, answers.said, resamples),
        "class_scores": quality.classes,
        "confusion": () if problem.SEVERAL_LABELS else tuple(map(tuple, confusion.tolist())),
        "point": point,
        "pictures": measure_outcome(answers, point, "picture") if point else None,
        "parts": measure_outcome(answers, point, "part") if point else None,
    }


def _score_masked(
    engine: Engine,
    pack: Pack,
    index: pd.DataFrame,
    config: MaskingConfig,
    good: str,
    point: OperatingPoint | None,
    here: Workspace,
) -> Masked:
    """The test split once more, with holes at places that hang on what each row is called."""
    side = max(1, round(config.side * pack.size))
    names = index["path"].tolist()
    if pack.preparation.tiles:
        names = [f"{row.path}@{row.x},{row.y}" for row in index.itertuples()]

    def mask(pictures: Pictures, rows: slice) -> Pictures:
        return cut_holes(pictures, names[rows], config.holes, side)

    scores = run_split(engine, pack, "test", here, mask)
    answers = make_answers(index, scores, pack, good)
    quality = load_choice("problems", pack.problem).score(
        answers.targets, answers.probabilities, answers.classes
    )
    recalls = {name: each.recall for name, each in quality.classes.items()}
    return Masked(
        holes=config.holes,
        side=side,
        macro_f1=quality.macro_f1,
        recalls={name: recall for name, recall in recalls.items() if recall is not None},
        escapes=measure_outcome(answers, point, point.rules.unit).escapes if point else None,
    )


def _score_windows(
    index: pd.DataFrame, scores: Probabilities, pack: Pack, here: Workspace
) -> DefectScores | None:
    import pandas as pd

    place = pack.classes.index(pack.preparation.good)
    boxes = pd.read_parquet(here.path(pack, "boxes.parquet"))
    boxes = boxes[boxes["label"] != pack.preparation.good]
    alarm = load_choice("problems", pack.problem).measure_alarm(scores, place)
    says = scores.argmax(axis=1) != place
    return score_defects(index, boxes, alarm, says, pack.min_visible)
