"""Before and after cleaning, as pictures for the report: one of each class, and the extremes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from pydantic import JsonValue

from enginehouse.artifact import Source, Workspace
from enginehouse.preparation import Preparation
from enginehouse.prepare.pack import read_checked
from enginehouse.prepare.windows import Plan
from enginehouse.prepared_picture import clean_picture

NUM_CLASSES = 8
NUM_CHANGED = 4
SIDE = 320  # pixels
GAP = 8


def draw_pairs(
    plans: Sequence[Plan],
    changes: Mapping[str, float],
    source: Source,
    preparation: Preparation,
    here: Workspace,
) -> list[JsonValue]:
    """Write `cleaning-0.png`, ...: the picture as it was on the left, cleaned on the right.

    Args:
        plans: all pictures.
        changes: path to how much cleaning changed it.

    Returns:
        per file: file, path, label, change.
    """
    from PIL import Image

    rows: list[JsonValue] = []
    for number, plan in enumerate(_choose(plans, changes)):
        before = read_checked(source.folder, plan.path, plan.md5)
        after = clean_picture(before, preparation.clean).array
        sides = [Image.fromarray(np.ascontiguousarray(array)) for array in (before, after)]
        for side in sides:
            side.thumbnail((SIDE, SIDE))
        height = max(side.height for side in sides)
        sheet = Image.new("RGB", (sum(s.width for s in sides) + GAP, height), "white")
        sheet.paste(sides[0], (0, 0))
        sheet.paste(sides[1], (sides[0].width + GAP, 0))
        file = f"cleaning-{number}.png"
        sheet.save(here.scratch / file)
        change = changes[plan.path]
        rows.append({"file": file, "path": plan.path, "label": plan.label, "change": change})
    return rows


def _choose(plans: Sequence[Plan], changes: Mapping[str, float]) -> list[Plan]:
    """The first picture of each class, then those that changed most."""
    packed = [plan for plan in plans if plan.path in changes]
    first: dict[str, Plan] = {}
    for plan in sorted(packed, key=lambda plan: plan.path):
        first.setdefault(plan.label, plan)
    chosen = list(first.values())[:NUM_CLASSES]
    shown = {plan.path for plan in chosen}
    most = sorted(packed, key=lambda plan: (-changes[plan.path], plan.path))
    return chosen + [plan for plan in most if plan.path not in shown][:NUM_CHANGED]
