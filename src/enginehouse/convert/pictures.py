"""The pictures of a data set that is written: copies, or upright where EXIF turns them.

Boxes are given in the picture as it is displayed. Many readers of COCO and YOLO show the stored
pixels, so a copy of a picture that EXIF turns would not fit its boxes.
"""

from __future__ import annotations

import io
from pathlib import Path

from enginehouse.files import Files
from enginehouse.picture import MAX_PIXELS, ORIENTATION

UPRIGHT_SUFFIX = ".png"  # lossless, and without an orientation of its own
PNG_MODES = frozenset({"1", "L", "LA", "P", "RGB", "RGBA", "I;16"})
TURNED = range(2, 9)  # values of EXIF's orientation that mean something else than upright


def find_turned(files: Files, path: str) -> bool:
    """Whether EXIF says that a picture is displayed otherwise than its pixels are stored."""
    from PIL import Image

    Image.MAX_IMAGE_PIXELS = MAX_PIXELS
    with (files.folder / path).open("rb") as stream:
        try:
            with Image.open(stream) as image:
                return image.getexif().get(ORIENTATION) in TURNED
        except (SyntaxError, ValueError, TypeError, KeyError, OSError, Warning):
            return False  # broken EXIF turns nothing, see picture.py


def copy_picture(files: Files, path: str, target: Path, upright: bool) -> None:
    """Write one picture; a copy, since tools rewrite pictures in place and links would let them.

    Args:
        upright: write its pixels as they are displayed, as PNG.

    Raises:
        DataError: it is no longer what the data version says.
    """
    content = files.read(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(_turn(content) if upright else content)


def _turn(content: bytes) -> bytes:
    from PIL import Image, ImageOps

    with Image.open(io.BytesIO(content)) as image:
        turned = ImageOps.exif_transpose(image)
    if turned.mode not in PNG_MODES:
        turned = turned.convert("RGB")
    stream = io.BytesIO()
    turned.save(stream, "PNG")
    return stream.getvalue()
