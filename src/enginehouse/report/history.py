"""The notes of training, read: one row of numbers per epoch, as charts and as a table."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, TypeAdapter

from enginehouse.artifact import Record
from enginehouse.report.chart import Chart, Series, make_chart
from enginehouse.report.page import PageData
from enginehouse.train.diagnosis import Finding


class Epoch(BaseModel):
    """One row of `history`; a validation loss that was not finite is None.

    `skipped`, `clipped` and `data_wait` are shares of the steps, and of the time.
    """

    epoch: int
    loss: float
    val_loss: float | None = None
    accuracy: float
    macro_f1: float
    images_per_s: float
    learning_rate: float
    grad_norm: float
    clipped: float
    skipped: float
    data_wait: float


def read_history(record: Record) -> list[Epoch]:
    """The epochs of a trained model, or of one that was trained on, in order."""
    return TypeAdapter(list[Epoch]).validate_python(record.notes["history"])


def find_best(record: Record) -> int:
    """The epoch whose weights were kept."""
    return TypeAdapter(int).validate_python(record.notes["best_epoch"])


def list_series(record: Record) -> dict[str, dict[str, Series]]:
    """Chart title to its series: losses, scores on validation, learning rate, gradient norm."""
    rows = read_history(record)
    return {
        "Loss": {
            "training": [(row.epoch, row.loss) for row in rows],
            "validation": [(row.epoch, row.val_loss) for row in rows if row.val_loss is not None],
        },
        "Score on validation": {
            "accuracy": [(row.epoch, row.accuracy) for row in rows],
            "macro F1": [(row.epoch, row.macro_f1) for row in rows],
        },
        "Learning rate": {"at the end": [(row.epoch, row.learning_rate) for row in rows]},
        "Gradient norm": {"mean": [(row.epoch, row.grad_norm) for row in rows]},
    }


def make_charts(record: Record) -> list[Chart]:
    """The same over the epochs, the kept epoch marked."""
    best = find_best(record)
    return [
        make_chart(title, series, best, from_zero=title != "Score on validation")
        for title, series in list_series(record).items()
    ]


def make_epochs(page: PageData) -> list[dict[str, Any]]:
    """The same numbers as text."""
    best = find_best(page.road.model)
    return [
        {
            "epoch": row.epoch,
            "best": row.epoch == best,
            "numbers": [
                f"{row.loss:.3f}",
                "not finite" if row.val_loss is None else f"{row.val_loss:.3f}",
                f"{row.accuracy:.3f}",
                f"{row.macro_f1:.3f}",
                f"{row.images_per_s:.0f}",
                f"{row.learning_rate:.2g}",
                f"{row.grad_norm:.2g}",
                f"{row.clipped:.0%}",
                f"{row.skipped:.0%}",
                f"{row.data_wait:.1%}",
            ],
        }
        for row in read_history(page.road.model)
    ]


def make_training(page: PageData) -> dict[str, Any]:
    """What else there is to say of training: symptoms, warnings, and how it ran."""
    notes = page.road.model.notes
    resumed = TypeAdapter(list[int]).validate_python(notes["resumed"])
    return {
        "findings": TypeAdapter(list[Finding]).validate_python(notes["diagnosis"]),
        "warnings": TypeAdapter(list[str]).validate_python(notes["warnings"]),
        "resumed": ", ".join(f"after step {step}" for step in resumed),
        "device": notes["device"],
        "devices": notes["devices"],
        "precision": notes["precision"],
        "micro_batch": notes["micro_batch"],
    }
