"""Twins of what pictures and folders do: decoding, modes, discovery, classes."""

from __future__ import annotations

import io
import os
import struct
import unicodedata
import zlib
from pathlib import Path

import numpy as np
from PIL import Image

from tests.twins._draw import Twin, class_folders, draw, save, write


def _jpeg(seed: str, **options: object) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(draw(seed)).save(stream, "JPEG", **options)
    return stream.getvalue()


def build_cut_png(folder: Path) -> None:
    class_folders(folder)
    path = save(folder / "val/gear/cut.png", draw("cut", 300, 200))
    path.write_bytes(path.read_bytes()[:-9000])


def build_cut_jpeg(folder: Path) -> None:
    class_folders(folder)
    path = save(folder / "train/screw/half.jpeg", draw("half", 400, 300), quality=95)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 3])


def build_empty_file(folder: Path) -> None:
    class_folders(folder)
    write(folder / "train/gear/nothing.png", b"")


def build_zip_as_jpeg(folder: Path) -> None:
    class_folders(folder)
    write(folder / "train/gear/parcel.jpg", b"PK\3\4" + bytes(200))


def build_json_as_png(folder: Path) -> None:
    class_folders(folder)
    write(folder / "val/screw/denied.png", '{"error": "access denied"}')


def build_png_named_jpeg(folder: Path) -> None:
    class_folders(folder)
    save(folder / "train/gear/really_png.jpg", format="PNG")


def build_webp_named_png(folder: Path) -> None:
    class_folders(folder)
    save(folder / "train/gear/really_webp.png", format="WEBP")


def build_animated_gif(folder: Path) -> None:
    class_folders(folder)
    first, *rest = (Image.fromarray(draw(f"frame {i}")) for i in range(4))
    first.save(folder / "train/gear/wheel.gif", save_all=True, append_images=rest)


def build_scan_of_several_pages(folder: Path) -> None:
    class_folders(folder)
    first, *rest = (Image.fromarray(draw(f"page {i}")) for i in range(3))
    first.save(folder / "train/screw/pages.tif", save_all=True, append_images=rest)


def build_bomb(folder: Path) -> None:
    """30000 x 30000 pixels in a header, and nearly no bytes."""
    class_folders(folder)
    header = struct.pack(">IIBBBBB", 30000, 30000, 1, 0, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(bytes(100))), (b"IEND", b""))
    body = b"".join(
        struct.pack(">I", len(data)) + tag + data + struct.pack(">I", zlib.crc32(tag + data))
        for tag, data in chunks
    )
    write(folder / "train/screw/bomb.png", b"\x89PNG\r\n\x1a\n" + body)


def build_wide_scan(folder: Path) -> None:
    class_folders(folder)
    Image.new("L", (11000, 9000), 90).save(folder / "val/gear/scan_wide.png")


def build_mpo(folder: Path) -> None:
    class_folders(folder)
    second = Image.fromarray(draw("right eye"))
    first = Image.fromarray(draw("left eye"))
    first.save(folder / "train/gear/drone.jpg", "MPO", save_all=True, append_images=[second])


def build_broken_exif(folder: Path) -> None:
    class_folders(folder)
    exif = b"Exif\0\0II*\0\x08\0\0\0\xff\xff" + b"\x12\x01\x03" * 5
    write(folder / "train/gear/exif.jpg", _jpeg("broken exif", exif=exif))


def build_cmyk(folder: Path) -> None:
    class_folders(folder)
    Image.fromarray(draw("print")).convert("CMYK").save(folder / "train/gear/print.jpg")


def build_grey_of_16_bits(folder: Path) -> None:
    class_folders(folder)
    ramp = np.tile(np.linspace(0, 65535, 256).astype(np.uint16), (64, 1))
    save(folder / "val/screw/ramp.png", ramp)


def build_grey_tiff_big_endian(folder: Path) -> None:
    class_folders(folder)
    ramp = np.tile(np.linspace(0, 65535, 256), (64, 1)).astype(">u2")
    image = Image.frombytes("I;16B", (256, 64), ramp.tobytes())
    image.save(folder / "train/screw/ramp_be.tif")


def build_float_tiff(folder: Path) -> None:
    class_folders(folder)
    save(
        folder / "train/screw/heat.tif",
        np.linspace(-3, 900, 4800, dtype=np.float32).reshape(60, 80),
    )


def build_one_bit(folder: Path) -> None:
    class_folders(folder)
    Image.fromarray(draw("bits")).convert("1").save(folder / "train/gear/bits.png")


def build_grey_with_alpha(folder: Path) -> None:
    class_folders(folder)
    Image.fromarray(draw("veil")).convert("LA").save(folder / "train/gear/veil.png")


def build_palette_with_transparency(folder: Path) -> None:
    class_folders(folder)
    image = Image.fromarray(draw("icon")).quantize(16)
    image.save(folder / "train/screw/icon.png", transparency=bytes([0, 128, 255]))


def build_turned_by_exif(folder: Path) -> None:
    class_folders(folder)
    tags = Image.Exif()
    tags[0x0112] = 8
    Image.fromarray(draw("phone")).save(folder / "val/gear/phone.jpg", exif=tags)


def build_junk_folders(folder: Path) -> None:
    class_folders(folder)
    save(folder / "train/.thumbnails/small.jpg")
    write(folder / "__MACOSX/train/gear/._train_gear_0.jpg", b"\0\5\x16\7" + bytes(90))
    save(folder / "val/@eaDir/SYNOPHOTO_THUMB_M.jpg")


def build_junk_files(folder: Path) -> None:
    class_folders(folder)
    for path in ("train/gear/Thumbs.db", "train/.DS_Store", "val/screw/._val_screw_0.jpg"):
        write(folder / path, b"\0\1")


def build_upper_case_suffixes(folder: Path) -> None:
    class_folders(folder)
    save(folder / "train/gear/IMG_1.JPEG")
    save(folder / "train/screw/IMG_2.PnG")
    save(folder / "val/screw/IMG_3.TIF")


def build_link_loop(folder: Path) -> None:
    class_folders(folder)
    (folder / "val/screw/round").symlink_to("../..", target_is_directory=True)


def build_broken_link(folder: Path) -> None:
    class_folders(folder)
    (folder / "train/gear/gone.jpg").symlink_to("/nowhere/gone.jpg")


def build_names_of_the_world(folder: Path) -> None:
    class_folders(folder, ("齿轮", "螺 丝"))
    decomposed = unicodedata.normalize("NFD", "Prüfstück été.jpg")
    save(folder / "train" / "齿轮" / decomposed)
    save(folder / "val" / "螺 丝" / "#1 50%, [x] 'q'.jpg")


def build_name_that_is_no_utf8(folder: Path) -> None:
    class_folders(folder)
    name = os.fsdecode("测量.jpg".encode("gb18030"))
    write(folder / "train/gear" / name, _jpeg("gbk name"))


def build_list_of_pictures(folder: Path) -> None:
    names = ["a b (2).jpg", "ünï.jpg", "x,y;z.jpg", "plain.jpg", "90%.jpg"]
    for name in names:
        save(folder / "shots" / name)
    write(folder / "train.txt", "\r\n".join(f"shots/{name}" for name in names))


def build_list_that_leads_outside(folder: Path) -> None:
    for name in ("one.jpg", "two.jpg"):
        save(folder / "shots" / name)
    write(folder / "all.txt", "shots/one.jpg\n../../etc/passwd.jpg\nshots/two.jpg\n")


def build_copies_in_train_and_val(folder: Path) -> None:
    class_folders(folder)
    content = _jpeg("leaked")
    write(folder / "train/screw/spill.jpg", content)
    write(folder / "val/screw/other_name.jpg", content)


def build_same_pixels_in_train_and_test(folder: Path) -> None:
    class_folders(folder)
    pixels = draw("same pixels")
    save(folder / "train/screw/as_png.png", pixels)
    save(folder / "test/screw/as_bmp.bmp", pixels)
    save(folder / "test/gear/t.jpg")


def build_nearly_the_same_in_train_and_val(folder: Path) -> None:
    class_folders(folder)
    pixels = draw("nearly")
    save(folder / "train/gear/sharp.jpg", pixels, quality=95)
    save(folder / "val/gear/again.jpg", pixels, quality=60)


def build_one_picture_under_two_labels(folder: Path) -> None:
    class_folders(folder)
    content = _jpeg("both")
    write(folder / "train/gear/both_1.jpg", content)
    write(folder / "train/screw/both_2.jpg", content)


def build_class_of_one_picture(folder: Path) -> None:
    for label, count in (("gear", 5), ("screw", 5), ("washer", 1)):
        for number in range(count):
            save(folder / "pool" / label / f"{label}_{number}.jpg")


def build_empty_class(folder: Path) -> None:
    class_folders(folder)
    (folder / "val/spring").mkdir()


def build_class_missing_in_train(folder: Path) -> None:
    class_folders(folder)
    for number in range(3):
        save(folder / "val/spring" / f"s{number}.jpg")


def build_class_missing_in_val(folder: Path) -> None:
    class_folders(folder)
    for number in range(3):
        save(folder / "train/spring" / f"s{number}.jpg")


def build_classes_that_differ_in_case(folder: Path) -> None:
    class_folders(folder)
    for number in range(3):
        save(folder / "train/Gear" / f"g{number}.jpg")


def build_order_of_classes_differs(folder: Path) -> None:
    class_folders(folder, ("3", "12", "21"), 3, 2)
    write(folder / "deploy/classes.txt", "3\n12\n21\n")


def build_ids_from_one(folder: Path) -> None:
    for number in range(6):
        save(folder / "shots" / f"p{number}.jpg")
    write(folder / "classes.txt", "iron\ncopper\n")
    rows = [f"p{number}.jpg,{number % 2 + 1}" for number in range(6)]
    write(folder / "labels.csv", "\n".join(["filename,class", *rows]))


def build_class_listed_twice(folder: Path) -> None:
    for number in range(6):
        save(folder / "shots" / f"p{number}.jpg")
    write(folder / "classes.txt", "iron\ncopper\niron\n")
    rows = [f"p{number}.jpg,{number % 3}" for number in range(6)]
    write(folder / "labels.csv", "\n".join(["filename,class", *rows]))


DECODE = [
    Twin("decode", build_cut_png, "quarantine", (r"cut\.png", "truncated|corrupt"), 12),
    Twin("decode", build_cut_jpeg, "quarantine", (r"half\.jpeg", "truncated|corrupt"), 12),
    Twin("decode", build_empty_file, "quarantine", (r"nothing\.png", "empty|0 byte"), 12),
    Twin("decode", build_zip_as_jpeg, "quarantine", (r"parcel\.jpg", "not an image", "zip"), 12),
    Twin("decode", build_json_as_png, "quarantine", (r"denied\.png", "not an image"), 12),
    Twin("decode", build_png_named_jpeg, "warn", (r"really_png\.jpg", "png"), 13),
    Twin("decode", build_webp_named_png, "warn", (r"really_webp\.png", "webp"), 13),
    Twin("decode", build_animated_gif, "warn", (r"wheel\.gif", "frame|animat"), 13),
    Twin("decode", build_scan_of_several_pages, "warn", (r"pages\.tif", "page|frame"), 13),
    Twin("decode", build_bomb, "quarantine", (r"bomb\.png", "too large"), 12),
    Twin("decode", build_wide_scan, "warn", (r"scan_wide\.png", "11000"), 13),
    Twin("decode", build_mpo, "accept", images=13, labels=("gear", "screw"), never=("corrupt",)),
    Twin("decode", build_broken_exif, "accept", images=13),
]
MODE = [
    Twin("mode", build_cmyk, "accept", images=13),
    Twin("mode", build_grey_of_16_bits, "accept", images=13),
    Twin("mode", build_grey_tiff_big_endian, "accept", images=13),
    Twin("mode", build_float_tiff, "quarantine", (r"heat\.tif", "float|mode F|scale"), 12),
    Twin("mode", build_one_bit, "accept", images=13),
    Twin("mode", build_grey_with_alpha, "accept", images=13),
    Twin("mode", build_palette_with_transparency, "accept", images=13),
    Twin("mode", build_turned_by_exif, "accept", images=13),
]
DISCOVERY = [
    Twin("discovery", build_junk_folders, "accept", (r"\.thumbnails", "__MACOSX", "@eaDir"), 12),
    Twin("discovery", build_junk_files, "accept", images=12, never=("corrupt", "not an image")),
    Twin("discovery", build_upper_case_suffixes, "accept", images=15),
    Twin("discovery", build_link_loop, "warn", ("loop|link", "val/screw/round"), 12),
    Twin("discovery", build_broken_link, "quarantine", (r"gone\.jpg", "link|missing"), 12),
    Twin("discovery", build_names_of_the_world, "accept", images=14, labels=("螺 丝", "齿轮")),
    Twin("discovery", build_name_that_is_no_utf8, "quarantine", ("utf-8|name|encod",), 12),
    Twin("discovery", build_list_of_pictures, "accept", images=5),
    Twin("discovery", build_list_that_leads_outside, "reject", ("outside", "passwd", "all.txt")),
]
CLASSES = [
    Twin(
        *("classes", build_copies_in_train_and_val, "reject"),
        (r"spill\.jpg", r"other_name\.jpg", "leak|duplicate"),
    ),
    Twin(
        *("classes", build_same_pixels_in_train_and_test, "reject"),
        (r"as_png\.png", r"as_bmp\.bmp", "leak|duplicate"),
    ),
    Twin(
        *("classes", build_nearly_the_same_in_train_and_val, "warn"),
        (r"sharp\.jpg", r"again\.jpg", "near|leak"),
    ),
    Twin(
        *("classes", build_one_picture_under_two_labels, "quarantine"),
        ("both_1", "both_2", "gear", "screw"),
        12,
    ),
    Twin("classes", build_class_of_one_picture, "reject", ("washer", "1")),
    Twin("classes", build_empty_class, "reject", ("spring", "empty|no image|no picture|0")),
    Twin("classes", build_class_missing_in_train, "reject", ("spring", "train")),
    Twin("classes", build_class_missing_in_val, "reject", ("spring", "val")),
    Twin("classes", build_classes_that_differ_in_case, "reject", ("Gear", "gear", "case")),
    Twin("classes", build_order_of_classes_differs, "reject", (r"classes\.txt", "order|mismatch")),
    Twin("classes", build_ids_from_one, "reject", (r"labels\.csv", "2", r"0\.\.1|0-1|range|start")),
    Twin("classes", build_class_listed_twice, "reject", ("iron", "duplicate", "1 and 3")),
]
TWINS = [*DECODE, *MODE, *DISCOVERY, *CLASSES]
