"""What tells the class without a look at the picture: how it was saved, and where it lies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginehouse.validate.instance import Instance

if TYPE_CHECKING:
    import pandas as pd

    from enginehouse.validate.validate import ValidateConfig

MAX_ELSEWHERE = 0.6  # a class that is most of the rest, too, is told by nothing
MAX_CHANCE = 1e-3  # that any value of any column looks like a leak in a set without one


def find_label_leaks(pictures: pd.DataFrame, config: ValidateConfig) -> list[Instance]:
    """Values of file format, suffix, size, mode, handling or folder that predict the label.

    A value is a leak where at least `leak_min_pictures` pictures have it, nearly all of one
    class, that class is not as common elsewhere, and chance does not explain it: Fisher's exact
    test, one-sided (Fisher, 1935), corrected for the number of values by Bonferroni's rule.
    Columns that tell the same pictures apart are named together.
    """
    from scipy.stats import fisher_exact

    labelled = pictures[pictures["label"] != ""]
    columns = _columns(labelled)
    candidates = {
        name: values.value_counts().loc[lambda n: n >= config.leak_min_pictures].index
        for name, values in columns.items()
    }
    tests = max(1, sum(map(len, candidates.values())))
    names_of: dict[tuple[str, bytes], list[str]] = {}
    for name, values in columns.items():
        for value in candidates[name]:
            has = (values == value).to_numpy()
            inside, outside = labelled["label"][has], labelled["label"][~has]
            label = str(inside.value_counts().index[0])
            hits, others = int((inside == label).sum()), int((outside == label).sum())
            if outside.empty or hits < config.leak_share * len(inside):
                continue
            if others >= MAX_ELSEWHERE * len(outside) or (name == "folder" and value == label):
                continue
            counts = [[hits, len(inside) - hits], [others, len(outside) - others]]
            if fisher_exact(counts, alternative="greater").pvalue * tests < MAX_CHANCE:
                names_of.setdefault((label, has.tobytes()), []).append(f"{name} {value}")
    return [_describe(labelled, *key, names) for key, names in names_of.items()]


def _columns(pictures: pd.DataFrame) -> dict[str, pd.Series]:
    paths = pictures["path"]
    return {
        "format": pictures["format"],
        "suffix": paths.str.extract(r"(\.[^./]+)$", expand=False).fillna("none"),
        "size": pictures["width"].astype(str) + "x" + pictures["height"].astype(str),
        "mode": pictures["mode"],
        "handling": pictures["handling"].replace("", "none"),
        "folder": paths.str.extract(r"^([^/]+)/", expand=False).fillna("."),
    }


def _describe(labelled: pd.DataFrame, label: str, mask: bytes, names: list[str]) -> Instance:
    import numpy as np

    has = np.frombuffer(mask, bool)
    is_label = (labelled["label"] == label).to_numpy()
    hits, size = int((has & is_label).sum()), int(has.sum())
    elsewhere = is_label[~has].mean()
    return Instance(
        str(labelled["path"].to_numpy()[has & is_label][0]),
        f"{hits} of the {size} pictures with {', '.join(names)} are {label} ({hits} of its "
        f"{int(is_label.sum())}), while it makes {elsewhere:.1%} of the rest",
    )
