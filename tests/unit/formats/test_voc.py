"""Pascal VOC: objects by number, broken XML with its picture, names that differ from the file's."""

from __future__ import annotations

from pathlib import Path

import pytest

from enginehouse.formats import voc
from enginehouse.labels import LabelOptions, Reading
from tests.unit.formats.lay_out import lay_out, quarantine, read_found, reasons


def make_object(name: str = "bolt", box: str = "4 4 24 20", more: str = "") -> str:
    corners = zip(("xmin", "ymin", "xmax", "ymax"), box.split(), strict=True)
    bounds = "".join(f"<{key}>{text}</{key}>" for key, text in corners)
    return f"<object><name>{name}</name><bndbox>{bounds}</bndbox>{more}</object>"


def make_xml(filename: str, *objects: str, size: str = "64 48") -> str:
    width, height = size.split()
    return (
        f"<annotation>\n<filename>{filename}</filename>\n"
        f"<size><width>{width}</width><height>{height}</height><depth>3</depth></size>\n"
        + "\n".join(objects)
        + "\n</annotation>\n"
    )


def read_voc(folder: Path, **xmls: str | bytes) -> Reading:
    """XML by stem, each with a picture of that stem."""
    texts = {f"Annotations/{stem}.xml": xml for stem, xml in xmls.items()}
    pictures = tuple(f"JPEGImages/{stem}.jpg" for stem in xmls)
    return read_found(voc, lay_out(folder, texts, pictures))


def test_reads_boxes_as_they_are_written(tmp_path: Path) -> None:
    box = "4.5 4.0 24.70000076 20.2"
    reading = read_voc(tmp_path, a=make_xml("a.jpg", make_object(box=box)), b=make_xml("b.jpg"))
    labelled = reading.pictures["JPEGImages/a.jpg"]
    assert labelled.boxes[0].xywh == pytest.approx((4.5, 4, 20.20000076, 16.2))
    assert (labelled.boxes[0].label, labelled.boxes[0].place) == ("bolt", "object 1")
    assert (labelled.size, labelled.file) == ((64, 48), "Annotations/a.xml")
    assert reading.pictures["JPEGImages/b.jpg"].boxes == ()  # a negative
    assert not reading.left_out
    assert not reading.findings
    assert reading.unlisted == "left out"


@pytest.mark.parametrize("size", ["0 0", "64 0", "wide high", "-64 48"])
def test_a_size_that_is_none_is_told_and_not_claimed(tmp_path: Path, size: str) -> None:
    reading = read_voc(tmp_path, b=make_xml("b.jpg", make_object(), size=size))
    (warning,) = reading.findings
    assert (warning.severity, warning.file) == ("warning", "Annotations/b.xml")
    assert size.split()[1] in warning.detail
    assert reading.pictures["JPEGImages/b.jpg"].size is None


@pytest.mark.parametrize(
    ("broken", "reason", "said"),
    [
        (make_xml("c.jpg", make_object("nut & washer")), "broken XML", "line 4, column"),
        (make_xml("c.jpg", make_object())[:90], "broken XML", "line"),
        (make_xml("c.jpg").replace("</filename>", "</file>"), "broken XML", "mismatched"),
        ("", "empty file", "empty"),
        ("<annotation><object>\x00", "broken XML", "line"),
    ],
)
def test_broken_xml_leaves_its_picture_out(
    tmp_path: Path, broken: str, reason: str, said: str
) -> None:
    reading = read_voc(tmp_path, a=make_xml("a.jpg", make_object()), c=broken)
    assert quarantine(reading) == {
        ("Annotations/c.xml", "", reason),
        ("JPEGImages/c.jpg", "", "label file not usable"),
    }
    assert said in reading.left_out[0].detail
    assert set(reading.pictures) == {"JPEGImages/a.jpg"}


@pytest.mark.parametrize(
    "entity",
    ['<!ENTITY a "xxxx"><!ENTITY b "&a;&a;">', '<!ENTITY a SYSTEM "file:///etc/passwd">'],
)
def test_entities_are_refused(tmp_path: Path, entity: str) -> None:
    xml = f"<!DOCTYPE annotation [{entity}]>\n" + make_xml("c.jpg", make_object("&a;"))
    reading = read_voc(tmp_path, a=make_xml("a.jpg"), c=xml)
    assert ("Annotations/c.xml", "", "unsafe XML") in quarantine(reading)
    assert ("JPEGImages/c.jpg", "", "label file not usable") in quarantine(reading)


@pytest.mark.parametrize(
    ("faulty", "reason"),
    [
        (make_object("nut", "50 6 20 26"), "swapped corners"),
        (make_object("nut", "5 26 20 6"), "swapped corners"),
        (make_object("nut", "nan 6 20 26"), "not a number"),
        (make_object("nut", "5 6 20 inf"), "not a number"),
        (make_object("nut", "5 6 20 1,5"), "not a number"),
        (make_object(" "), "no label"),
        ("<object><name>nut</name></object>", "no box"),
        ("<object><name>nut</name><bndbox><xmin>3</xmin></bndbox></object>", "not a number"),
    ],
)
def test_a_faulty_object_is_left_out_by_number(tmp_path: Path, faulty: str, reason: str) -> None:
    reading = read_voc(tmp_path, e=make_xml("e.jpg", make_object(), faulty))
    assert quarantine(reading) == {("Annotations/e.xml", "object 2", reason)}
    assert len(reading.pictures["JPEGImages/e.jpg"].boxes) == 1


def test_a_picture_without_any_usable_object_is_no_negative(tmp_path: Path) -> None:
    reading = read_voc(tmp_path, e=make_xml("e.jpg", make_object(box="50 6 20 26")))
    assert ("JPEGImages/e.jpg", "", "no usable label") in quarantine(reading)
    assert not reading.pictures


def test_an_empty_box_is_passed_on(tmp_path: Path) -> None:
    reading = read_voc(tmp_path, e=make_xml("e.jpg", make_object(box="20 6 20 26")))
    assert reading.pictures["JPEGImages/e.jpg"].boxes[0].xywh == (20, 6, 0, 20)


def test_parts_are_no_objects(tmp_path: Path) -> None:
    part = "<part><name>head</name><bndbox><xmin>1</xmin></bndbox></part>"
    reading = read_voc(tmp_path, a=make_xml("a.jpg", make_object(more=part)))
    assert [box.label for box in reading.pictures["JPEGImages/a.jpg"].boxes] == ["bolt"]
    assert reasons(reading, "info") == ["parts of objects"]


def test_polygons_are_kept(tmp_path: Path) -> None:
    points = "".join(
        f"<x{n}>{x}</x{n}><y{n}>{y}</y{n}>" for n, x, y in [(1, 4, 4), (2, 24, 4), (3, 9, 20)]
    )
    one = make_object(more=f"<polygon>{points}</polygon>")
    other = f"<object><name>nut</name><polygon>{points}</polygon></object>"
    reading = read_voc(tmp_path, a=make_xml("a.jpg", one, other))
    boxes = reading.pictures["JPEGImages/a.jpg"].boxes
    assert [box.polygons for box in boxes] == [((4, 4, 24, 4, 9, 20),)] * 2
    assert [box.xywh for box in boxes] == [(4, 4, 20, 16)] * 2


def test_a_name_that_is_not_here_yields_to_the_files_own(tmp_path: Path) -> None:
    reading = read_voc(tmp_path, a=make_xml("C:\\old\\IMG_7.JPG", make_object()))
    assert set(reading.pictures) == {"JPEGImages/a.jpg"}
    (warning,) = reading.findings
    assert (warning.severity, warning.file) == ("warning", "Annotations/a.xml")
    assert "IMG_7.JPG" in warning.detail


def test_a_name_that_is_another_pictures_is_not_believed(tmp_path: Path) -> None:
    reading = read_voc(
        tmp_path, a=make_xml("a.jpg", make_object()), b=make_xml("a.jpg", make_object("nut"))
    )
    assert [box.label for box in reading.pictures["JPEGImages/a.jpg"].boxes] == ["bolt"]
    assert quarantine(reading) == {
        ("Annotations/b.xml", "", "two pictures for one label file"),
        ("JPEGImages/b.jpg", "", "label file not usable"),
    }


def test_two_files_for_one_picture(tmp_path: Path) -> None:
    texts = {
        "one/a.xml": make_xml("a.jpg", make_object()),
        "two/a.xml": make_xml("a.jpg", make_object("nut")),
        "JPEGImages/b.xml": make_xml("b.jpg"),
        "old/b.xml": make_xml("b.jpg", make_object()),
    }
    files = lay_out(tmp_path, texts, ("JPEGImages/a.jpg", "JPEGImages/b.jpg"))
    reading = read_found(voc, files)
    assert quarantine(reading) == {
        ("JPEGImages/a.jpg", "", "several label files"),
        ("one/a.xml", "", "several label files"),
        ("two/a.xml", "", "several label files"),
        ("old/b.xml", "", "several label files"),
    }
    assert reading.pictures["JPEGImages/b.jpg"].boxes == ()


def test_a_label_file_without_picture_is_left_out(tmp_path: Path) -> None:
    files = lay_out(tmp_path, {"a.xml": make_xml("a.jpg", make_object())}, ("b.jpg",))
    (row,) = read_found(voc, files).left_out
    assert (row.file, row.reason) == ("a.xml", "missing file")
    assert "a.jpg" in row.detail


def test_a_path_out_of_the_data_is_an_error(tmp_path: Path) -> None:
    reading = read_voc(tmp_path, a=make_xml("../../../etc/a.jpg", make_object()))
    assert reasons(reading, "error") == ["path outside the data"]
    assert not reading.pictures


@pytest.mark.parametrize(
    "content",
    [
        make_xml("图.jpg", make_object("划伤")).encode("utf-8-sig"),
        make_xml("图.jpg", make_object("划伤")).encode("utf-16"),
        (
            '<?xml version="1.0" encoding="gb2312"?>' + make_xml("图.jpg", make_object("划伤"))
        ).encode("gbk"),
        ('<?xml version="1.0" encoding="utf-8"?>' + make_xml("图.jpg", make_object("划伤"))).encode(
            "gbk"
        ),
        ('\n<?xml version="1.0"?>' + make_xml("图.jpg", make_object("划伤"))).encode(),
    ],
)
def test_encodings(tmp_path: Path, content: bytes) -> None:
    reading = read_voc(tmp_path, **{"图": content})
    assert [box.label for box in reading.pictures["JPEGImages/图.jpg"].boxes] == ["划伤"]


def test_image_sets_give_the_splits(tmp_path: Path) -> None:
    stems = ("a", "b", "c d", "e")
    texts: dict[str, str | bytes] = {f"Annotations/{n}.xml": make_xml(f"{n}.jpg") for n in stems}
    texts |= {
        "ImageSets/Main/train.txt": "a\r\nb  1\r\n",
        "ImageSets/Main/val.txt": "c d\nghost\n",
        "ImageSets/Main/trainval.txt": "a\nb\nc d\n",
        "ImageSets/Main/bolt_train.txt": "e -1\n",
    }
    files = lay_out(tmp_path, texts, tuple(f"JPEGImages/{stem}.jpg" for stem in stems))
    reading = read_found(voc, files)
    splits = {Path(path).stem: labelled.split for path, labelled in reading.pictures.items()}
    assert splits == {"a": "train", "b": "train", "c d": "val", "e": ""}
    assert quarantine(reading) == {("ImageSets/Main/val.txt", "line 2", "missing file")}


def test_a_picture_in_two_splits_is_an_error(tmp_path: Path) -> None:
    texts = {
        "Annotations/a.xml": make_xml("a.jpg"),
        "ImageSets/Main/train.txt": "a\n",
        "ImageSets/Main/test.txt": "a\n",
    }
    reading = read_found(voc, lay_out(tmp_path, texts, ("JPEGImages/a.jpg",)))
    assert reasons(reading, "error") == ["leak between splits"]
    assert "JPEGImages/a.jpg" in reading.findings[0].detail


def test_folders_give_the_splits_and_tell_namesakes_apart(tmp_path: Path) -> None:
    texts = {
        "train/Annotations/a.xml": make_xml("a.jpg", make_object()),
        "valid/Annotations/a.xml": make_xml("a.jpg", make_object("nut")),
    }
    pictures = ("train/JPEGImages/a.jpg", "valid/JPEGImages/a.jpg")
    reading = read_found(voc, lay_out(tmp_path, texts, pictures))
    said = {path: (each.split, each.boxes[0].label) for path, each in reading.pictures.items()}
    assert said == {pictures[0]: ("train", "bolt"), pictures[1]: ("val", "nut")}


def test_other_xml_is_not_taken_for_voc(tmp_path: Path) -> None:
    texts = {
        "a.xml": "<annotations><image name='a.jpg'/></annotations>",
        "b.xml": "<?xml version='1.0'?><!-- <annotation> --><project/>",
        "c.txt": make_xml("a.jpg"),
        "d.xml": "",
    }
    assert not voc.find(lay_out(tmp_path, texts, ("a.jpg", "d.jpg")))


def test_what_the_user_names_is_read_or_told(tmp_path: Path) -> None:
    files = lay_out(tmp_path, {"a.txt": "no xml"}, ("a.jpg",))
    reading = voc.read(files, ["a.txt"], LabelOptions())
    assert ("a.jpg", "", "label file not usable") in quarantine(reading)
