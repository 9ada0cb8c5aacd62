"""The losses, listed once: name to module."""

CHOICES = {
    "cross_entropy": "enginehouse.losses.cross_entropy",
    "bce": "enginehouse.losses.bce",
    "focal": "enginehouse.losses.focal",
    "mse": "enginehouse.losses.mse",
    "l1": "enginehouse.losses.l1",
    "huber": "enginehouse.losses.huber",
}
