"""The model families, listed once: name to module."""

CHOICES = {
    "torchvision": "enginehouse.models.torchvision_family",
    "timm": "enginehouse.models.timm_family",
    "tiny": "enginehouse.models.tiny_family",
}
