"""Pictures: the one way in which a file becomes pixels, for every stage and for prediction.

Whatever ingest, prepare, calibration and prediction see of a picture they see through here, so
they cannot differ. Knows nothing of labels, data sets or models.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from enginehouse.errors import UnreadablePicture

if TYPE_CHECKING:
    from PIL import Image

MAX_PIXELS = 178_956_970  # 0.5 GiB in RGB: where Pillow, too, speaks of a decompression bomb
MAX_BYTES = 2**30
REDUCE_ABOVE = 50_000_000  # pixels; a larger picture is halved before it becomes an array
ORIENTATION = 0x0112  # the EXIF tag
DRAWINGS = ("EPS", "WMF")  # programs and vectors: decoding them would start an interpreter
DEPTH_16 = ("I;16", "I;16L", "I;16B", "I;16N")
HEADERS = {
    b"\xff\xd8\xff": "JPEG",
    b"\x89PNG": "PNG",
    b"GIF8": "GIF",
    b"II*\0": "TIFF",
    b"MM\0*": "TIFF",
}
STRANGERS = {  # how files begin that people find under a picture's name, in lower case
    b"<!doctype html": "an HTML page",
    b"<html": "an HTML page",
    b"<svg": "an SVG drawing",
    b"<?xml": "an XML file",
    b"%pdf": "a PDF",
    b"pk\3\4": "a ZIP archive",
    b"version https://git-lfs": "a Git LFS pointer (`git lfs pull` brings the file)",
}


class Picture(NamedTuple):
    """A decoded picture.

    Attributes:
        array: uint8 [height, width, 3], RGB, upright; smaller than the file's picture if that is
            very large.
        width: pixels of the upright picture in the file.
        height: likewise.
        mode: how Pillow names the file's own pixels: `RGB`, `L`, `I;16`, `CMYK`, `P` ...
    """

    array: NDArray[np.uint8]
    width: int
    height: int
    mode: str


def read_picture(path: Path, size: int) -> NDArray[np.uint8]:
    """Decode and resize: uint8 [3, size, size], RGB.

    Raises:
        UnreadablePicture: the file is no usable picture.
        OSError: the file cannot be read at all.
    """
    return resize_picture(decode_picture(path).array, size)


def decode_picture(source: Path | BinaryIO, name: str = "") -> Picture:
    """Decode the first frame of a file the right way up, as 8-bit RGB.

    The EXIF orientation is applied, CMYK becomes RGB (Adobe's inverted kind too), 16-bit grey is
    scaled, and what is transparent is laid on white. Decoding does not depend on whether warnings
    are errors.

    Args:
        source: a file, or its content as a stream.
        name: what messages call it; the path by default.

    Raises:
        UnreadablePicture: with its `reason`: `empty file`, `not an image`, `truncated or
            corrupt`, `too large` or `unsupported pixels`.
        OSError: the file cannot be read at all.
    """
    if isinstance(source, Path):
        name = name or str(source)
        with source.open("rb") as stream:
            return decode_picture(stream, name)
    content = source.read(MAX_BYTES + 1)
    if not content:
        raise UnreadablePicture(f"{name} is empty (0 bytes).", "empty file")
    if len(content) > MAX_BYTES:
        raise UnreadablePicture(f"{name} has over {MAX_BYTES >> 30} GiB.", "too large")
    image = _open_image(content, name)
    try:
        image.load()
        upright = _turn_upright(image)
    except MemoryError:
        raise
    except Exception as error:  # decoders raise anything on bytes that someone else made
        raise UnreadablePicture(
            f"{name} is truncated or corrupt: {error or type(error).__name__}.",
            "truncated or corrupt",
        ) from error
    flat = _flatten(upright, name)
    if flat.width * flat.height > REDUCE_ABOVE:
        flat = flat.reduce(2)
    return Picture(np.asarray(flat, np.uint8), upright.width, upright.height, image.mode)


def resize_picture(array: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    """Squash a picture to a square with Pillow's antialiased bilinear filter.

    Args:
        array: uint8 [height, width, 3], RGB.
        size: pixels of the square's side.

    Returns:
        uint8 [3, size, size], RGB, contiguous.
    """
    from PIL import Image

    square = Image.fromarray(array).resize((size, size), Image.Resampling.BILINEAR)
    return np.ascontiguousarray(np.asarray(square, np.uint8).transpose(2, 0, 1))


def _open_image(content: bytes, name: str) -> Image.Image:
    """Read the header and judge by it; nothing is decoded yet."""
    from PIL import Image

    # Pillow warns above this limit and fails above twice of it. Set to our own limit, a large
    # but honest picture passes also where warnings are errors.
    Image.MAX_IMAGE_PIXELS = MAX_PIXELS
    try:
        image: Image.Image = Image.open(io.BytesIO(content))
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise UnreadablePicture(f"{name} is too large: {error}", "too large") from error
    except MemoryError:
        raise
    except Exception as error:  # as above: not every plug-in says so in Pillow's own words
        raise _explain_unknown(content, name) from error
    if image.width * image.height > MAX_PIXELS:
        raise UnreadablePicture(
            f"{name} is too large: {image.width} x {image.height} px are more than the "
            f"{MAX_PIXELS / 1e6:.0f} million that are allowed.",
            "too large",
        )
    if image.format in DRAWINGS:
        raise UnreadablePicture(f"{name} is not an image but a drawing ({image.format}).")
    return image


def _explain_unknown(content: bytes, name: str) -> UnreadablePicture:
    """Why Pillow knows no format for this content, from how it begins."""
    for sign, kind in HEADERS.items():
        if content.startswith(sign):
            return UnreadablePicture(
                f"{name} is truncated or corrupt: a {kind} file whose header ends early.",
                "truncated or corrupt",
            )
    head = content[:512].lstrip(b"\xef\xbb\xbf \t\r\n")
    for sign, what in STRANGERS.items():
        if head.lower().startswith(sign):
            return UnreadablePicture(f"{name} is not an image: it looks like {what}.")
    text = all(byte >= 32 or byte in b"\t\r\n" for byte in head)
    what = "text" if text else f"nothing Pillow knows (begins with {content[:8].hex(' ')})"
    return UnreadablePicture(f"{name} is not an image: it looks like {what}.")


def _turn_upright(image: Image.Image) -> Image.Image:
    """Apply the EXIF orientation, if there is one that can be read."""
    from PIL import Image

    turn = Image.Transpose
    try:
        orientation = image.getexif().get(ORIENTATION)
    except (SyntaxError, ValueError, TypeError, KeyError, OSError, Warning):
        return image  # broken EXIF says nothing about the pixels, which are whole
    turns = {
        2: turn.FLIP_LEFT_RIGHT,
        3: turn.ROTATE_180,
        4: turn.FLIP_TOP_BOTTOM,
        5: turn.TRANSPOSE,
        6: turn.ROTATE_270,
        7: turn.TRANSVERSE,
        8: turn.ROTATE_90,
    }
    return image.transpose(turns[orientation]) if orientation in turns else image


def _flatten(image: Image.Image, name: str) -> Image.Image:
    """8-bit RGB of any mode; transparent parts become white."""
    from PIL import Image

    if image.mode in DEPTH_16 or image.mode == "I":
        values = np.asarray(image)
        if int(values.min()) >= 0 and int(values.max()) <= 0xFFFF:  # `I` holds 16 bits in PGM
            return Image.fromarray((values >> 8).astype(np.uint8)).convert("RGB")
    elif image.has_transparency_data:
        layer = image.convert("RGBA")
        white = Image.new("RGBA", layer.size, (255, 255, 255, 255))
        return Image.alpha_composite(white, layer).convert("RGB")
    elif image.mode not in ("F", "LAB"):
        return image.convert("RGB")
    raise UnreadablePicture(
        f"{name} has pixels of mode {image.mode} with no agreed scale; "
        "save it as 8-bit or 16-bit grey or as RGB.",
        "unsupported pixels",
    )
