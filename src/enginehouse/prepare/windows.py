"""Which rows a pack has: pictures, or the windows over them with the labels that their boxes give.

Knows tables and boxes, and no pixels.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from enginehouse.errors import DataError
from enginehouse.ingest.classes import ImageClass, Rule
from enginehouse.ingest.record import Manifest
from enginehouse.labels import Box, Labelled
from enginehouse.preparation import Preparation, Window, cut_windows, measure_shares
from enginehouse.prepare.config import TileConfig
from enginehouse.prepared_picture import find_decoded_size, find_frame, locate_windows

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("split", "row", "path", "label", "class_index", "part")
CORNERS = ["x", "y", "width", "height"]
FACTS = ("time", "format", "mode", "handling", "source", "brightness", "contrast", "sharpness")
TILE_COLUMNS = (*CORNERS, "clean", "picture_index")


class Piece(NamedTuple):
    """One row of a pack to be.

    Attributes:
        cut: where it lies in the cleaned picture, in its pixels.
        place: where it lies in the picture in the file, in its pixels.
        clean: no box touches it.
    """

    cut: Window
    place: Window
    label: str
    clean: bool


class Plan(NamedTuple):
    """A picture and what becomes of it.

    Attributes:
        size: width and height of the cleaned picture.
        label: of the whole picture, among the classes of the pack.
        boxes: rows of the table of boxes; those that a window shows at all.
    """

    path: str
    md5: str
    pixels: str
    part: str
    split: str
    size: tuple[int, int]
    label: str
    pieces: tuple[Piece, ...]
    boxes: tuple[int, ...] = ()


def make_window_rule(manifest: Manifest, boxes: pd.DataFrame) -> Rule:
    """How what a window shows gives it a class: as for pictures, but never several joined to one.

    Raises:
        DataError: the data has no boxes.
    """
    if not manifest.image_class or boxes.empty:
        raise DataError(
            "Tiles get their labels from boxes, and this data has none.",
            "Label the defects with boxes, or leave prepare.tiles out.",
        )
    image_class: ImageClass = "any_box" if manifest.image_class == "any_box" else "majority"
    return Rule(image_class, manifest.good, manifest.defect, True, manifest.labels)


def list_window_classes(rule: Rule, boxes: pd.DataFrame) -> tuple[str, ...]:
    """The classes that windows can have, in index order: the good one first."""
    if rule.image_class == "any_box":
        return rule.good, rule.defect
    return rule.order({rule.good, *(label or rule.defect for label in boxes["label"])})


def plan_pictures(table: pd.DataFrame, preparation: Preparation) -> list[Plan]:
    """Every picture as one row, squashed as a whole.

    Args:
        table: path, md5, pixels, part, split, width, height, label.
    """
    plans = []
    for row in _iter_rows(table):
        frame = find_frame(*find_decoded_size(row.width, row.height), preparation.clean)
        size = (frame.width, frame.height)
        piece = Piece(Window(0, 0, *size), Window(0, 0, row.width, row.height), row.label, False)
        plans.append(_make_plan(row, size, row.label, [piece]))
    return plans


def plan_windows(
    table: pd.DataFrame,
    boxes: pd.DataFrame,
    rule: Rule,
    preparation: Preparation,
    tiles: TileConfig,
) -> list[Plan]:
    """Every window over every picture as one row, but in training some.

    A window bears the label of the boxes of which it shows enough. One that shows too little of
    every box that it touches is ambiguous: left out of training, good but not clean elsewhere.
    Of the clean windows in training, those with the lowest hash stay, so many per window with a
    box.

    Args:
        table: path, md5, pixels, part, split, width, height.
        boxes: path, label, x, y, width, height, in pixels of the picture in the file.
    """
    corners = boxes[CORNERS].to_numpy(float)
    labelled = [Box(label, xywh) for label, *xywh in _iter_rows(boxes[["label", *CORNERS]])]
    rows_of = boxes.groupby("path").indices
    plans = []
    for row in _iter_rows(table):
        mine = np.asarray(rows_of.get(row.path, ()), np.int64)
        frame = find_frame(*find_decoded_size(row.width, row.height), preparation.clean)
        cuts = cut_windows(frame.width, frame.height, preparation.tiles)
        places = locate_windows(row.width, row.height, preparation)
        seen = measure_shares(np.array(places, float), corners[mine])
        mine, seen = mine[seen.any(axis=0)], seen[:, seen.any(axis=0)]
        pieces = []
        for cut, place, shares in zip(cuts, places, seen, strict=True):
            shown = [labelled[index] for index in mine[shares >= tiles.min_visible]]
            label = rule.label(Labelled(boxes=tuple(shown)))
            piece = Piece(cut, place, label, clean=not shares.any())
            if row.split != "train" or piece.clean or shown:
                pieces.append(piece)
        whole = rule.label(Labelled(boxes=tuple(labelled[index] for index in mine)))
        plan = _make_plan(row, (frame.width, frame.height), whole, pieces)
        plans.append(plan._replace(boxes=tuple(mine.tolist())))
    return _thin_out(plans, tiles.keep_clean)


def _iter_rows(table: pd.DataFrame) -> Iterator[Any]:
    yield from table.itertuples(index=False)


def _make_plan(row: Any, size: tuple[int, int], label: str, pieces: Sequence[Piece]) -> Plan:
    told = {name: getattr(row, name) for name in ("path", "md5", "pixels", "part", "split")}
    return Plan(**told, size=size, label=label, pieces=tuple(pieces))


def _thin_out(plans: Sequence[Plan], keep_clean: float) -> list[Plan]:
    """Leave out clean windows of training beyond `keep_clean` per window with a box."""
    ranked = []
    num_marked = 0
    for plan in plans:
        for piece in plan.pieces if plan.split == "train" else ():
            if piece.clean:
                name = f"{plan.pixels}/{piece.place.x},{piece.place.y}"
                ranked.append((hashlib.sha256(name.encode()).digest(), plan.path, piece.place))
            num_marked += not piece.clean
    first = sorted(ranked)[: math.ceil(keep_clean * num_marked)]
    kept = {(path, place) for _, path, place in first}
    thinned = []
    for plan in plans:
        pieces = tuple(
            piece
            for piece in plan.pieces
            if plan.split != "train" or not piece.clean or (plan.path, piece.place) in kept
        )
        thinned += [plan._replace(pieces=pieces)] if pieces else []
    return thinned


def list_shown(plans: Sequence[Plan], boxes: pd.DataFrame) -> pd.DataFrame:
    """The boxes on pictures of `val` and `test` that a window shows at all."""
    rows = [row for plan in plans if plan.split != "train" for row in plan.boxes]
    return boxes.iloc[rows][["path", "label", *CORNERS]].reset_index(drop=True)


def make_index(plans: Sequence[Plan], classes: Sequence[str], tiled: bool) -> pd.DataFrame:
    """The pack's index, in the order of the shards: by split, path, and place in the picture."""
    import pandas as pd

    index_of = {label: index for index, label in enumerate(classes)}
    rows: list[tuple[object, ...]] = []
    num_rows: Counter[str] = Counter()
    for plan in plans:
        for piece in plan.pieces:
            what = (plan.path, piece.label, index_of[piece.label], plan.part)
            where = (*piece.place, piece.clean, index_of[plan.label])
            rows.append((plan.split, num_rows[plan.split], *what, *where))
            num_rows[plan.split] += 1
    table = pd.DataFrame(rows, columns=[*COLUMNS, *TILE_COLUMNS])
    return table if tiled else table[list(COLUMNS)]


def add_facts(index: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """The index with what the manifest says of each row's picture, so that scores can be cut by it.

    Args:
        index: as `make_index` gives it.
        table: the manifest's rows of these pictures.
    """
    facts = table[["path", *FACTS]].assign(
        picture_width=table["width"], picture_height=table["height"]
    )
    return index.merge(facts, on="path", how="left", validate="many_to_one")
