"""What one file holds, by its content alone: pixels, statistics, or why it cannot be used.

Knows nothing of labels and of other files. The result is remembered by the file's MD5, so nothing
in it may depend on where the file lies or what it is called.
"""

from __future__ import annotations

import hashlib
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

from enginehouse.errors import DataError, UnreadablePicture
from enginehouse.ingest.statistics import measure_picture
from enginehouse.picture import decode_picture

LIBRARIES = ("imagehash", "numpy", "opencv-python-headless", "pillow", "pyarrow")

ITS_NAME = "\0"  # stands for the file's name in messages


class Described(NamedTuple):
    """One usable picture; see docs/manifest.md.

    Attributes:
        orientation: the EXIF tag that was applied; from 5 on the sides are exchanged.
    """

    bytes: int
    format: str
    pixels: str
    phash: str
    width: int
    height: int
    mode: str
    handling: str
    orientation: int
    brightness: float
    contrast: float
    sharpness: float


class Refused(NamedTuple):
    """Why a file is no usable picture; `detail` calls it ITS_NAME."""

    reason: str
    detail: str


def describe_file(folder: Path, file: tuple[str, str]) -> Described | Refused:
    """Decode and measure one file.

    Args:
        folder: of the data.
        file: relative path and MD5 (hex) in the data version.

    Raises:
        DataError: its content is no longer what the data version says.
    """
    path, md5 = file
    try:
        content = (folder / path).read_bytes()
    except OSError as error:
        raise DataError(
            f"{path} can no longer be read: {error.strerror}.",
            "Run again when nothing writes into the data folder.",
        ) from error
    found = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if found != md5:
        raise DataError(
            f"{path} changed while the run was reading it (MD5 {found}, the data version has "
            f"{md5}).",
            "Run again when nothing writes into the data folder.",
        )
    return describe_content(content)


def describe_content(content: bytes) -> Described | Refused:
    """Decode and measure the content of a file."""
    try:
        picture = decode_picture(BytesIO(content), ITS_NAME)
    except UnreadablePicture as error:
        return Refused(error.reason, error.message)
    pixels = hashlib.sha256(f"{picture.array.shape}".encode())
    pixels.update(picture.array.data)
    measured = measure_picture(picture.array)
    return Described(
        bytes=len(content),
        format=picture.format,
        pixels=pixels.hexdigest(),
        phash=measured.phash,
        width=picture.width,
        height=picture.height,
        mode=picture.mode,
        handling="; ".join(picture.handling),
        orientation=picture.orientation,
        brightness=measured.brightness,
        contrast=measured.contrast,
        sharpness=measured.sharpness,
    )
