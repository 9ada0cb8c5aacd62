"""The quantizers, listed once: name to module."""

CHOICES = {
    "int8_ptq": "enginehouse.quantizers.int8_ptq",
}
