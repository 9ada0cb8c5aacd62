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
from enginehouse.integrity import find_damage
from enginehouse.signs import explain_unknown, refuse_foreign, refuse_raw

if TYPE_CHECKING:
    from PIL import Image

MAX_PIXELS = 178_956_970  # 0.5 GiB in RGB: where Pillow, too, speaks of a decompression bomb
MAX_BYTES = 2**30
REDUCE_ABOVE = 50_000_000  # pixels; a larger picture is halved before it becomes an array
ORIENTATION = 0x0112  # the EXIF tag
DRAWINGS = ("EPS", "WMF")  # programs and vectors: decoding them would start an interpreter
DEPTH_16 = ("I;16", "I;16L", "I;16B", "I;16N")
NAMES = {"MPO": "JPEG", "DIB": "BMP"}  # what is the same to everyone but Pillow
FULL_16 = 1 << 12  # a 16-bit picture that stays below was most likely taken with 12 bits


class Picture(NamedTuple):
    """A decoded picture.

    Attributes:
        array: uint8 [height, width, 3], RGB, upright; smaller than the file's picture if that is
            very large.
        width: pixels of the upright picture in the file.
        height: likewise.
        mode: how Pillow names the file's own pixels: `RGB`, `L`, `I;16`, `CMYK`, `P` ...
        format: what the content is, whatever the name says: `JPEG`, `PNG`, ...
        orientation: the EXIF tag that was applied, 1 to 8; 1 is upright.
        handling: what decoding did beyond the obvious, a few words each.
    """

    array: NDArray[np.uint8]
    width: int
    height: int
    mode: str
    format: str = ""
    orientation: int = 1
    handling: tuple[str, ...] = ()


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
            corrupt`, `too large`, `unsupported format` or `unsupported pixels`.
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
    mode, layout = image.mode, str([tile[-1] for tile in getattr(image, "tile", ())])
    orientation = _find_orientation(image)
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
    width, height = upright.size
    kind = NAMES.get(image.format or "", image.format or "")
    if damage := find_damage(content, kind):
        raise UnreadablePicture(f"{name} is corrupt: {damage}.", "truncated or corrupt")
    flat, handling = _flatten(upright, name)
    if ";16" in layout and not handling:  # colour, of which Pillow keeps the upper 8 bits
        handling = ["16 bits scaled to 8"]
    if orientation != 1:
        handling.insert(0, f"EXIF orientation {orientation} applied")
    if width * height > REDUCE_ABOVE:
        flat = flat.reduce(2)
        handling.append(f"halved: {width * height / 1e6:.0f} million pixels")
    array = _copy_pixels(flat)
    handling += _count_frames(image)  # last: it may move on to another frame
    return Picture(array, width, height, mode, kind, orientation, tuple(handling))


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

    if refused := refuse_foreign(content, name):
        raise refused

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
        raise explain_unknown(content, name) from error
    if image.width * image.height > MAX_PIXELS:
        raise UnreadablePicture(
            f"{name} is too large: {image.width} x {image.height} px are more than the "
            f"{MAX_PIXELS / 1e6:.0f} million that are allowed.",
            "too large",
        )
    if image.format in DRAWINGS:
        raise UnreadablePicture(f"{name} is not an image but a drawing ({image.format}).")
    if refused := refuse_raw(getattr(image, "tag_v2", {}), name):
        raise refused
    return image


def _find_orientation(image: Image.Image) -> int:
    """The EXIF orientation, or 1 if there is none that can be read."""
    try:
        orientation = image.getexif().get(ORIENTATION)
    except MemoryError:
        raise
    except Exception:
        return 1  # broken EXIF says nothing about the pixels, which may be whole
    return orientation if isinstance(orientation, int) and 1 <= orientation <= 8 else 1


def _turn_upright(image: Image.Image) -> Image.Image:
    """Apply the EXIF orientation; of TIFFs, Pillow has done it while loading."""
    from PIL import Image

    turn = Image.Transpose
    turns = {
        2: turn.FLIP_LEFT_RIGHT,
        3: turn.ROTATE_180,
        4: turn.FLIP_TOP_BOTTOM,
        5: turn.TRANSPOSE,
        6: turn.ROTATE_270,
        7: turn.TRANSVERSE,
        8: turn.ROTATE_90,
    }
    orientation = _find_orientation(image)
    return image.transpose(turns[orientation]) if orientation in turns else image


def _count_frames(image: Image.Image) -> list[str]:
    """A note if there are further frames. In an MPO these are depths and thumbnails."""
    if image.format == "MPO":
        return []
    try:
        count = getattr(image, "n_frames", 1)
    except MemoryError:
        raise
    except Exception:  # the first frame is whole, and nothing else is wanted
        return ["first of several frames"]
    return [f"first of {count} frames"] if count > 1 else []


def _flatten(image: Image.Image, name: str) -> tuple[Image.Image, list[str]]:
    """8-bit RGB of any mode, and notes of what that took; transparent parts become white."""
    from PIL import Image

    if image.mode in DEPTH_16 or image.mode == "I":
        values = np.asarray(image)
        top = int(values.max())
        if int(values.min()) >= 0 and top <= 0xFFFF:  # `I` holds 16 bits in PGM
            dark = [f"only {top.bit_length()} of 16 bits used"] if 0 < top < FULL_16 else []
            grey = Image.fromarray((values >> 8).astype(np.uint8))
            return grey.convert("RGB"), ["16 bits scaled to 8", *dark]
    elif image.has_transparency_data:
        layer = image.convert("RGBA")
        if layer.getchannel("A").getextrema()[0] == 255:
            return layer.convert("RGB"), []
        white = Image.new("RGBA", layer.size, (255, 255, 255, 255))
        flat = Image.alpha_composite(white, layer).convert("RGB")
        return flat, ["transparency laid on white"]
    elif image.mode not in ("F", "LAB"):
        flat = image if image.mode == "RGB" else image.convert("RGB")
        return flat, ["CMYK converted"] if image.mode == "CMYK" else []
    raise UnreadablePicture(
        f"{name} has pixels of mode {image.mode} with no agreed scale; "
        "save it as 8-bit or 16-bit grey or as RGB.",
        "unsupported pixels",
    )


def _copy_pixels(image: Image.Image) -> NDArray[np.uint8]:
    """uint8 [height, width, 3] of an RGB picture.

    Pillow keeps four bytes a pixel. Where they lie in one piece, OpenCV picks three of them in
    half the time that Pillow needs.
    """
    import cv2
    import pyarrow as pa

    try:
        quads = pa.array(image).flatten().to_numpy().reshape(image.height, image.width, 4)
    except ValueError:  # in several pieces, as of a very large picture
        return np.asarray(image, np.uint8)
    return np.asarray(cv2.cvtColor(quads, cv2.COLOR_RGBA2RGB), np.uint8)


def read_size(path: Path) -> tuple[int, int] | None:
    """Width and height of the upright picture by the file's header; None if it cannot be told."""
    try:
        image = _open_image(path.read_bytes(), path.name)
    except (UnreadablePicture, OSError):
        return None
    turned = _find_orientation(image) >= 5 and image.format != "TIFF"  # Pillow turned these
    return (image.height, image.width) if turned else image.size
