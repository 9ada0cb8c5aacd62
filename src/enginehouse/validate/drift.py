"""How the data differs from the version that was accepted before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from enginehouse.validate.instance import Instance

if TYPE_CHECKING:
    import pandas as pd

    from enginehouse.validate.validate import ValidateConfig

SHARES = ("format", "mode")
STATISTICS = ("brightness", "contrast", "sharpness", "width", "height")
CHANCE = 1e-3  # a difference that is likelier than this in data without drift is none
NAMED = 4


def find_drift(now: pd.DataFrame, before: pd.DataFrame, config: ValidateConfig) -> list[Instance]:
    """Classes, shares and image statistics that are not what they were.

    Shares are compared by the population stability index (Siddiqi, 2006: above 0.2 is a shift),
    statistics by the two-sample Kolmogorov-Smirnov distance. Both grow by chance in small sets,
    so the test that belongs to each (chi-square, Kolmogorov-Smirnov) must agree.

    Args:
        now, before: rows of the manifests.
    """
    if now.empty or before.empty:
        return []
    return [
        *_compare_classes(now["label"], before["label"]),
        *_compare_shares("class", now["label"], before["label"], config),
        *(
            instance
            for column in SHARES
            for instance in _compare_shares(column, now[column], before[column], config)
        ),
        *(
            instance
            for column in STATISTICS
            for instance in _compare_statistic(column, now[column], before[column], config)
        ),
    ]


def _compare_classes(now: pd.Series, before: pd.Series) -> list[Instance]:
    count, old = now.value_counts(), before.value_counts()
    new = [f"class {name} is new ({count[name]} pictures)" for name in _only(count, old)]
    gone = [f"class {name} is gone (it had {old[name]} pictures)" for name in _only(old, count)]
    return [Instance("", words) for words in (*new, *gone)]


def _only(these: pd.Series, those: pd.Series) -> Sequence[str]:
    return sorted(set(these.index) - set(those.index) - {""})


def _compare_shares(
    what: str, now: pd.Series, before: pd.Series, config: ValidateConfig
) -> list[Instance]:
    import pandas as pd
    from scipy.stats import chi2_contingency

    counts = pd.DataFrame({"before": before.value_counts(), "now": now.value_counts()}).fillna(0)
    if what == "class":  # new and vanished classes are told by name
        counts = counts[(counts > 0).all(axis=1)]
    if len(counts) < 2:
        return []
    share = (counts + 0.5) / (counts + 0.5).sum()  # half a picture, so that no share is 0
    parts = (share["now"] - share["before"]) * np.log(share["now"] / share["before"])
    index = float(parts.sum())
    if index <= config.max_share_drift or chi2_contingency(counts.T.to_numpy()).pvalue > CHANCE:
        return []
    exact = counts / counts.sum()
    words = [
        f"{name} {exact['before'][name]:.1%} -> {exact['now'][name]:.1%}"
        for name in parts.sort_values(ascending=False).index[:NAMED]
    ]
    limit = f"stability index {index:.2f}, limit {config.max_share_drift:g}"
    return [Instance("", f"shares by {what} moved: {', '.join(words)} ({limit})")]


def _compare_statistic(
    column: str, now: pd.Series, before: pd.Series, config: ValidateConfig
) -> list[Instance]:
    from scipy.stats import ks_2samp

    test = ks_2samp(now.to_numpy(), before.to_numpy(), method="asymp")
    if test.statistic <= config.max_statistic_drift or test.pvalue > CHANCE:
        return []
    return [
        Instance(
            "",
            f"{column} moved: median {before.median():g} -> {now.median():g} (Kolmogorov-Smirnov "
            f"distance {test.statistic:.2f}, limit {config.max_statistic_drift:g})",
        )
    ]
