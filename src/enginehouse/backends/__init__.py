"""The backends, listed once: name to module."""

CHOICES = {
    "openvino": "enginehouse.backends.openvino_backend",
    "onnxruntime": "enginehouse.backends.onnxruntime_backend",
    "tensorrt": "enginehouse.backends.tensorrt_backend",
    "tensorrt_rtx": "enginehouse.backends.tensorrt_rtx_backend",
}
