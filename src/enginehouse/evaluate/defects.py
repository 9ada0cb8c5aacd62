"""How many labelled defects the windows of a tiled pack find, and how many false alarms they raise.

Knows windows, boxes and alarms, and nothing of engines.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from enginehouse.evaluate.record import DefectScores, RecallPoint
from enginehouse.preparation import measure_shares

if TYPE_CHECKING:
    import pandas as pd

LIMITS = (0.1, 0.3, 1.0, 3.0)  # false alarms per megapixel of clean windows
CORNERS = ["x", "y", "width", "height"]


def score_defects(
    windows: pd.DataFrame,
    boxes: pd.DataFrame,
    alarm: NDArray[np.float64],
    says: NDArray[np.bool_],
    min_visible: float,
) -> DefectScores | None:
    """Score windows against the defects that they show.

    A defect is found when one of its windows alarms. Its windows are those that show at least
    `min_visible` of its area, or, where none does, those that show most of it. One that no window
    shows at all counts as missed.

    Args:
        windows: path, x, y, width, height, clean.
        boxes: path, x, y, width, height of every defect, in the frame of the windows.
        alarm: how sure the engine is that a window is not good, [windows].
        says: whether its answer for a window is a defect, [windows].
        min_visible: share of a defect's area.

    Returns:
        The scores, or None where no window's picture has a defect.
    """
    shown = [rows for _, rows in iter_shown(windows, boxes, min_visible)]
    if not shown:
        return None
    clean = windows["clean"].to_numpy(bool)
    megapixels = float((windows["width"] * windows["height"]).to_numpy(float)[clean].sum() / 1e6)
    highest = np.array([alarm[rows].max(initial=0) for rows in shown])
    return DefectScores(
        num_boxes=len(shown),
        num_windows=len(windows),
        num_clean=int(clean.sum()),
        clean_megapixels=megapixels,
        recall=float(np.mean([says[rows].any() for rows in shown])),
        false_alarms=float(says[clean].sum() / megapixels) if megapixels else None,
        points=_find_points(highest, np.sort(alarm[clean])[::-1], megapixels) if megapixels else (),
    )


def iter_shown(
    windows: pd.DataFrame, boxes: pd.DataFrame, min_visible: float
) -> Iterator[tuple[str, NDArray[np.int64]]]:
    """Per defect on a picture of `windows`: the picture's path, and which rows are its windows."""
    rows_of = {path: np.asarray(rows) for path, rows in windows.groupby("path").indices.items()}
    corners = windows[CORNERS].to_numpy(float)
    for path, *xywh in boxes[["path", *CORNERS]].itertuples(index=False):
        if path not in rows_of:
            continue
        rows = rows_of[path]
        seen = measure_shares(corners[rows], np.array([xywh], float))[:, 0]
        yield str(path), rows[(seen > 0) & (seen >= min(min_visible, seen.max()))]


def _find_points(
    highest: NDArray[np.float64], falling: NDArray[np.float64], megapixels: float
) -> tuple[RecallPoint, ...]:
    """Recall at each limit.

    Args:
        highest: per defect, the alarm of its most alarming window.
        falling: alarms of the clean windows, the largest first.
        megapixels: their area.
    """
    points = []
    for limit in LIMITS:
        allowed = int(limit * megapixels + 1e-9)  # 0.3 x 10 may be a hair below 3
        # Above the first clean window too many, no more than the allowed ones are left.
        threshold = float(falling[allowed]) if allowed < len(falling) else 0.0
        recall = float((highest > threshold).mean())
        points.append(RecallPoint(limit=limit, threshold=threshold, recall=recall))
    return tuple(points)
