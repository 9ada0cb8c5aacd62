"""The problems, listed once: name to module."""

CHOICES = {
    "single_label": "enginehouse.problems.single_label",
    "multi_label": "enginehouse.problems.multi_label",
}
