"""What a file is, told from how it begins. Decodes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from enginehouse.errors import UnreadablePicture

PICTURES = {  # formats that Pillow opens
    b"\xff\xd8\xff": "JPEG",
    b"\x89PNG": "PNG",
    b"GIF8": "GIF",
    b"II*\0": "TIFF",
    b"MM\0*": "TIFF",
    b"\0\0\0\x0cjP  ": "JPEG2000",
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
FOREIGN = {  # pictures, but of formats that are not decoded here
    b"\xff\x0a": "JPEG XL",
    b"\0\0\0\x0cJXL ": "JPEG XL",
    b"FUJIFILMCCD-RAW": "camera raw",
    b"IIRO": "camera raw",
    b"IIRS": "camera raw",
    b"MMOR": "camera raw",
    b"IIU\0": "camera raw",
}
BRANDS = {  # of the ISO base media file format (ISO/IEC 14496-12), the box `ftyp`
    **dict.fromkeys((b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1"), "HEIC"),
    **dict.fromkeys((b"msf1", b"heif"), "HEIC"),
    **dict.fromkeys((b"avif", b"avis"), "AVIF"),
    b"crx ": "camera raw",
    **dict.fromkeys((b"isom", b"mp41", b"mp42", b"qt  "), "video"),
}
DNG_VERSION, SUBFILE_TYPE, SUB_IFDS = 50706, 254, 330  # TIFF tags
HEAD = 512  # bytes that suffice for all of this


def name_format(head: bytes, size: int) -> str:
    """The picture format of a file by its first bytes, or "" if it looks like none.

    Args:
        head: at least the first 32 bytes, where there are so many.
        size: bytes of the whole file.
    """
    foreign = _name_foreign(head)
    if foreign or head[4:8] == b"ftyp":
        return "AVIF" if foreign == "AVIF" else "" if foreign == "video" else foreign
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "WEBP"
    if head[:2] == b"BM" and int.from_bytes(head[2:6], "little") == size:
        return "BMP"
    return next((name for sign, name in PICTURES.items() if head.startswith(sign)), "")


def refuse_foreign(content: bytes, name: str) -> UnreadablePicture | None:
    """Why a picture of a format that is not decoded here is refused, or None if it is no such."""
    kind = _name_foreign(content)
    if content[8:11] == b"CR\2" and content.startswith(b"II*\0"):
        kind = "camera raw"
    if kind in ("", "AVIF"):
        return None
    return UnreadablePicture(
        f"{name} is a {kind} file, which is not decoded here; convert it to JPEG or PNG.",
        "unsupported format",
    )


def refuse_raw(tags: Mapping[int, Any], name: str) -> UnreadablePicture | None:
    """Why a TIFF with these tags is refused, or None: if it is a digital negative.

    Its first picture is a thumbnail of what follows.
    """
    preview = tags.get(SUBFILE_TYPE, 0) == 1 and SUB_IFDS in tags
    if DNG_VERSION not in tags and not preview:
        return None
    return UnreadablePicture(
        f"{name} is a camera raw file, of which only a preview can be decoded here; convert it "
        "to JPEG or PNG.",
        "unsupported format",
    )


def explain_unknown(content: bytes, name: str) -> UnreadablePicture:
    """Why no decoder knows a content, from how it begins."""
    if foreign := refuse_foreign(content, name):
        return foreign
    if kind := name_format(content[:HEAD], len(content)):
        layout = " or whose layout of pixels is unusual" if kind == "TIFF" else ""
        return UnreadablePicture(
            f"{name} is truncated or corrupt: a {kind} file whose header ends early{layout}.",
            "truncated or corrupt",
        )
    head = content[:HEAD].lstrip(b"\xef\xbb\xbf \t\r\n")
    for sign, what in STRANGERS.items():
        if head.lower().startswith(sign):
            return UnreadablePicture(f"{name} is not an image: it looks like {what}.")
    text = all(byte >= 32 or byte in b"\t\r\n" for byte in head)
    what = "text" if text else f"nothing Pillow knows (begins with {content[:8].hex(' ')})"
    return UnreadablePicture(f"{name} is not an image: it looks like {what}.")


def _name_foreign(head: bytes) -> str:
    """The format of a file that says so, but not in a way of Pillow's; AVIF is among them."""
    if head[4:8] == b"ftyp":
        length = int.from_bytes(head[:4], "big")
        brands = [head[8:12], *(head[at : at + 4] for at in range(16, min(length, HEAD), 4))]
        kinds = [BRANDS[brand] for brand in brands if brand in BRANDS]
        return "AVIF" if "AVIF" in kinds else kinds[0] if kinds else ""
    return next((kind for sign, kind in FOREIGN.items() if head.startswith(sign)), "")
