"""What was not used, as both reports show it: by name and reason, with a thumbnail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from enginehouse.artifact import Source, Workspace
from enginehouse.errors import UnreadablePicture
from enginehouse.ingest.record import Manifest
from enginehouse.picture import decode_picture
from enginehouse.report.pictures import encode_picture
from enginehouse.store import hash_file

THUMB_SIDE = 96
MAX_ROWS = 24
BOX_COLOURS = ("#000000", "#ffd400")  # an outline that is seen on any ground


def make_quarantine(workspace: Workspace, manifest: Manifest, source: Source) -> dict[str, Any]:
    """Files and rows that were left out, the rarest reasons first, with thumbnails."""
    import pandas as pd

    table = pd.read_parquet(workspace.path(manifest, "quarantine.parquet")).fillna("")
    rows = [
        (str(r.path), str(r.place), str(r.reason), str(r.detail))
        for r in table.itertuples(index=False)
    ]
    counts = Counter(reason for _, _, reason, _ in rows)
    rows.sort(key=lambda row: (counts[row[2]], row[2], row[0], row[1]))
    words = ", ".join(f"{reason}: {num}" for reason, num in counts.most_common())
    more = f" The first {MAX_ROWS} are shown." if len(rows) > MAX_ROWS else ""
    return {
        "summary": f"{words}.{more}",
        "rows": [
            {"path": path, "place": place, "reason": reason, "detail": detail}
            | show_file(source, path, THUMB_SIDE)
            for path, place, reason, detail in rows[:MAX_ROWS]
        ],
    }


def show_file(
    source: Source, path: str, side: int, boxes: Sequence[Sequence[float]] = ()
) -> dict[str, str]:
    """A thumbnail, written anew; or `gone`: why the file of this data version is not shown.

    Args:
        side: its longer side in pixels.
        boxes: x, y, width, height in pixels of the upright picture, drawn on it.
    """
    from PIL import Image, ImageDraw

    file = source.folder / path
    if not file.is_file():
        return {"picture": "", "gone": "No longer there, so not shown."}
    if hash_file(file, "md5") != source.listing.get(path):
        return {"picture": "", "gone": "Changed since this run, so not shown."}
    try:
        decoded = decode_picture(file)
    except UnreadablePicture:
        return {"picture": "", "gone": ""}
    image = Image.fromarray(decoded.array)
    image.thumbnail((side, side))
    pen = ImageDraw.Draw(image)
    scale = image.width / decoded.width
    for x, y, width, height in boxes:
        corners = [x * scale, y * scale, (x + width) * scale, (y + height) * scale]
        for line, colour in zip((3, 1), BOX_COLOURS, strict=True):
            pen.rectangle(corners, outline=colour, width=line)
    return {"picture": encode_picture(image, side), "gone": ""}
