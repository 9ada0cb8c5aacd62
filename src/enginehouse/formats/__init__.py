"""The label formats, listed once: name to module."""

CHOICES = {
    "class_folders": "enginehouse.formats.class_folders",
    "file_list": "enginehouse.formats.file_list",
    "csv": "enginehouse.formats.csv_table",
    "excel": "enginehouse.formats.excel",
    "coco": "enginehouse.formats.coco",
    "voc": "enginehouse.formats.voc",
    "yolo": "enginehouse.formats.yolo",
    "labelme": "enginehouse.formats.labelme",
}
