"""The losses, listed once: name to module."""

CHOICES = {
    "cross_entropy": "enginehouse.losses.cross_entropy",
}
