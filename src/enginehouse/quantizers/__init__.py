"""The quantizers, listed once: name to module."""

CHOICES = {
    "bf16": "enginehouse.quantizers.bf16",
    "fp16": "enginehouse.quantizers.fp16",
    "int8_ptq": "enginehouse.quantizers.int8_ptq",
    "int8_qat": "enginehouse.quantizers.int8_qat",
    "none": "enginehouse.quantizers.none",
}
