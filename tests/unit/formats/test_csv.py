"""Text tables: any delimiter, encoding and header; every row is used or named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from enginehouse.formats import csv_table
from enginehouse.labels import Finding, LabelOptions, Reading
from tests.unit.formats.lay_out import lay_out, quarantine, read_found, reasons

PICTURES = ("images/1.jpg", "images/2.jpg", "images/3.jpg")
LABELS = "file,label\n1.jpg,ok\n2.jpg,bad\n3.jpg,ok\n"
BOXES = "image_id,x,y,width,height,label\n1,4,4,20,16,pit\n2,8,6,24,20,pit\n3,10,10,16,16,pit\n"


def read_csv(
    folder: Path,
    content: str | bytes,
    pictures: tuple[str, ...] = PICTURES,
    options: LabelOptions | None = None,
    **more: str | bytes,
) -> Reading:
    """The content as `labels.csv`; more files by stem, as text files."""
    texts = {"labels.csv": content, **{f"{stem}.txt": text for stem, text in more.items()}}
    return read_found(csv_table, lay_out(folder, texts, pictures), options)


def labels_of(reading: Reading) -> list[str]:
    return [label for labelled in reading.pictures.values() for label in labelled.labels]


def boxes_of(reading: Reading) -> list[tuple[float, ...]]:
    return [box.xywh for labelled in reading.pictures.values() for box in labelled.boxes]


def errors(reading: Reading) -> list[Finding]:
    return [finding for finding in reading.findings if finding.severity == "error"]


def the_error(reading: Reading) -> Finding:
    (finding,) = errors(reading)
    return finding


def test_a_label_per_picture(tmp_path: Path) -> None:
    reading = read_csv(tmp_path, LABELS)
    second = reading.pictures["images/2.jpg"]
    assert (second.labels, second.file, second.place) == (("bad",), "labels.csv", "line 3")
    assert labels_of(reading) == ["ok", "bad", "ok"]
    assert reading.unlisted == "left out"
    assert not reading.findings
    assert not reading.left_out


def test_a_box_per_row(tmp_path: Path) -> None:
    reading = read_csv(tmp_path, BOXES + "3,1,2,3,4,dent\n")
    third = reading.pictures["images/3.jpg"].boxes
    assert [(box.label, box.xywh, box.place) for box in third] == [
        ("pit", (10, 10, 16, 16), "line 4"),
        ("dent", (1, 2, 3, 4), "line 5"),
    ]
    assert reading.unlisted == "good"
    assert not reading.findings


@pytest.mark.parametrize(
    "content",
    [
        LABELS.replace("\n", "\r\n"),
        LABELS.replace("\n", "\r"),
        LABELS.replace(",", ";"),
        LABELS.replace(",", "\t"),
        LABELS.replace(",", "|"),
        LABELS.replace(",", " , "),
        "sep=;\n" + LABELS.replace(",", ";"),
        "\n\n" + LABELS.replace("\n", "\n\n"),
        "Labels of line 7\nexported today\n\n" + LABELS,
        LABELS.replace("label", '"la""mp",label').replace("g,", 'g,"a, b\nc",'),
        LABELS.replace("file", "FILE NAME"),
        LABELS.replace("file,label", "文件名,类别"),
        LABELS.replace("file,label", "ファイル名,ラベル"),
        LABELS.replace("file,label", "Dateiname,Fehlerart"),
        LABELS.replace("file,label", "Nom du fichier,Défaut"),
        LABELS.replace("file,label", "Archivo,Categoría"),
        LABELS.replace("file,label", "文件名 (file),类别/label"),
        LABELS.replace(".jpg,", ","),
        LABELS.replace(".jpg,", ".0,"),
        LABELS.replace("1.jpg", "images\\1.jpg").replace("2.jpg", ".\\images\\2.jpg"),
        LABELS.replace("1.jpg", "C:\\work\\images\\1.jpg").replace("2.jpg", "images/2.JPG"),
        LABELS.replace("1.jpg", "\u200b1.jpg\xa0"),
        LABELS.replace("file,label\n", "file,label,\n").replace("ok\n", "ok,\n"),
        LABELS.replace("ok\n", " ok \n"),
        LABELS.replace("2.jpg", "https://host/images/2.jpg"),
        LABELS + "\x1a",
    ],
)
def test_the_same_table_in_other_dress(tmp_path: Path, content: str) -> None:
    reading = read_csv(tmp_path, content)
    assert labels_of(reading) == ["ok", "bad", "ok"]
    assert not errors(reading)
    assert not reading.left_out


@pytest.mark.parametrize(
    "encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "gb18030"]
)
def test_the_same_table_in_other_encodings(tmp_path: Path, encoding: str) -> None:
    content = LABELS.replace("ok", "合格").replace("bad", "划伤").encode(encoding)
    reading = read_csv(tmp_path, content)
    assert labels_of(reading) == ["合格", "划伤", "合格"]
    assert reasons(reading, "info") == ([] if encoding == "utf-8-sig" else ["text encoding"])


def test_an_unknown_encoding_is_refused(tmp_path: Path) -> None:
    finding = the_error(
        csv_table.read(
            lay_out(tmp_path, {"a.csv": LABELS.replace("bad", "Größe").encode("cp850")}, PICTURES),
            ["a.csv"],
            LabelOptions(),
        )
    )
    assert finding.file == "a.csv"
    assert "encoding" in finding.detail
    assert "UTF-8" in finding.remedy


def test_names_with_percent_signs_and_commas(tmp_path: Path) -> None:
    pictures = ("images (42).jpg", "50%, left.jpg")
    content = 'file,label\nimages%20(42).jpg,ok\n"50%, left.jpg",bad\n'
    assert set(read_csv(tmp_path, content, pictures).pictures) == set(pictures)


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("file;x;y;width;height", "1.jpg;4,5;6;20,25;1.000"),
        ("file;x;y;w;h", "1.jpg;4,5;6;20,25;1.000,0"),
        ("file,xmin,ymin,xmax,ymax", "1.jpg,4.5,6,24.75,1006"),
        ("file,left,top,right,bottom", '1.jpg,4.5,6,24.75,"1,006"'),
        ("file,x0,y0,x1,y1", "1.jpg,4.5,6,24.75,1006"),
        ("file,x1,y1,x2,y2,w,h", "1.jpg,4.5,6,24.75,1006,20.25,1000"),
        ("file,bbox_x,bbox_y,bbox_width,bbox_height", "1.jpg,4.5,6,20.25,1e3"),
        ("file,width,height,bbox_x,bbox_y,bbox_width,bbox_height", "1.jpg,64,48,4.5,6,20.25,1000"),
        ("file,x (mm),x (px),y,w,h", "1.jpg,0.1,4.5,6,20.25,1000"),
        ("file,cx,cy,w,h", "1.jpg,14.625,506,20.25,1000"),
        ("图像编号,x坐标,y坐标,宽,高", "1,4.5,6,20.25,1000"),
        ("Bild-Nr.,X [px],Y [px],Breite,Höhe", "1,4.5,6,20.25 px,1000px"),
        ("image,gauche,haut,largeur,hauteur", "1,4.5,6,20.25,1 000"),
        ("imagen,izquierda,arriba,ancho,alto", "1,4.5,6,20.25,1'000"),
        ("画像,左,上,幅,高さ", "1,4.5,6,２０.２５,1000"),
    ],
)
def test_boxes_in_any_notation(tmp_path: Path, header: str, row: str) -> None:
    reading = read_csv(tmp_path, f"{header}\n{row}\n")
    assert boxes_of(reading) == [(4.5, 6, 20.25, 1000)]
    assert not errors(reading)
    assert not reading.left_out


def test_width_and_height_beside_two_corners_may_be_the_picture(tmp_path: Path) -> None:
    content = "filename,width,height,class,xmin,ymin,xmax,ymax\n1.jpg,64,48,pit,4,4,24,20\n"
    labelled = read_csv(tmp_path, content).pictures["images/1.jpg"]
    assert labelled.size == (64, 48)
    assert labelled.boxes[0].xywh == (4, 4, 20, 16)


def test_shares_of_the_sides_are_told_from_pixels(tmp_path: Path) -> None:
    reading = read_csv(tmp_path, "file,x,y,w,h\n1.jpg,0.25,0.5,0.5,0.25\n2.jpg,0,0,1,1\n")
    assert all(box.relative for each in reading.pictures.values() for box in each.boxes)
    assert reasons(reading, "info") == ["relative boxes"]


@pytest.mark.parametrize("row", ["3,,,,,", "3,0,0,0,0,", "3,-,-,-,-,", "3.jpg,NA,NA,NA,NA,"])
def test_a_row_without_a_box_is_a_picture_without_objects(tmp_path: Path, row: str) -> None:
    reading = read_csv(tmp_path, BOXES.replace("3,10,10,16,16,pit", row))
    assert reading.pictures["images/3.jpg"].boxes == ()
    assert len(boxes_of(reading)) == 2
    assert not reading.left_out


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("2,8,6,wide,20,pit", "not a number"),
        ("2,8,6,,20,pit", "missing number"),
        ("2,8,6,24,20,", "no label"),
        ("2,8,6,24", "wrong number of fields"),
    ],
)
def test_a_broken_row_leaves_its_picture_out(tmp_path: Path, row: str, reason: str) -> None:
    reading = read_csv(tmp_path, BOXES.replace("2,8,6,24,20,pit", row))
    assert quarantine(reading) == {
        ("labels.csv", "line 3", reason),
        ("images/2.jpg", "", "no usable label"),
    }
    assert "line 3" in reading.left_out[0].detail
    assert len(boxes_of(reading)) == 2
    assert reading.unlisted == "good"


def test_a_picture_with_another_box_stays(tmp_path: Path) -> None:
    reading = read_csv(tmp_path, BOXES + "2,8,6,x,20,pit\n")
    assert quarantine(reading) == {("labels.csv", "line 5", "not a number")}
    assert len(boxes_of(reading)) == 3


@pytest.mark.parametrize("row", [",8,6,24,20,pit", "2,8,6,24,20,pit,more", "2,8,6,24,20,a,b,c"])
def test_a_row_of_an_unknown_picture_casts_doubt_on_the_rest(tmp_path: Path, row: str) -> None:
    reading = read_csv(tmp_path, BOXES.replace("2,8,6,24,20,pit", row))
    assert [item.place for item in reading.left_out] == ["line 3"]
    assert reading.unlisted == "left out"
    assert reasons(reading, "warning") == ["rows without a picture"]


@pytest.mark.parametrize(
    ("row", "reason", "word"),
    [
        ("2,nan,6,24,20,pit", "not a finite number", "nan"),
        ("2,inf,6,24,20,pit", "not a finite number", "inf"),
        ("2,9-Oct,6,24,20,pit", "date in a cell", "date"),
        ("2,09.10.2026,6,24,20,pit", "date in a cell", "date"),
        ("2,#REF!,6,24,20,pit", "error value", "#REF!"),
        ("2,=B1*2,6,24,20,pit", "formula without a result", "formula"),
        ('2,"1,234",6,24,20,pit', "ambiguous number", "1,234"),
    ],
)
def test_what_makes_a_table_untrustworthy(tmp_path: Path, row: str, reason: str, word: str) -> None:
    finding = the_error(read_csv(tmp_path, BOXES.replace("2,8,6,24,20,pit", row)))
    assert (finding.reason, finding.file, finding.place) == (reason, "labels.csv", "line 3")
    assert word in finding.detail
    assert "'x'" in finding.detail


def test_errors_of_a_kind_are_told_once_with_their_places(tmp_path: Path) -> None:
    rows = "".join(f"{n},nan,1,1,1,pit\n" for n in (1, 2, 3))
    finding = the_error(read_csv(tmp_path, f"image_id,x,y,width,height,label\n{rows}"))
    assert all(place in finding.detail for place in ("line 2", "line 3", "line 4"))


@pytest.mark.parametrize(
    ("content", "reason", "words"),
    [
        ("file,label\n", "no rows", ["0 rows"]),
        ("file,label\n\n,\n", "no rows", ["0 rows"]),
        ("", "no rows", ["0 rows", "empty"]),
        ("file,comment\n1.jpg,a\n", "no label column", ["'file'", "'comment'"]),
        ("Teil X,Urteil\n1.jpg,ok\n", "unknown headers", ["'Teil X'", "'Urteil'"]),
        ("file,x,y,width\n1.jpg,1,2,3\n", "incomplete box columns", ["height", "'width'"]),
        ("file,x (mm),y,w,h\n1.jpg,1,2,3,4\n", "unit is not pixels", ["mm"]),
        ("file,label,label\n1.jpg,a,b\n", "repeated header", ["'label'"]),
        ("file,x1,y1,x2,y2,x3,y3\n1.jpg,1,2,3,4,5,6\n", "more than two corners", ["'x3'"]),
        ('file,label\n1.jpg,"ok\n2.jpg,bad\n', "broken row", ["line 2"]),
        ("file,label\n8.jpg,a\n9.jpg,b\n", "no usable row", ["None of the 2 rows", "8.jpg"]),
        ("file,label,split\n1.jpg,a,often\n", "unknown split", ["often", "line 2"]),
        ("file,label\n../../etc/1.jpg,a\n2.jpg,b\n", "path outside the data", ["../../etc/1.jpg"]),
        ("1.jpg,1,2,3,4,pit\n", "unknown headers", ["1.jpg"]),
    ],
)
def test_tables_that_say_too_little(
    tmp_path: Path, content: str, reason: str, words: list[str]
) -> None:
    finding = the_error(read_csv(tmp_path, content))
    assert finding.reason == reason
    assert finding.file == "labels.csv"
    assert all(word in finding.detail for word in words)
    assert finding.remedy


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("2.jpg,b\0ad", "damaged text"),
        ("file,label", "missing file"),
        ("²,bad", "missing file"),
        ("2.02601E+13,bad", "missing file"),
        ("2.jpg", "wrong number of fields"),
        ("2.jpg,", "no label"),
        (",bad", "no picture named"),
    ],
)
def test_rows_that_cannot_be_used(tmp_path: Path, row: str, reason: str) -> None:
    reading = read_csv(tmp_path, LABELS.replace("2.jpg,bad", row))
    assert ("labels.csv", "line 3", reason) in quarantine(reading)
    assert labels_of(reading) == ["ok", "ok"]
    assert not errors(reading)


def test_a_table_in_no_known_encoding_is_found_to_be_refused(tmp_path: Path) -> None:
    reading = read_csv(tmp_path, LABELS.replace("bad", "Größe").encode("cp850"))
    assert the_error(reading).reason == "unreadable text"


def test_a_named_table_is_read_whatever_it_holds(tmp_path: Path) -> None:
    files = lay_out(tmp_path, {"a.csv": "u,v\n1,2\n"}, ("cat/1.jpg", "dog/2.jpg"))
    assert csv_table.find(files) == []
    named = replace(files, only="a.csv")
    finding = the_error(read_found(csv_table, named))
    assert "'u', 'v'" in finding.detail


def test_missing_and_doubtful_pictures_are_left_out(tmp_path: Path) -> None:
    pictures = ("a/1.jpg", "b/1.jpg", "a/2.jpg")
    reading = read_csv(tmp_path, "file,label\n1.jpg,ok\n2.jpg,ok\n3.jpg,bad\n", pictures)
    assert quarantine(reading) == {
        ("labels.csv", "line 2", "ambiguous name"),
        ("labels.csv", "line 4", "missing file"),
    }
    assert "3.jpg" in reading.left_out[1].detail


def test_the_split_tells_pictures_of_one_name_apart(tmp_path: Path) -> None:
    pictures = ("train/1.jpg", "val/1.jpg")
    reading = read_csv(tmp_path, "file,label,split\n1.jpg,a,Training\n1.jpg,b,valid\n", pictures)
    assert {path: each.split for path, each in reading.pictures.items()} == {
        "train/1.jpg": "train",
        "val/1.jpg": "val",
    }


def test_ids_find_pictures_by_number(tmp_path: Path) -> None:
    pictures = ("0001.jpg", "0002.jpg", "002.jpg")
    reading = read_csv(tmp_path, "id,label\n1,ok\n2,bad\n0002,bad\n", pictures)
    assert set(reading.pictures) == {"0001.jpg", "0002.jpg"}
    assert quarantine(reading) == {("labels.csv", "line 3", "ambiguous name")}
    assert "found by number" in reasons(reading, "info")


def test_two_labels_for_a_picture_are_an_error(tmp_path: Path) -> None:
    finding = the_error(read_csv(tmp_path, LABELS + "images/1.jpg,bad\n"))
    assert finding.reason == "label conflict"
    assert all(word in finding.detail for word in ("line 2", "line 5", "'ok'", "'bad'"))


@pytest.mark.parametrize(("content", "row"), [(LABELS, "1.jpg,ok"), (BOXES, "1,4,4,20,16,pit")])
def test_repeated_rows_count_once(tmp_path: Path, content: str, row: str) -> None:
    reading = read_csv(tmp_path, f"{content}{row}\n")
    (finding,) = reading.findings
    assert (finding.severity, finding.reason) == ("warning", "duplicate row")
    assert "line 5" in finding.detail
    assert "line 2" in finding.detail
    assert len(reading.pictures) == 3
    assert len(boxes_of(reading)) in (0, 3)


def test_split_group_and_time(tmp_path: Path) -> None:
    content = "file,label,set,Charge,Datum\n1.jpg,ok,TRAIN,7,31.12.2025\n2.jpg,ok,,8,2026-01-01\n"
    reading = read_csv(tmp_path, content)
    first, second = reading.pictures.values()
    assert (first.split, first.group, first.time) == ("train", "7", "2025-12-31")
    assert (second.split, second.group, second.time) == ("", "8", "2026-01-01")


def test_two_splits_for_a_picture_are_an_error(tmp_path: Path) -> None:
    content = "file,x,y,w,h,split\n1.jpg,1,1,2,2,train\n1.jpg,5,5,2,2,test\n"
    finding = the_error(read_csv(tmp_path, content))
    assert finding.reason == "conflicting split"
    assert "images/1.jpg" in finding.detail


def test_times_that_do_not_sort_are_not_used(tmp_path: Path) -> None:
    reading = read_csv(tmp_path, "file,label,date\n1.jpg,ok,02/03/2026\n")
    assert reading.pictures["images/1.jpg"].time == ""
    assert reasons(reading, "warning") == ["time not sortable"]


def test_tables_named_after_splits(tmp_path: Path) -> None:
    texts = {"train.csv": "file,label\n1.jpg,a\n", "val_labels.csv": "file,label\n2.jpg,b\n"}
    reading = read_found(csv_table, lay_out(tmp_path, texts, PICTURES))
    assert [each.split for each in reading.pictures.values()] == ["train", "val"]


def test_a_picture_in_the_tables_of_two_splits_is_an_error(tmp_path: Path) -> None:
    texts = {"train.csv": LABELS, "test.csv": "file,label\n2.jpg,bad\n"}
    reading = read_found(csv_table, lay_out(tmp_path, texts, PICTURES))
    assert reasons(reading, "error") == ["conflicting split"]


def test_labels_and_boxes_in_two_tables(tmp_path: Path) -> None:
    texts = {"labels.csv": LABELS, "boxes.csv": BOXES}
    reading = read_found(csv_table, lay_out(tmp_path, texts, PICTURES))
    assert labels_of(reading) == ["ok", "bad", "ok"]
    assert len(boxes_of(reading)) == 3
    assert reading.unlisted == "left out"


@pytest.mark.parametrize("label", ["NA", "None", "null", "nan", "TRUE", "007", "1.50"])
def test_labels_stay_as_they_are_written(tmp_path: Path, label: str) -> None:
    reading = read_csv(tmp_path, LABELS.replace("bad", label))
    assert labels_of(reading) == ["ok", label, "ok"]


def test_labels_that_a_program_took_for_numbers(tmp_path: Path) -> None:
    reading = read_csv(tmp_path, "file,label\n1.jpg,0.0\n2.jpg,1.0\n3.jpg,0.0\n")
    assert labels_of(reading) == ["0", "1", "0"]


def test_ids_become_names_where_a_file_lists_them(tmp_path: Path) -> None:
    content = "file,label\n1.jpg,0\n2.jpg,2\n3.jpg,1.0\n"
    reading = read_csv(tmp_path, content, classes="red\ngreen\nblue\n")
    assert labels_of(reading) == ["red", "blue", "green"]
    assert reading.classes == ("red", "green", "blue")
    assert reading.class_ids == {"red": 0, "green": 1, "blue": 2}


@pytest.mark.parametrize("name", ["labels", "class_names", "Classes"])
def test_ids_beyond_the_names_are_an_error(tmp_path: Path, name: str) -> None:
    content = "file,label\n1.jpg,1\n2.jpg,2\n3.jpg,3\n"
    finding = the_error(read_csv(tmp_path, content, **{name: "red\ngreen\nblue\n"}))
    assert (finding.reason, finding.file) == ("label id out of range", "labels.csv")
    assert all(word in finding.detail for word in ("0..2", "line 4", f"{name}.txt", "start at 1"))


def test_negative_ids_are_no_names_from_the_end(tmp_path: Path) -> None:
    content = "file,label\n1.jpg,0\n2.jpg,-1\n"
    finding = the_error(read_csv(tmp_path, content, classes="red\ngreen\nblue\n"))
    assert "start at 1" not in finding.detail


def test_labels_that_are_not_declared_are_an_error(tmp_path: Path) -> None:
    finding = the_error(read_csv(tmp_path, LABELS, classes="ok\nBad\n"))
    assert finding.reason == "undeclared label"
    assert all(word in finding.detail for word in ("'bad'", "line 3", "classes.txt"))


def test_declared_classes_keep_their_order(tmp_path: Path) -> None:
    reading = read_csv(tmp_path, LABELS, classes="ok\nrare\nbad\n")
    assert reading.classes == ("ok", "rare", "bad")
    assert not reading.findings


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ("crane\nheron\ncrane\n", ["'crane'", "lines 1 and 3", "duplicate"]),
        ("crane\n\nheron\n", ["line 2", "no name"]),
        (" \n", ["empty"]),
    ],
)
def test_faulty_class_names_are_an_error(tmp_path: Path, names: str, words: list[str]) -> None:
    finding = the_error(read_csv(tmp_path, "file,label\n1.jpg,0\n2.jpg,1\n", classes=names))
    assert finding.file == "classes.txt"
    assert all(word in finding.detail for word in words)


def test_headers_by_mapping(tmp_path: Path) -> None:
    content = "Kamera;Teil X;Urteil;label\nA;1.jpg;gut;q\nB;2.jpg;schlecht;r\n"
    options = LabelOptions(columns={"image": "Teil X", "label": "urteil"})
    reading = read_csv(tmp_path, content, options=options)
    assert labels_of(reading) == ["gut", "schlecht"]
    assert not errors(reading)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"image": "file", "label": "verdict"}, ["'verdict'", "'file'", "'label'"]),
        ({"picture": "file"}, ["'picture'", "image, label"]),
    ],
)
def test_a_mapping_that_does_not_fit(
    tmp_path: Path, columns: dict[str, str], words: list[str]
) -> None:
    finding = the_error(read_csv(tmp_path, LABELS, options=LabelOptions(columns=columns)))
    assert all(word in finding.detail for word in words)


def test_the_column_that_names_pictures_is_chosen(tmp_path: Path) -> None:
    reading = read_csv(tmp_path, "image_id,file,label\n900,1.jpg,ok\n901,2.jpg,bad\n")
    assert labels_of(reading) == ["ok", "bad"]
    assert "'image_id'" in reading.findings[0].detail


def test_two_columns_without_header(tmp_path: Path) -> None:
    reading = read_csv(tmp_path, "ok,1.jpg\nbad,2.jpg\n")
    assert labels_of(reading) == ["ok", "bad"]
    assert reasons(reading, "warning") == ["no header"]


@pytest.mark.parametrize("name", ["labels.csv", "labels.txt", "export.dat", "LABELS.CSV", "table"])
def test_tables_are_found_by_content(tmp_path: Path, name: str) -> None:
    assert csv_table.find(lay_out(tmp_path, {name: LABELS}, PICTURES)) == [name]


@pytest.mark.parametrize(
    "content",
    [
        "images/1.jpg\nimages/2.jpg\n",
        "ok\nbad\n",
        "0 0.5 0.5 0.1 0.1\n",
        '{"images": [], "file,label": 1}',
        "<annotation>file,label</annotation>",
        "These are the pictures, with labels, of line 7.\nSee the other file, too.\n",
        "id,class\n0,cat\n1,dog\n",
        "class,images\ncat,100\ndog,90\n",
        "| file | label |\n|------|:-----:|\n| c.jpg | ok |\n",
        "Boxes are in b.xlsx (image_id,x,y,width,height,label). Do not,please,change them.\nBye\n",
        "file,label\nare the columns of the table.\n",
        "Notes\n\nPictures, c.jpg\nand one more.\nThe end is near, all is well.\n",
        b"PK\x03\x04 file,label",
        b"\x00\x01\x02\x03file,label\n\xff\xfe",
        "",
    ],
)
def test_what_is_no_table_of_labels(tmp_path: Path, content: str | bytes) -> None:
    pictures = ("a, b.jpg", "images/c.jpg")
    files = lay_out(tmp_path, {"notes.txt": content, "other.txt": "a, b.jpg\n"}, pictures)
    assert csv_table.find(files) == []


def test_tables_beside_class_folders_need_a_label_column(tmp_path: Path) -> None:
    texts = {"log.csv": "file,operator\n1.jpg,7\n2.jpg,8\n"}
    pictures = ("cat/1.jpg", "dog/2.jpg")
    assert csv_table.find(lay_out(tmp_path, texts, pictures)) == []
