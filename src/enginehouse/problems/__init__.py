"""The problems, listed once: name to module."""

CHOICES = {
    "single_label": "enginehouse.problems.single_label",
}
