"""Twins of what label files of boxes do: COCO, Pascal VOC, YOLO, labelme."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import numpy as np
from PIL import Image

from tests.twins._draw import HEIGHT, WIDTH, Twin, coco, draw, save, write

PLAIN: list[dict[str, Any]] = [{}, {"category_id": 2}, {"bbox": [30, 20, 12.5, 8]}]


def _with(**fields: Any) -> list[dict[str, Any]]:
    """Three annotations, the second of which has these fields."""
    return [PLAIN[0], PLAIN[1] | fields, PLAIN[2]]


def _edit(folder: Path, change: Any) -> None:
    path = folder / "labels.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    write(path, json.dumps(content))


def build_box_sticks_out(folder: Path) -> None:
    coco(folder, _with(bbox=[70, 50, 15, 20]))


def build_box_starts_before_the_picture(folder: Path) -> None:
    coco(folder, _with(bbox=[-6, -2, 20, 20]))


def build_box_without_height(folder: Path) -> None:
    coco(folder, _with(bbox=[8, 6, 20, 0]))


def build_box_of_negative_width(folder: Path) -> None:
    coco(folder, _with(bbox=[40, 6, -20, 10]))


def build_box_outside(folder: Path) -> None:
    coco(folder, _with(bbox=[200, 6, 20, 10]))


def build_nan(folder: Path) -> None:
    coco(folder, _with(bbox=[8, float("nan"), 20, 10]))


def build_infinity(folder: Path) -> None:
    coco(folder, _with(bbox=[8, 6, float("inf"), 10]))


def build_corners_instead_of_sizes(folder: Path) -> None:
    boxes = [[50, 30, 78, 58], [44, 36, 70, 55], [60, 21, 79, 52], [41, 33, 75, 44]]
    coco(folder, [{"bbox": box} for box in boxes])


def build_category_ids_with_gaps(folder: Path) -> None:
    annotations = [{"category_id": number} for number in (2, 7, 44, 7)]
    coco(folder, annotations, categories={2: "scratch", 44: "crack", 7: "pit"})


def build_image_ids_as_text(folder: Path) -> None:
    coco(folder, PLAIN)

    def change(content: Any) -> None:
        for annotation in content["annotations"]:
            annotation["image_id"] = str(annotation["image_id"])

    _edit(folder, change)


def build_missing_picture(folder: Path) -> None:
    coco(folder, PLAIN)
    (folder / "shots/c.jpg").unlink()


def build_picture_without_entry(folder: Path) -> None:
    coco(folder, PLAIN)
    save(folder / "shots/forgotten.jpg")


def build_duplicate_annotation_id(folder: Path) -> None:
    coco(folder, _with(id=101))


def build_duplicate_image_id(folder: Path) -> None:
    coco(folder, PLAIN, id=11)


def build_duplicate_file_name(folder: Path) -> None:
    coco(folder, PLAIN)
    _edit(folder, lambda content: content["images"][1].update(file_name="a.jpg"))


def build_unknown_category(folder: Path) -> None:
    coco(folder, _with(category_id=9))


def build_unknown_image(folder: Path) -> None:
    coco(folder, _with(image_id=77))


def build_duplicate_category_name(folder: Path) -> None:
    coco(folder, PLAIN, categories={1: "pit", 2: "pit"})


def build_negative_and_placeholder(folder: Path) -> None:
    coco(folder, [{"image_id": 11}, {"image_id": 12, "bbox": [0, 0, 0, 0]}])


def build_empty_list_as_box(folder: Path) -> None:
    coco(folder, _with(bbox=[]))


def build_size_swapped(folder: Path) -> None:
    coco(folder, PLAIN)
    _edit(folder, lambda content: content["images"][1].update(width=HEIGHT, height=WIDTH))


def build_size_of_another_picture(folder: Path) -> None:
    coco(folder, PLAIN, width=4000, height=3000)


def build_polygon_without_box(folder: Path) -> None:
    polygon = [10, 10, 40, 10, 40, 30, 10, 30]
    coco(folder, [{"segmentation": [polygon]}])
    _edit(folder, lambda content: content["annotations"][0].pop("bbox"))


def build_rle_uncompressed(folder: Path) -> None:
    mask = np.zeros((HEIGHT, WIDTH), np.uint8)
    mask[10:30, 20:50] = 1
    flat = mask.ravel(order="F")
    edges = np.flatnonzero(np.diff(flat)) + 1
    counts = np.diff([0, *edges, flat.size]).tolist()
    segmentation = {"counts": counts, "size": [HEIGHT, WIDTH]}
    coco(folder, [{"segmentation": segmentation, "bbox": [20, 10, 30, 20]}])


def build_rle_compressed_crowd(folder: Path) -> None:
    from pycocotools import mask as masks

    mask = np.zeros((HEIGHT, WIDTH), np.uint8, order="F")
    mask[5:25, 5:35] = 1
    rle = masks.encode(mask)
    segmentation = {"counts": rle["counts"].decode(), "size": rle["size"]}
    crowd = {"segmentation": segmentation, "iscrowd": 1, "bbox": [5, 5, 30, 20], "image_id": 12}
    coco(folder, [{}, crowd])


def build_json_cut_off(folder: Path) -> None:
    coco(folder, PLAIN)
    path = folder / "labels.json"
    path.write_bytes(path.read_bytes()[:-120])


def build_json_path_outside(folder: Path) -> None:
    coco(folder, PLAIN)
    _edit(folder, lambda content: content["images"][0].update(file_name="../../../etc/a.png"))


def build_json_with_bom_and_windows_paths(folder: Path) -> None:
    coco(folder, PLAIN)
    _edit(
        folder,
        lambda content: [
            image.update(file_name=f"D:\\export\\shots\\{image['file_name']}")
            for image in content["images"]
        ],
    )
    path = folder / "labels.json"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())


def build_turned_picture_with_box(folder: Path) -> None:
    """The size is that of the upright picture, as labelling tools show it."""
    coco(folder, [{"bbox": [5, 50, 20, 20]}], ["a.jpg"], width=HEIGHT, height=WIDTH)
    tags = Image.Exif()
    tags[0x0112] = 6
    Image.fromarray(draw("turned")).save(folder / "shots/a.jpg", exif=tags)


def _voc(
    folder: Path, name: str, *objects: str, size: str = "", filename: str | None = None
) -> None:
    save(folder / "JPEGImages" / f"{name}.jpg")
    size = size or f"<size><width>{WIDTH}</width><height>{HEIGHT}</height><depth>3</depth></size>"
    called = f"{name}.jpg" if filename is None else filename
    head = f"<filename>{called}</filename>" if called else ""
    xml = f"<annotation>{head}{size}{''.join(objects)}</annotation>"
    write(folder / "Annotations" / f"{name}.xml", xml)


def _object(label: str, *corners: object) -> str:
    names = ("xmin", "ymin", "xmax", "ymax")
    box = "".join(f"<{n}>{c}</{n}>" for n, c in zip(names, corners, strict=True))
    return f"<object><name>{escape(label)}</name><bndbox>{box}</bndbox></object>"


GOOD = _object("gear", 5, 6, 30, 26)


def build_size_zero(folder: Path) -> None:
    _voc(folder, "one", GOOD)
    _voc(folder, "two", GOOD, size="<size><width>0</width><height>0</height></size>")


def build_size_missing(folder: Path) -> None:
    _voc(folder, "one", GOOD, size="<source/>")


def build_decimal_corners(folder: Path) -> None:
    _voc(folder, "one", _object("gear", 5.25, "6.0", 30.5000001, 26))


def build_tag_never_closed(folder: Path) -> None:
    _voc(folder, "one", GOOD)
    _voc(folder, "two", GOOD, "<object><name>gear</name>")


def build_corners_swapped(folder: Path) -> None:
    _voc(folder, "one", GOOD, _object("screw", 5, 40, 30, 12))


def build_filename_missing(folder: Path) -> None:
    _voc(folder, "one", GOOD, filename="")


def build_filename_without_suffix(folder: Path) -> None:
    _voc(folder, "one", GOOD, filename="one")


def build_filename_of_another(folder: Path) -> None:
    _voc(folder, "one", GOOD, filename="DSC_0001.png")


def build_no_objects(folder: Path) -> None:
    _voc(folder, "one", GOOD)
    _voc(folder, "two")


def build_entity_bomb(folder: Path) -> None:
    _voc(folder, "one", GOOD)
    _voc(folder, "two", GOOD)
    bomb = '<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]>'
    write(
        folder / "Annotations/two.xml", f"{bomb}<annotation><filename>&b;</filename></annotation>"
    )


def build_corner_is_a_word(folder: Path) -> None:
    _voc(folder, "one", GOOD, _object("screw", 5, "six", 30, 12))


def _yolo(folder: Path, *names: str, **labels: str) -> None:
    for name in (*names, *labels):
        save(folder / "images" / f"{name}.jpg")
    for name, text in labels.items():
        write(folder / "labels" / f"{name}.txt", text)


YAML = "names: [gear, screw]\ntrain: images\n"


def build_yolo_in_pixels(folder: Path) -> None:
    _yolo(folder, p="0 0.5 0.5 0.2 0.2\n", q="0 120 88 40 30\n")


def build_yolo_line_twice(folder: Path) -> None:
    _yolo(folder, p="1 0.4 0.4 0.25 0.2\n0 0.7 0.7 0.1 0.1\n1 0.4 0.4 0.25 0.2\n", q="")


def build_yolo_index_without_name(folder: Path) -> None:
    _yolo(folder, p="0 0.5 0.5 0.2 0.2\n", q="2 0.5 0.5 0.2 0.2\n")
    write(folder / "data.yaml", YAML)


def build_yolo_negatives(folder: Path) -> None:
    _yolo(folder, "r", p="0 0.5 0.5 0.2 0.2\n", q="")
    write(folder / "data.yaml", YAML)


def build_yolo_column_missing(folder: Path) -> None:
    _yolo(folder, p="0 0.5 0.5 0.2 0.2\n", q="0 0.5 0.5 0.2\n")


def build_yolo_label_without_picture(folder: Path) -> None:
    _yolo(folder, p="0 0.5 0.5 0.2 0.2\n", q="0 0.4 0.4 0.2 0.2\n")
    (folder / "images/q.jpg").unlink()


def build_yolo_box_over_the_edge(folder: Path) -> None:
    _yolo(folder, p="0 0.95 0.5 0.2 0.2\n", q="1 0.5 0.5 0.2 0.2\n")


def build_yolo_polygons(folder: Path) -> None:
    _yolo(folder, p="0 0.1 0.1 0.5 0.1 0.5 0.5 0.1 0.5\n", q="1 0.2 0.2 0.6 0.2 0.4 0.7\n")


def build_yolo_names_by_number(folder: Path) -> None:
    _yolo(folder, p="0 0.5 0.5 0.2 0.2\n", q="1 0.5 0.5 0.2 0.2\n")
    write(
        folder / "data.yaml", "path: ../data\nnc: 2\nnames:\n  0: gear\n  1: screw\ntrain: images\n"
    )


def build_yolo_count_differs(folder: Path) -> None:
    _yolo(folder, p="0 0.5 0.5 0.2 0.2\n", q="1 0.5 0.5 0.2 0.2\n")
    write(folder / "data.yaml", "nc: 5\nnames: [gear, screw]\ntrain: images\n")


def _labelme(folder: Path, *shapes: dict[str, Any], name: str = "p.jpg", **fields: Any) -> None:
    save(folder / "pics" / "p.jpg")
    content = {"version": "5.5.0", "flags": {}, "shapes": shapes, "imagePath": name}
    content |= {"imageData": None, "imageHeight": HEIGHT, "imageWidth": WIDTH} | fields
    write(folder / "json" / "p.json", json.dumps(content))


def _shape(kind: str, *points: tuple[float, float], label: str = "gear") -> dict[str, Any]:
    return {"label": label, "points": [list(p) for p in points], "shape_type": kind, "flags": {}}


def build_labelme_windows_path(folder: Path) -> None:
    _labelme(folder, _shape("rectangle", (4, 6), (30, 20)), name="..\\pics\\p.jpg")


def build_labelme_polygon(folder: Path) -> None:
    _labelme(folder, _shape("polygon", (4, 6), (30, 6), (30, 20)), name="../pics/p.jpg")


def build_labelme_corners_swapped(folder: Path) -> None:
    _labelme(folder, _shape("rectangle", (30, 20), (4, 6)), name="../pics/p.jpg")


def build_labelme_point(folder: Path) -> None:
    shapes = _shape("rectangle", (4, 6), (30, 20)), _shape("point", (5, 5))
    _labelme(folder, *shapes, name="../pics/p.jpg")


def build_labelme_picture_gone(folder: Path) -> None:
    save(folder / "pics/other.jpg")
    _labelme(folder, _shape("rectangle", (4, 6), (30, 20)), name="q.jpg")
    write(folder / "json/o.json", (folder / "json/p.json").read_text().replace("q.jpg", "p.jpg"))


COCO = [
    Twin("coco", build_box_sticks_out, "warn", (r"labels\.json", "102", "clip"), 3, 3),
    Twin("coco", build_box_starts_before_the_picture, "warn", ("102", "clip"), 3, 3),
    Twin("coco", build_box_without_height, "quarantine", ("102", "height|empty|zero"), 3, 2),
    Twin("coco", build_box_of_negative_width, "quarantine", ("102", "width|negative"), 3, 2),
    Twin("coco", build_box_outside, "quarantine", ("102", "outside|empty|out of"), 3, 2),
    Twin("coco", build_nan, "reject", (r"labels\.json", "nan", "102")),
    Twin("coco", build_infinity, "reject", (r"labels\.json", "inf", "102")),
    Twin("coco", build_corners_instead_of_sizes, "reject", ("xyxy|x2|xmax",)),
    Twin(
        *("coco", build_category_ids_with_gaps, "accept"),
        *((), 3, 4, ("scratch", "pit", "crack")),
    ),
    Twin("coco", build_image_ids_as_text, "accept", images=3, boxes=3),
    Twin("coco", build_missing_picture, "quarantine", (r"c\.jpg", "missing|not found"), 2, 2),
    Twin("coco", build_picture_without_entry, "quarantine", (r"forgotten\.jpg",), 3, 3),
    Twin("coco", build_duplicate_annotation_id, "reject", ("101", "duplicate|unique")),
    Twin("coco", build_duplicate_image_id, "reject", ("11", "duplicate|unique")),
    Twin("coco", build_duplicate_file_name, "reject", (r"a\.jpg", "duplicate|twice|two")),
    Twin("coco", build_unknown_category, "quarantine", ("102", "9", "categor"), 2, 2),
    Twin("coco", build_unknown_image, "quarantine", ("102", "77", "image"), 3, 2),
    Twin("coco", build_duplicate_category_name, "reject", ("pit", "duplicate|same name|twice")),
    Twin("coco", build_negative_and_placeholder, "accept", (), 3, 1),
    Twin("coco", build_empty_list_as_box, "quarantine", ("102",), 2, 2),
    Twin("coco", build_size_swapped, "reject", (r"b\.jpg", "80", "60")),
    Twin("coco", build_size_of_another_picture, "reject", (r"a\.jpg", "4000", "80")),
    Twin("coco", build_polygon_without_box, "accept", (), 3, 1),
    Twin("coco", build_rle_uncompressed, "accept", (), 3, 1),
    Twin("coco", build_rle_compressed_crowd, "accept", (), 3),
    Twin("coco", build_json_cut_off, "reject", (r"labels\.json", "line|column|cut|end")),
    Twin("coco", build_json_path_outside, "reject", ("outside", r"a\.png")),
    Twin("coco", build_json_with_bom_and_windows_paths, "accept", (), 3, 3),
    Twin("coco", build_turned_picture_with_box, "accept", (), 1, 1),
]
VOC = [
    Twin("voc", build_size_zero, "warn", (r"two\.xml", "0"), 2, 2),
    Twin("voc", build_size_missing, "accept", (), 1, 1),
    Twin("voc", build_decimal_corners, "accept", (), 1, 1),
    Twin("voc", build_tag_never_closed, "quarantine", (r"two\.xml", "line|column|tag"), 1, 1),
    Twin("voc", build_corners_swapped, "quarantine", (r"one\.xml", "ymin|ymax|height"), 1, 1),
    Twin("voc", build_filename_missing, "accept", (), 1, 1),
    Twin("voc", build_filename_without_suffix, "accept", (), 1, 1),
    Twin("voc", build_filename_of_another, "warn", (r"one\.xml", r"DSC_0001\.png"), 1, 1),
    Twin("voc", build_no_objects, "accept", (), 2, 1),
    Twin("voc", build_entity_bomb, "quarantine", (r"two\.xml",), 1, 1),
    Twin("voc", build_corner_is_a_word, "quarantine", (r"one\.xml", "six"), 1, 1),
]
TOOL = [
    Twin("tool", build_yolo_in_pixels, "quarantine", (r"q\.txt", "normal|range|outside"), 1, 1),
    Twin("tool", build_yolo_line_twice, "warn", (r"p\.txt", "duplicate"), 2, 2),
    Twin("tool", build_yolo_index_without_name, "reject", (r"q\.txt", "2", r"0\.\.1|range|name")),
    Twin("tool", build_yolo_negatives, "accept", (), None, 1, ("gear", "screw")),
    Twin(
        "tool", build_yolo_column_missing, "quarantine", (r"q\.txt", "line 1|column|values"), 1, 1
    ),
    Twin(
        "tool", build_yolo_label_without_picture, "quarantine", (r"q\.txt", "missing|no pic"), 1, 1
    ),
    Twin("tool", build_yolo_box_over_the_edge, "warn", (r"p\.txt", "clip"), 2, 2),
    Twin("tool", build_yolo_polygons, "accept", (), 2, 2),
    Twin("tool", build_yolo_names_by_number, "accept", (), 2, 2, ("gear", "screw")),
    Twin("tool", build_yolo_count_differs, "reject", (r"data\.yaml", "5", "2")),
    Twin("tool", build_labelme_windows_path, "accept", (), 1, 1),
    Twin("tool", build_labelme_polygon, "accept", (), 1, 1),
    Twin("tool", build_labelme_corners_swapped, "accept", (), 1, 1),
    Twin("tool", build_labelme_point, "quarantine", (r"p\.json", "point"), 1, 1),
    Twin("tool", build_labelme_picture_gone, "quarantine", (r"o\.json|p\.json",), 1, 1),
]
TWINS = [*COCO, *VOC, *TOOL]
