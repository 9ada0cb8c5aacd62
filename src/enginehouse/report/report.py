"""The report of a run: one self-contained page with the Data Docs beside it, and its plots."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from enginehouse.report.cleaning import make_cleaning
from enginehouse.report.gallery import make_predictions, show_first_batch
from enginehouse.report.history import make_charts, make_epochs
from enginehouse.report.page import DOCS, PageData, copy_docs, render_page
from enginehouse.report.plots import draw_confusion, draw_curves
from enginehouse.report.quarantine import make_quarantine
from enginehouse.report.tables import (
    describe_splits,
    list_engines,
    list_figures,
    list_parity,
    list_recalls,
    make_confusion,
    make_defects,
    make_latency,
    make_repeats,
    name_engine,
)

TEMPLATE = "page.html.j2"
DATA_PAGE = "data.html"
PLOT_DPI = 120
TONES = {"champion": "good", "candidate": "new", "rejected": "bad", "waiting": "warn"}


def write_report(folder: Path, page: PageData) -> Path:
    """Write `report.html`, which loads nothing, and what it links to: data report, `data_docs`.

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
    return render_page(TEMPLATE, folder / "report.html", _collect(page))


def write_plots(folder: Path, page: PageData) -> list[Path]:
    """Write `curves.png`, and `confusion.png` when an engine was scored.

    Args:
        folder: made if missing; files of the same names are replaced.
        page: the run.

    Returns:
        The paths written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    figures = {"curves.png": draw_curves(page)}
    if page.shipped is not None:
        figures["confusion.png"] = draw_confusion(page)
    for name, figure in figures.items():
        figure.savefig(folder / name, dpi=PLOT_DPI)
    return [folder / name for name in figures]


def _collect(page: PageData) -> dict[str, Any]:
    """Every name that the template speaks of."""
    docs = f"{DOCS}/index.html"
    return {
        "page": page,
        "tone": TONES.get(page.verdict, ""),
        "engine": name_engine(page),
        "precision": page.target.precision.upper(),
        "figures": list_figures(page),
        "predictions": make_predictions(page),
        "recalls": list_recalls(page),
        "confusion": make_confusion(page),
        "defects": make_defects(page),
        "latency": make_latency(page),
        "splits": describe_splits(page),
        "data_page": DATA_PAGE,
        "docs": docs if docs in page.road.validated.reports else "",
        "quarantine": make_quarantine(page.workspace, page.road.manifest, page.source),
        "repeats": make_repeats(page),
        "cleaning": make_cleaning(page),
        "charts": make_charts(page),
        "epochs": make_epochs(page),
        "first_batch": show_first_batch(page),
        "engines": list_engines(page),
        "parity": list_parity(page),
        "unscored": _say_why_unscored(page),
    }


def _say_why_unscored(page: PageData) -> str:
    reason = page.road.waiting.get(page.target.name, "it was not reached in this run")
    return f"The required engine {page.target.name} has no scores: {reason}"
