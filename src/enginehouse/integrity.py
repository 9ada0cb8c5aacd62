"""Damage of picture files that decoders pass over in silence, giving wrong pixels."""

from __future__ import annotations

import zlib

PNG_HEAD = 8  # bytes before the first chunk
NEEDED = (b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"fdAT")  # chunks that say what the pixels are
START_OF_SCAN, END_OF_IMAGE = 0xDA, b"\xff\xd9"


def find_damage(content: bytes, kind: str) -> str:
    """What is wrong with a file that can be decoded, or "".

    Args:
        kind: its format, by its content.
    """
    if kind == "PNG":
        return _check_png(content)
    return _check_jpeg(content) if kind == "JPEG" else ""


def _check_png(content: bytes) -> str:
    """Compare the checksums of the chunks, of which Pillow skips those of the pixels."""
    view = memoryview(content)
    place = PNG_HEAD
    while place + 12 <= len(content):
        length = int.from_bytes(view[place : place + 4], "big")
        end = place + 8 + length
        name = bytes(view[place + 4 : place + 8])
        if name in NEEDED and end + 4 <= len(content):
            checksum = int.from_bytes(view[end : end + 4], "big")
            if zlib.crc32(view[place + 4 : end]) != checksum:
                return f"the checksum of the chunk {name.decode()} at byte {place} is wrong"
        place = end + 4
    return ""


def _check_jpeg(content: bytes) -> str:
    """Whether the end marker is there; what was cut and filled up with zeros has none."""
    place = 2
    while place + 4 <= len(content) and content[place] == 0xFF:
        marker = content[place + 1]
        if marker == START_OF_SCAN:
            ended = content.rfind(END_OF_IMAGE) > place
            return "" if ended else "it has no end marker, so its data stop early"
        # Fill bytes and markers without a length (TEM, RSTn, SOI) are stepped over.
        alone = marker in (0x01, 0xFF) or 0xD0 <= marker <= 0xD8
        step = 1 if marker == 0xFF else 2
        place += step if alone else 2 + int.from_bytes(content[place + 2 : place + 4], "big")
    return ""
