"""The writers, listed once: what a manifest can be written out as."""

CHOICES = {
    "coco": "enginehouse.convert.coco_writer",
    "csv": "enginehouse.convert.csv_writer",
    "yolo": "enginehouse.convert.yolo_writer",
}
