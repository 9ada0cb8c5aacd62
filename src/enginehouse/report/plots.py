"""The report's figures, drawn with matplotlib: for the page, and for where it cannot be shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from enginehouse.report.calibration import measure_reliability, trace_precision
from enginehouse.report.gallery import Mistakes
from enginehouse.report.history import find_best, list_series
from enginehouse.report.page import PageData
from enginehouse.report.statements import Statements

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLORS = ("#2a6fc9", "#c2571a")
FONTS = ("DejaVu Sans", "Noto Sans CJK JP", "Noto Sans CJK SC", "Microsoft YaHei", "PingFang SC")
MAX_LINES = 10  # of precision over recall; colours repeat after that

Panel = tuple[str, str, Sequence[Sequence[int]]]  # title, who says it, counts


def draw_curves(page: PageData) -> Figure:
    """Losses, scores, learning rate and gradient norm over the epochs, the kept epoch marked."""
    from matplotlib.figure import Figure  # draws with Agg, without pyplot's global state

    figure = Figure(figsize=(9, 7), layout="constrained")
    for place, (title, series) in enumerate(list_series(page.road.model).items(), start=1):
        axes = figure.add_subplot(2, 2, place)
        for color, (name, points) in zip(COLORS, series.items(), strict=False):
            axes.plot(*zip(*points, strict=True), "o-", markersize=3, color=color, label=name)
        axes.axvline(
            find_best(page.road.model), color="#888", linestyle=":", label="best epoch, kept"
        )
        axes.set_title(title)
        axes.set_xlabel("epoch")
        axes.grid(alpha=0.3)
        axes.legend()
    return figure


def draw_confusion(classes: tuple[str, ...], panels: Sequence[Panel]) -> Figure:
    """Confusion matrices side by side, shaded by share of the true class; at least one."""
    from matplotlib.figure import Figure

    side = max(4.5, 0.45 * len(classes) + 2)
    figure = Figure(figsize=(side * len(panels), side), layout="constrained")
    names, fonts = _choose_names(classes)
    for place, (title, who, matrix) in enumerate(panels, start=1):
        counts = np.array(matrix)
        shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
        axes = figure.add_subplot(1, len(panels), place)
        axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
        axes.set_title(title)
        axes.set_xticks(range(len(names)), names, rotation=90, fontfamily=fonts)
        axes.set_yticks(range(len(names)), names, fontfamily=fonts)
        axes.set_xlabel(f"the {who} says")
        axes.set_ylabel("label")
        for (row, column), num in np.ndenumerate(counts):
            color = "white" if shares[row, column] > 0.5 else "black"
            axes.text(column, row, str(num), ha="center", va="center", color=color)
    return figure


def draw_precision(statements: Statements) -> Figure:
    """Precision over recall of every class that occurs; of many, those that are told worst."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.5, 5), layout="constrained")
    axes = figure.add_subplot()
    names, fonts = _choose_names(statements.classes)
    lines = []
    for index in np.flatnonzero(statements.truth.any(axis=0)):
        recall, precision = trace_precision(
            statements.truth[:, index], statements.probabilities[:, index]
        )
        area = float((np.diff(recall, prepend=0.0) * precision).sum())
        lines.append((area, names[index], recall, precision))
    lines.sort(key=lambda line: line[0])
    for area, name, recall, precision in lines[:MAX_LINES]:
        # The name comes last: a label that began with `_` would be left out.
        label = f"{area:.3f} {name}"
        axes.step([0.0, *recall], [precision[0], *precision], where="pre", label=label)
    axes.set(xlim=(0, 1.02), ylim=(0, 1.02), xlabel="recall", ylabel="precision")
    worst = f", the {MAX_LINES} worst classes" if len(lines) > MAX_LINES else ""
    axes.set_title(f"Precision over recall{worst}")
    axes.grid(alpha=0.3)
    axes.legend(title="average precision", prop={"family": fonts, "size": 9})
    return figure


def draw_reliability(statements: Statements, temperature: float) -> Figure:
    """How often answers of some confidence were true, before and after temperature scaling."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.5, 5), layout="constrained")
    axes = figure.add_subplot()
    axes.plot([0, 1], [0, 1], color="#888", linestyle=":", label="as it should be")
    sides = {"before": temperature, f"with temperature {temperature:.2f}": 1.0}
    for color, (name, undone) in zip(reversed(COLORS), sides.items(), strict=True):
        found = measure_reliability(statements, undone)
        label = f"{name}: error {found.error:.3f}"
        axes.plot(found.confidence, found.share, color=color, label=label)
        # A dot's area says how many answers it stands for.
        areas = 15 + 150 * found.num / found.num.sum()
        axes.scatter(found.confidence, found.share, areas, color=color, alpha=0.6)
    axes.set(xlim=(0, 1.02), ylim=(0, 1.02), xlabel="confidence", ylabel="share that was true")
    axes.set_title("Calibration")
    axes.grid(alpha=0.3)
    axes.legend(loc="upper left")
    return figure


def draw_mistakes(statements: Statements, mistakes: Mistakes) -> Figure:
    """The worst mistakes, each above what it rests on; at least one."""
    from matplotlib.figure import Figure

    num, num_rows = len(mistakes.rows), 2 if mistakes.evidence else 1
    figure = Figure(figsize=(2.2 * num, 2.7 * num_rows), layout="constrained")
    names, fonts = _choose_names(statements.classes)
    likely, _ = statements.find_doubts()
    pictures = statements.pictures[statements.rows[mistakes.rows]]
    for place, row in enumerate(mistakes.rows):
        truth, said = (
            " + ".join(np.array(names, object)[which]) or "nothing"
            for which in (statements.truth[row], statements.said[row])
        )
        axes = figure.add_subplot(num_rows, num, place + 1)
        axes.imshow(pictures[place].transpose(1, 2, 0))
        title = f"label: {truth}\nsaid: {said}\ntruth {likely[row]:.1%}"
        axes.set_title(title, fontfamily=fonts, fontsize=8)
        axes.set_axis_off()
        if mistakes.evidence:
            axes = figure.add_subplot(num_rows, num, num + place + 1)
            axes.imshow(mistakes.evidence[place].transpose(1, 2, 0))
            title = f"for {names[mistakes.doubted[place]]}"
            axes.set_title(title, fontfamily=fonts, fontsize=8)
            axes.set_axis_off()
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
