"""Suspect: which labels of a data set are probably wrong, as a ranking and as a sheet for people.

Every picture was judged by a network that had not seen it. How that disagrees with the label
makes the order.
"""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from pydantic import Field

from enginehouse.answer.record import Answers
from enginehouse.artifact import Config, Workspace
from enginehouse.choices import load_choice
from enginehouse.correction_sheet import NAME
from enginehouse.errors import DataError
from enginehouse.files import Files
from enginehouse.ingest.classes import JOINT
from enginehouse.ingest.record import DataVersion, Manifest
from enginehouse.picture import decode_picture
from enginehouse.problem import Problem
from enginehouse.suspect.disagreement import measure_disagreement
from enginehouse.suspect.record import Suspects
from enginehouse.suspect.sheet import SIDE, Sheet, write_sheet

if TYPE_CHECKING:
    import pandas as pd

LIBRARIES = ("numpy", "opencv-python-headless", "openpyxl", "pandas", "pillow", "pyarrow", "torch")
QUALITY = 85  # of the JPEG of a thumbnail


class SuspectConfig(Config):
    """What the sheet shows."""

    all_shown: int = Field(
        2000, ge=0, le=10_000, description="Most pictures of which each has its thumbnail."
    )
    first_shown: int = Field(
        500, ge=0, le=10_000, description="Of more pictures than that, how many have one."
    )


def suspect(
    data: DataVersion, manifest: Manifest, config: SuspectConfig, here: Workspace, **folds: Answers
) -> Suspects:
    """Rank all pictures of a manifest by how much their label is doubted.

    Args:
        data: where the pictures are.
        manifest: the pictures; those of equal pixels are judged as one.
        config: what the sheet shows.
        here: workspace.
        folds: the answers on each fold's test; together they have every picture once.

    Raises:
        DataError: the answers are not those of this manifest, or a picture changed.
        StoreError: bytes are gone or changed.
    """
    import pandas as pd

    table = pd.read_parquet(here.path(manifest, "manifest.parquet"))
    first = next(iter(folds.values()))
    problem = cast("Problem", load_choice("problems", first.problem))
    index, probabilities = _gather(folds, here)
    targets = problem.encode(list(index["given"]), len(first.classes))
    quality = problem.score(targets, probabilities, first.classes)
    found = measure_disagreement(
        problem.SHAPE, targets, probabilities, problem.decide(probabilities)
    )
    index["suggested"] = [
        _name(row, said, first.classes)
        for row, said in zip(found.suggested, probabilities, strict=True)
    ]
    for column in ("p_given", "p_suggested", "suspicion", "suspicious"):
        index[column] = getattr(found, column)
    ranking = _rank(table, index, problem.SEVERAL_LABELS)
    ranking.to_parquet(here.scratch / "ranking.parquet", index=False)
    num_suspicious = int(ranking["suspicious"].sum())
    shown = len(ranking) if len(ranking) <= config.all_shown else config.first_shown
    sheet = Sheet(
        rows=ranking,
        thumbnails=_draw_thumbnails(data, list(ranking["path"].head(shown)), here),
        labels=_list_answers(ranking, manifest, first),
        several=problem.SEVERAL_LABELS,
        boxed=bool(manifest.image_class),
        num_suspicious=num_suspicious,
    )
    write_sheet(here.scratch / NAME, sheet)
    return Suspects(
        files=here.seal(["ranking.parquet"]),
        reports=here.seal([NAME]),
        problem=first.problem,
        classes=first.classes,
        boxed=bool(manifest.image_class),
        num_pictures=len(ranking),
        num_suspicious=num_suspicious,
        num_folds=len(folds),
        accuracy=round(quality.accuracy, 6),
        macro_f1=round(quality.macro_f1, 6),
    )


def _gather(
    folds: dict[str, Answers], here: Workspace
) -> tuple[pd.DataFrame, np.ndarray[Any, np.dtype[np.float32]]]:
    """All answers: path and given class indices, and the probabilities, in the same order."""
    import pandas as pd

    tables = [pd.read_parquet(here.path(each, "index.parquet")) for each in folds.values()]
    parts = [np.load(here.path(each, "predictions.npy")) for each in folds.values()]
    kinds = {(each.problem, each.classes) for each in folds.values()}
    index = pd.concat(tables, ignore_index=True)
    twice = index["path"][index["path"].duplicated()].tolist()
    if len(kinds) > 1 or twice:
        found = f"{twice[0]} is answered twice" if twice else "they tell other classes apart"
        raise DataError(
            f"The answers of {len(folds)} folds do not belong together: {found}.",
            "Prepare each fold from the same manifest, with the same settings.",
        )
    return index, np.concatenate(parts)


def _rank(table: pd.DataFrame, index: pd.DataFrame, several: bool) -> pd.DataFrame:
    """Every row of the manifest with what is said of its pixels, the most doubted first."""
    pixels_of = dict(zip(table["path"], table["pixels"], strict=True))
    strangers = set(index["path"]) - pixels_of.keys()
    judged = index.assign(pixels=[pixels_of.get(path, "") for path in index["path"]])
    unanswered = set(table["pixels"]) - set(judged["pixels"])
    if strangers or unanswered:
        raise DataError(
            f"The answers are not those of this manifest: {len(unanswered)} of its pictures have "
            f"none, and {len(strangers)} answers are of others.",
            "Prepare each fold from this manifest.",
        )
    merged = table.merge(
        judged.drop(columns="given").rename(columns={"path": "judged"}), on="pixels", how="left"
    )
    merged["given"] = (
        [JOINT.join(labels) for labels in merged["labels"]] if several else merged["label"]
    )
    is_repeat = merged["judged"] != merged["path"]
    merged["repeat_of"] = merged["judged"].where(is_repeat, "")
    merged["suspicious"] = merged["suspicious"] & (merged["suggested"] != merged["given"])
    merged = merged.assign(certain=-merged["suspicion"], is_repeat=is_repeat).sort_values(
        ["certain", "judged", "is_repeat", "path"], kind="stable"
    )
    columns = ["path", "given", "suggested", "p_given", "p_suggested", "suspicion", "suspicious"]
    columns += ["part", "source", "place", "repeat_of", "md5"]
    return merged[columns].reset_index(drop=True)


def _name(suggested: Any, said: Any, classes: tuple[str, ...]) -> str:
    """A label as a cell has it; where nothing is suggested, the likeliest class."""
    places = np.flatnonzero(suggested) if suggested.any() else [said.argmax()]
    return JOINT.join(classes[place] for place in places)


def _list_answers(ranking: pd.DataFrame, manifest: Manifest, answers: Answers) -> list[str]:
    """What can be chosen as a label: the classes, then what else pictures are given."""
    classes = manifest.classes if manifest.image_class else answers.classes
    return list(dict.fromkeys([*classes, *sorted(set(ranking["given"]))]))


def _draw_thumbnails(
    data: DataVersion, paths: list[str], here: Workspace
) -> list[tuple[bytes, tuple[int, int]]]:
    """A small JPEG of each picture, and its width and height."""
    from PIL import Image

    source = here.source(data.digest)
    files = Files(source.folder, source.listing)
    drawn = []
    for number, path in enumerate(paths):
        picture = Image.fromarray(decode_picture(BytesIO(files.read(path)), path).array)
        picture.thumbnail((SIDE, SIDE))
        stream = BytesIO()
        # Full chroma: a defect may be nothing but a change of colour.
        picture.save(stream, "JPEG", quality=QUALITY, subsampling=0)
        drawn.append((stream.getvalue(), picture.size))
        here.report("thumbnails", number + 1, len(paths))
    return drawn
