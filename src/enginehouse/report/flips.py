"""Where a smaller engine answers otherwise than fp32: picture by picture, lost defects first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, TypeAdapter

from enginehouse.choose.record import Decision
from enginehouse.evaluate.record import Scorecard
from enginehouse.prepare.index import read_index
from enginehouse.prepare.shards import PackedPictures, open_pictures
from enginehouse.quantize.record import PLAIN
from enginehouse.report.page import PageData
from enginehouse.report.pictures import encode_array
from enginehouse.road import Tried

NUM_SHOWN = 6  # pictures of either kind, so that the page stays small
MAX_ROWS = 200
SIDE = 224  # pixels of a picture on the page
LOST = "lost defect"
KINDS = {
    LOST: "a defect that fp32 rejects, passed as good",
    "gained defect": "a defect that fp32 passes, rejected",
    "lost good": "a good part that fp32 passes, rejected",
    "gained good": "a good part that fp32 rejects, passed",
    "class": "another class",
}


class Flip(BaseModel):
    """One picture (or part) of which a candidate says something else than fp32.

    Attributes:
        fp32, answer: class names, of fp32 and of the candidate.
        alarm_fp32, alarm: likewise; None without a good class.
        kind: one of KINDS.
    """

    path: str
    part: str
    truth: str
    fp32: str
    answer: str
    alarm_fp32: float | None
    alarm: float | None
    kind: str


def read_flips(decision: Decision) -> dict[str, list[Flip]]:
    """By candidate, lost defects first; without those that answer as fp32 does."""
    found = TypeAdapter(dict[str, list[Flip]]).validate_python(decision.notes.get("flips", {}))
    return {
        name: sorted(flips, key=lambda flip: list(KINDS).index(flip.kind))
        for name, flips in found.items()
        if flips
    }


def make_flips(page: PageData, decision: Decision, tried: dict[str, Tried]) -> list[dict[str, Any]]:
    """Pictures and rows of every candidate that answers otherwise; what ships comes first.

    Raises:
        StoreError: bytes of the pack or of a scorecard are gone.
    """
    flips = read_flips(decision)
    if not flips:
        return []
    album = Album(page)
    told = []
    for name in sorted(flips, key=lambda name: name != decision.chosen):
        cards = (tried[PLAIN].validation, tried[name].validation)
        lost = [flip for flip in flips[name] if flip.kind == LOST]
        others = [flip for flip in flips[name] if flip.kind != LOST]
        told.append(
            {
                "name": name,
                "ships": name == decision.chosen,
                "num": len(flips[name]),
                "num_lost": len(lost),
                "lost": [album.show(flip, cards) for flip in lost[:NUM_SHOWN]],
                "others": [album.show(flip, cards) for flip in others[:NUM_SHOWN]],
                "rows": [_describe(flip) for flip in flips[name][:MAX_ROWS]],
                "more": max(0, len(flips[name]) - MAX_ROWS),
            }
        )
    return told


class Album:
    """The validation pictures of a run, found by path."""

    def __init__(self, page: PageData) -> None:
        pack = page.road.pack
        self._page = page
        self._tiled = pack.preparation.tiles is not None
        self._index = read_index(pack, "val", page.workspace)
        self._pictures: PackedPictures = open_pictures(pack, "val", page.workspace)
        rows_by_path = self._index.groupby("path").indices
        self._rows = {str(path): np.asarray(rows) for path, rows in rows_by_path.items()}

    def show(self, flip: Flip, cards: Sequence[Scorecard | None]) -> dict[str, str]:
        """A card of one flip; of a tiled picture, the window of which the engines differ most.

        Args:
            cards: what fp32 and the candidate scored on validation.
        """
        row = self._find(flip.path, cards)
        window = ""
        if self._tiled:
            entry = self._index.iloc[row]
            x, y, width, height = (entry[name] for name in ("x", "y", "width", "height"))
            window = f"at {x:.0f}, {y:.0f}: {width:.0f} × {height:.0f} px"
        picture = encode_array(self._pictures[np.array([row])][0], SIDE)
        return {**_describe(flip), "picture": picture, "window": window}

    def _find(self, path: str, cards: Sequence[Scorecard | None]) -> int:
        """The row of the pack to show of a picture."""
        rows = self._rows[path]
        if len(rows) == 1:
            return int(rows[0])
        fp32, candidate = (self._read(card)[rows] for card in cards if card)
        return int(rows[np.abs(fp32 - candidate).max(axis=1).argmax()])

    def _read(self, card: Scorecard) -> NDArray[np.float32]:
        said: NDArray[np.float32] = np.load(self._page.workspace.path(card, "predictions.npy"))
        return said


def _describe(flip: Flip) -> dict[str, str]:
    return {
        "path": flip.path,
        "part": flip.part,
        "truth": flip.truth,
        "fp32": _say(flip.fp32, flip.alarm_fp32),
        "answer": _say(flip.answer, flip.alarm),
        "kind": KINDS[flip.kind],
        "tone": "bad" if flip.kind.startswith("lost") else "muted",
    }


def _say(answer: str, alarm: float | None) -> str:
    return answer if alarm is None else f"{answer} (alarm {alarm:.3g})"
