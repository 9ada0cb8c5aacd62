"""What cleaning did to the pictures: a few before and after, and those that it left as they are."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, TypeAdapter

from enginehouse.report.page import PageData
from enginehouse.report.pictures import encode_file

PAIR_SIDE = 648  # pixels; two of 320 and the gap between them
MAX_FLAGGED = 50


class Pair(BaseModel):
    """A row of the pack's notes on cleaning."""

    file: str
    path: str
    label: str
    change: float


PAIRS = TypeAdapter(list[Pair])
FLAGGED = TypeAdapter(list[tuple[str, str]])


def make_cleaning(page: PageData) -> dict[str, Any]:
    """The steps, the pairs, and what was flagged; empty where nothing is cleaned."""
    pack = page.road.pack
    if not pack.preparation.clean:
        return {}
    flagged = FLAGGED.validate_python(pack.notes["flagged"])
    return {
        "steps": [
            {
                "name": step.step,
                "options": ", ".join(f"{name} {value:g}" for name, value in step.options.items()),
            }
            for step in pack.preparation.clean
        ],
        "pairs": [
            {
                "path": pair.path,
                "label": pair.label,
                "change": f"{pair.change:.1%}",
                "picture": encode_file(page.workspace.path(pack, pair.file), PAIR_SIDE),
            }
            for pair in PAIRS.validate_python(pack.notes["cleaning"])
        ],
        "num_flagged": len(flagged),
        "flagged": flagged[:MAX_FLAGGED],
    }
