"""Curves and confusion matrix as figures of matplotlib, for where a page cannot be shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginehouse.report.history import find_best, list_series
from enginehouse.report.page import PageData

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLORS = ("#2a6fc9", "#c2571a")
FONTS = ("DejaVu Sans", "Noto Sans CJK JP", "Noto Sans CJK SC", "Microsoft YaHei", "PingFang SC")


def draw_curves(page: PageData) -> Figure:
    """Losses and scores over the epochs, the kept epoch marked."""
    from matplotlib.figure import Figure  # draws with Agg, without pyplot's global state

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    for place, (title, series) in enumerate(list_series(page).items(), start=1):
        axes = figure.add_subplot(1, 2, place)
        for color, (name, points) in zip(COLORS, series.items(), strict=True):
            axes.plot(*zip(*points, strict=True), "o-", markersize=3, color=color, label=name)
        axes.axvline(find_best(page), color="#888", linestyle=":", label="best epoch, kept")
        axes.set_title(title)
        axes.set_xlabel("epoch")
        axes.grid(alpha=0.3)
        axes.legend()
    return figure


def draw_confusion(page: PageData) -> Figure:
    """The confusion matrix of the shipped engine, shaded by share of the true class."""
    import numpy as np
    from matplotlib.figure import Figure

    card = page.shipped
    assert card is not None
    counts = np.array(card.confusion)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    side = max(4.5, 0.45 * len(counts) + 2)
    figure = Figure(figsize=(side, side), layout="constrained")
    axes = figure.add_subplot()
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    names, fonts = _choose_names(card.classes)
    axes.set_xticks(range(len(names)), names, rotation=90, fontfamily=fonts)
    axes.set_yticks(range(len(names)), names, fontfamily=fonts)
    axes.set_xlabel("the engine says")
    axes.set_ylabel("label")
    for (row, column), num in np.ndenumerate(counts):
        color = "white" if shares[row, column] > 0.5 else "black"
        axes.text(column, row, str(num), ha="center", va="center", color=color)
    return figure


def _choose_names(classes: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Class names as ticks, and the fonts for them; numbers where no font here can draw a name."""
    from matplotlib.font_manager import fontManager, get_font

    installed = {font.name: font.fname for font in fontManager.ttflist}
    fonts = [name for name in FONTS if name in installed]
    known = {code for name in fonts for code in get_font(installed[name]).get_charmap()}
    names = [
        # `$` would begin a formula.
        name.replace("$", r"\$") if known.issuperset(map(ord, name)) else f"class {place}"
        for place, name in enumerate(classes)
    ]
    return names, fonts
