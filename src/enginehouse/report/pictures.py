"""Pictures inside the page: every one is decoded and written anew, as a small JPEG data URI."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL import Image

QUALITY = 85


def encode_picture(picture: Image.Image, side: int) -> str:
    """A data URI of a picture, shrunk to `side` pixels where it is larger."""
    small = picture.convert("RGB")
    small.thumbnail((side, side))
    stream = io.BytesIO()
    # Full chroma: a defect may be nothing but a change of colour.
    small.save(stream, "JPEG", quality=QUALITY, subsampling=0)
    return "data:image/jpeg;base64," + base64.b64encode(stream.getvalue()).decode("ascii")


def encode_array(picture: NDArray[np.uint8], side: int) -> str:
    """A data URI of a packed picture, uint8 [3, height, width], RGB."""
    from PIL import Image

    return encode_picture(Image.fromarray(np.ascontiguousarray(picture.transpose(1, 2, 0))), side)


def encode_file(path: Path, side: int) -> str:
    """A data URI of a picture file of our own making."""
    from PIL import Image

    with Image.open(path) as picture:
        return encode_picture(picture, side)
