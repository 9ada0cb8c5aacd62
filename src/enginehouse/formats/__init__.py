"""The label formats, listed once: name to module."""

CHOICES = {
    "class_folders": "enginehouse.formats.class_folders",
}
