"""The report of a run: one self-contained page, with the Data Docs and its plots beside it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enginehouse.report.calibration import describe_calibration
from enginehouse.report.cleaning import make_cleaning
from enginehouse.report.gallery import Mistakes, find_mistakes, make_predictions, show_first_batch
from enginehouse.report.history import make_charts, make_epochs, make_training
from enginehouse.report.operating import make_operating
from enginehouse.report.page import DOCS, PageData, copy_docs, render_page
from enginehouse.report.pictures import encode_file
from enginehouse.report.plots import (
    Panel,
    draw_confusion,
    draw_curves,
    draw_mistakes,
    draw_precision,
    draw_reliability,
)
from enginehouse.report.precision import make_precision
from enginehouse.report.quarantine import make_quarantine
from enginehouse.report.statements import Statements, read_shipped, read_validation
from enginehouse.report.tables import (
    describe_splits,
    list_engines,
    list_figures,
    list_recalls,
    make_confusion,
    make_defects,
    make_latency,
    make_repeats,
    name_engine,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TEMPLATE = "page.html.j2"
DATA_PAGE = "data.html"
PRECISION, CALIBRATION = "precision.png", "calibration.png"
PLOT_DPI = 120
PLOT_SIDE = 660  # pixels of a plot on the page
TONES = {"champion": "good", "candidate": "new", "rejected": "bad", "waiting": "warn"}


def write_report(folder: Path, page: PageData) -> Path:
    """Write `report.html`, which loads nothing, what it links to, and its plots as pictures.

    It links to the data report and to `data_docs`. The plots are `curves.png`, `precision.png`,
    `calibration.png`; `confusion.png` where a picture bears one label; `mistakes.png` where there
    are any.

    Args:
        folder: made if missing; files of the same names are replaced.
        page: the run.

    Returns:
        The path of `report.html`.

    Raises:
        StoreError: bytes of the run are gone from the store.
    """
    folder.mkdir(parents=True, exist_ok=True)
    copy_docs(page.workspace, page.road.validated, folder)
    shutil.copyfile(page.data_page, folder / DATA_PAGE)
    validation = read_validation(page)
    shown = read_shipped(page) or validation
    mistakes = find_mistakes(page, shown)
    for name, figure in _draw(page, validation, shown, mistakes).items():
        figure.savefig(folder / name, dpi=PLOT_DPI)
    predictions = make_predictions(page, shown, mistakes)
    names = {**_collect(page, folder, validation), "predictions": predictions}
    return render_page(TEMPLATE, folder / "report.html", names)


def _draw(
    page: PageData, validation: Statements, shown: Statements, mistakes: Mistakes
) -> dict[str, Figure]:
    """The figures by the names of their files."""
    figures = {
        "curves.png": draw_curves(page),
        PRECISION: draw_precision(validation),
        CALIBRATION: draw_reliability(validation, page.road.model.temperature),
    }
    if not validation.several:
        panels: list[Panel] = [("validation", "network", validation.count_confusion())]
        if page.shipped:
            panels.append((page.shipped.split, name_engine(page), page.shipped.confusion))
        figures["confusion.png"] = draw_confusion(page.road.model.classes, panels)
    if len(mistakes.rows):
        figures["mistakes.png"] = draw_mistakes(shown, mistakes)
    return figures


def _collect(page: PageData, folder: Path, validation: Statements) -> dict[str, Any]:
    """Every name that the template speaks of, but for the predictions."""
    docs = f"{DOCS}/index.html"
    classes, own = page.road.model.classes, page.shipped.confusion if page.shipped else ()
    return {
        "page": page,
        "tone": TONES.get(page.verdict, ""),
        "engine": name_engine(page),
        "own": page.precision.upper(),
        "figures": list_figures(page),
        "recalls": list_recalls(page),
        "confusion": make_confusion(classes, own),
        "confusion_val": make_confusion(
            classes, () if validation.several else validation.count_confusion()
        ),
        "precision_plot": encode_file(folder / PRECISION, PLOT_SIDE),
        "calibration_plot": encode_file(folder / CALIBRATION, PLOT_SIDE),
        "calibration": describe_calibration(validation, page.road.model.temperature),
        "defects": make_defects(page),
        "operating": make_operating(page),
        "precision": make_precision(page),
        "latency": make_latency(page),
        "splits": describe_splits(page),
        "data_page": DATA_PAGE,
        "docs": docs if docs in page.road.validated.reports else "",
        "quarantine": make_quarantine(page.workspace, page.road.manifest, page.source),
        "repeats": make_repeats(page),
        "cleaning": make_cleaning(page),
        "charts": make_charts(page.road.model),
        "epochs": make_epochs(page),
        "training": make_training(page),
        "first_batch": show_first_batch(page),
        "engines": list_engines(page),
        "unscored": _say_why_unscored(page),
    }


def _say_why_unscored(page: PageData) -> str:
    reason = page.road.waiting.get(page.target.name, "it was not reached in this run")
    return f"The required engine {page.target.name} has no scores: {reason}"
