"""Reading pictures: every kind of file becomes right pixels or a reason."""

from __future__ import annotations

import io
import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, TiffImagePlugin

from enginehouse.errors import DataError, UnreadablePicture
from enginehouse.picture import decode_picture, read_size, resize_picture

RAMP = np.tile(np.linspace(0, 65535, 256).astype(np.uint16), (8, 1))


def encode(image: Image.Image, kind: str, **options: object) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def decode(content: bytes) -> np.ndarray:
    return decode_picture(io.BytesIO(content), "a.jpg").array


def refuse(content: bytes) -> UnreadablePicture:
    with pytest.raises(UnreadablePicture) as caught:
        decode(content)
    assert "a.jpg" in caught.value.message
    return caught.value


def noise(width: int = 60, height: int = 40) -> Image.Image:
    pixels = np.random.default_rng(0).integers(0, 255, (height, width, 3), np.uint8)
    return Image.fromarray(pixels)


@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF", "PPM"])
def test_lossless_formats_come_back_as_they_are(kind: str) -> None:
    assert np.array_equal(decode(encode(noise(), kind)), np.asarray(noise()))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_applied(orientation: int) -> None:
    stored = Image.new("RGB", (64, 48), "black")
    stored.paste("white", (0, 0, 16, 16))  # the corner that the tag says where to turn
    exif = Image.Exif()
    exif[0x0112] = orientation
    picture = decode_picture(io.BytesIO(encode(stored, "JPEG", exif=exif)), "a.jpg")
    turned = orientation >= 5
    assert (picture.width, picture.height) == ((48, 64) if turned else (64, 48))
    corners = {1: (0, 0), 2: (0, 1), 3: (1, 1), 4: (1, 0), 5: (0, 0), 6: (0, 1), 7: (1, 1)}
    row, column = corners.get(orientation, (1, 0))
    where = picture.array[-8 if row else 8, -8 if column else 8]
    assert where.min() > 200
    assert (picture.array.max(axis=2) > 128).sum() == pytest.approx(256, abs=30)


@pytest.mark.filterwarnings("ignore:Corrupt EXIF")
def test_broken_exif_does_not_lose_a_whole_picture() -> None:
    content = encode(noise(), "JPEG", exif=b"Exif\0\0MM\0*\xff\xff\xff\xff")
    assert decode(content).shape == (40, 60, 3)


def test_cmyk_becomes_rgb_also_inverted_as_adobe_writes_it() -> None:
    red = Image.new("CMYK", (32, 32), (0, 255, 255, 0))
    for kind in ("JPEG", "TIFF"):  # JPEGs in CMYK are written inverted, TIFFs are not
        pixels = decode(encode(red, kind))
        assert pixels[..., 0].min() > 200 and pixels[..., 1:].max() < 60


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "big-endian TIFF", "PPM"])
def test_16_bit_grey_is_scaled_not_clipped(kind: str) -> None:
    image = Image.fromarray(RAMP)
    if kind == "big-endian TIFF":
        raw = RAMP.astype(">u2").tobytes()
        image = Image.frombytes("I;16B", (256, 8), raw)
        assert TiffImagePlugin.SAVE_INFO["I;16B"][1] == b"MM"
    pixels = decode(encode(image, kind.removeprefix("big-endian ")))
    assert len(np.unique(pixels)) == 256
    assert np.array_equal(pixels[0, :, 0], pixels[0, :, 2])
    assert pixels[0, 0, 0] == 0 and pixels[0, -1, 0] == 255
    assert (np.diff(pixels[0, :, 0].astype(int)) >= 0).all()


def test_transparent_pixels_become_white_and_leak_no_colour() -> None:
    rgba = Image.new("RGBA", (8, 8), (0, 255, 0, 0))
    rgba.putpixel((3, 3), (255, 0, 0, 255))
    palette = Image.new("P", (8, 8), 0)
    palette.putpalette([0, 255, 0, 255, 0, 0])
    palette.putpixel((3, 3), 1)
    contents = [
        encode(rgba, "PNG"),
        encode(palette, "PNG", transparency=0),
        encode(palette, "PNG", transparency=b"\0\xff"),
        encode(Image.new("LA", (8, 8), (10, 0)), "PNG"),
    ]
    for content in contents:
        pixels = decode(content)
        assert tuple(pixels[0, 0]) == (255, 255, 255)
        assert tuple(pixels[3, 3]) in ((255, 0, 0), (255, 255, 255))


def test_several_frames_give_the_first() -> None:
    frames = [Image.new("RGB", (8, 8), name) for name in ("red", "blue")]
    for kind in ("GIF", "TIFF", "MPO", "PNG"):
        content = encode(frames[0], kind, save_all=True, append_images=frames[1:])
        assert decode(content)[4, 4, 0] > 240
        assert decode(content)[4, 4, 2] < 15


def test_other_modes_become_rgb() -> None:
    for mode in ("1", "L", "P"):
        assert decode(encode(noise().convert(mode), "PNG")).shape == (40, 60, 3)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "BMP", "TIFF", "GIF"])
def test_truncated_files_are_told_as_such(kind: str) -> None:
    content = encode(noise().convert("P") if kind == "GIF" else noise(), kind)
    assert refuse(content[: len(content) // 2]).reason == "truncated or corrupt"


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF"])
def test_a_header_alone_is_truncated_too(kind: str) -> None:
    assert refuse(encode(noise(), kind)[:9]).reason == "truncated or corrupt"


def test_every_cut_and_every_flipped_byte_ends_in_pixels_or_a_reason() -> None:
    rng = np.random.default_rng(1)
    for kind in ("JPEG", "PNG", "TIFF", "GIF", "WEBP"):
        content = encode(noise(20, 10), kind)
        for _ in range(40):
            broken = bytearray(content)
            broken[rng.integers(len(broken))] = rng.integers(256)
            broken = broken[: rng.integers(1, len(broken))] if rng.random() < 0.5 else broken
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    assert decode(bytes(broken)).shape[2] == 3
                except UnreadablePicture as error:
                    assert error.reason


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"\n <!DOCTYPE HTML><html><body>404", "HTML page"),
        (b"<html>moved</html>", "HTML page"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00", "git lfs pull"),
        ("Zettel: nicht löschen\n".encode(), "text"),
        (b"%PDF-1.7\n", "PDF"),
        (bytes(300), "nothing Pillow knows"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n", "drawing"),
    ],
)
def test_what_is_no_picture_is_told_by_its_look(content: bytes, what: str) -> None:
    error = refuse(content)
    assert error.reason == "not an image"
    assert what in error.message


def test_empty_files_are_told_apart() -> None:
    assert refuse(b"").reason == "empty file"


def test_large_pictures_are_kept_and_bombs_refused_also_when_warnings_are_errors() -> None:
    large = encode(Image.new("1", (9600, 9600)), "PNG")  # above Pillow's warning line
    bomb = encode(Image.new("1", (20000, 10000)), "PNG")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        picture = decode_picture(io.BytesIO(large), "wide.png")
        assert (picture.width, picture.height) == (9600, 9600)
        assert picture.array.shape == (4800, 4800, 3)
        assert refuse(bomb).reason == "too large"


def test_numbers_without_a_scale_are_refused() -> None:
    for pixels in (np.full((4, 4), 0.5, np.float32), np.full((4, 4), 70000, np.int32)):
        assert refuse(encode(Image.fromarray(pixels), "TIFF")).reason == "unsupported pixels"


def test_resizing_squashes_to_a_square_and_averages() -> None:
    stripes = np.zeros((40, 80, 3), np.uint8)
    stripes[:, ::2] = 255
    small = resize_picture(stripes, 10)
    assert small.shape == (3, 10, 10) and small.dtype == np.uint8
    assert small.flags.c_contiguous and small.flags.writeable
    assert abs(int(small.mean()) - 127) < 3 and small.std() < 10


def test_paths_and_streams_agree(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(encode(noise(), "PNG"))
    assert np.array_equal(decode_picture(path).array, np.asarray(noise()))
    assert decode_picture(path).mode == "RGB"
    with pytest.raises(FileNotFoundError):
        decode_picture(tmp_path / "none.png")


def test_the_error_is_a_data_error_and_survives_pickling() -> None:
    error = pickle.loads(pickle.dumps(refuse(b"")))
    assert isinstance(error, DataError)
    assert (error.reason, str(error)) == ("empty file", "a.jpg is empty (0 bytes).")


def note(content: bytes) -> tuple[str, ...]:
    return decode_picture(io.BytesIO(content), "a.jpg").handling


def test_what_was_done_is_noted_and_nothing_of_plain_pictures() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    for kind in ("JPEG", "TIFF", "PNG", "WEBP"):
        turned = decode_picture(io.BytesIO(encode(noise(), kind, exif=exif)), "a")
        assert turned.handling == ("EXIF orientation 6 applied",)
        assert (turned.width, turned.height, turned.orientation) == (40, 60, 6)
    frames = [noise(), noise().rotate(180)]
    assert note(encode(frames[0], "GIF", save_all=True, append_images=frames[1:])) == (
        "first of 2 frames",
    )
    assert note(encode(frames[0], "MPO", save_all=True, append_images=frames[1:])) == ()
    assert note(encode(noise().convert("CMYK"), "JPEG")) == ("CMYK converted",)
    assert note(encode(Image.new("RGBA", (8, 8), (1, 2, 3, 128)), "PNG")) == (
        "transparency laid on white",
    )
    assert note(encode(Image.new("RGBA", (8, 8), (1, 2, 3, 255)), "PNG")) == ()
    assert note(encode(Image.fromarray(RAMP), "PNG")) == ("16 bits scaled to 8",)
    assert note(encode(Image.fromarray(RAMP >> 6), "PNG")) == (
        "16 bits scaled to 8",
        "only 10 of 16 bits used",
    )
    assert note(encode(Image.new("1", (9600, 9600)), "PNG")) == ("halved: 92 million pixels",)
    for kind in ("JPEG", "PNG", "BMP", "TIFF"):
        assert note(encode(noise(), kind)) == ()


def test_the_format_is_that_of_the_content() -> None:
    for kind, name in (("JPEG", "JPEG"), ("MPO", "JPEG"), ("PNG", "PNG"), ("BMP", "BMP")):
        assert decode_picture(io.BytesIO(encode(noise(), kind)), "a.gif").format == name


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", "HEIC"),
        (b"\0\0\0\x18ftypmif1\0\0\0\0mif1heic", "HEIC"),
        (b"\xff\x0a\xfa\x1f", "JPEG XL"),
        (b"\0\0\0\x0cJXL \r\n\x87\n", "JPEG XL"),
        (b"II*\0\x10\0\0\0CR\2\0", "camera raw"),
        (b"FUJIFILMCCD-RAW 0201", "camera raw"),
        (b"\0\0\0\x18ftypcrx \0\0\0\1crx isom", "camera raw"),
    ],
)
def test_formats_that_are_not_decoded_are_refused_with_the_remedy(
    content: bytes, what: str
) -> None:
    error = refuse(content + bytes(60))
    assert error.reason == "unsupported format"
    assert what in error.message and "JPEG or PNG" in error.message


def test_a_digital_negative_is_not_taken_for_its_preview() -> None:
    for tag, value in ((50706, b"\1\4\0\0"), (254, 1)):
        tags = TiffImagePlugin.ImageFileDirectory_v2()
        tags[tag] = value
        tags[330] = 8
        assert refuse(encode(noise(), "TIFF", tiffinfo=tags)).reason == "unsupported format"


def test_avif_is_decoded() -> None:
    assert decode(encode(noise(), "AVIF")).shape == (40, 60, 3)


@pytest.mark.parametrize("kind", ["JPEG", "TIFF", "PNG"])
@pytest.mark.parametrize("orientation", [1, 3, 6])
def test_the_size_by_the_header_is_that_of_the_decoded_picture(
    tmp_path: Path, kind: str, orientation: int
) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = tmp_path / "a"
    path.write_bytes(encode(noise(), kind, exif=exif))
    picture = decode_picture(path)
    assert read_size(path) == (picture.width, picture.height)
    path.write_bytes(b"nothing")
    assert read_size(path) is None


def test_a_jpeg_whose_rest_was_filled_up_is_corrupt() -> None:
    content = encode(noise(200, 150), "JPEG", quality=95)
    half = len(content) // 2
    for broken in (content[:half] + bytes(len(content) - half), content[:-2]):
        assert refuse(broken).reason == "truncated or corrupt"
    for progressive in (False, True):
        thumbnail = encode(noise(8, 8), "JPEG")  # has an end marker of its own
        exif = Image.Exif()
        exif[0x010E] = thumbnail.hex()
        whole = encode(noise(), "JPEG", progressive=progressive, exif=exif)
        assert decode(whole).shape == decode(whole + b"appended").shape == (40, 60, 3)


def test_a_png_with_a_wrong_checksum_is_corrupt() -> None:
    content = bytearray(encode(noise(), "PNG"))
    content[len(content) // 2] ^= 0x10
    error = refuse(bytes(content))
    assert error.reason == "truncated or corrupt"
    palette = bytearray(encode(noise().convert("P"), "PNG"))
    palette[palette.index(b"PLTE") + 9] ^= 0xFF
    assert refuse(bytes(palette)).reason == "truncated or corrupt"
