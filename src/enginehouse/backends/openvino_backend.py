"""OpenVINO on the CPU: the engine in the store is its intermediate representation (IR).

The IR depends on the ONNX file, the batch profile and the library's version, not on the
processor; kernels are chosen when it is loaded. Model conversion by `openvino.convert_model` is
not used: it writes the input's path into the IR, folds constants to other bits, and is the door
to the library's telemetry. `Core.read_model` does none of that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from enginehouse.artifact import Report
from enginehouse.backends import _cpu
from enginehouse.engine import (
    Contract,
    Device,
    Pictures,
    Precision,
    Probabilities,
    Sidecar,
    Target,
)
from enginehouse.errors import EngineError, Unavailable
from enginehouse.processor import has_bf16

LIBRARY = "openvino"
EXTRA = ""
LIBRARIES = ("numpy", "openvino")
PRECISIONS: dict[Precision, str] = {
    "fp32": "fp32",
    "fp16": "fp32; fp16 weights are widened when the engine is loaded",
    "bf16": "as the graph is typed, on processors that have bf16",
    "int8": "int8; what is float in fp32",
}
# For every precision: "fp32" must mean fp32 on processors where the default is bf16, what is float
# in an INT8 graph keeps its numbers everywhere, and of a bf16 graph the ends stay in fp32 (told
# bf16, it would round the logits too; ResNet-18 takes the same time either way). On an AVX512
# processor with VNNI and bf16, INT8 ResNet-18 and ResNet-50 took the same time with f32 and bf16.
INFERENCE_PRECISION = "f32"

_COUNTED_NAME = re.compile(r"([A-Z][A-Za-z0-9]*)_\d+")  # as `ShapeOf_12426`


def find_missing() -> str | None:
    """Why OpenVINO cannot be used here, or None."""
    return _cpu.find_missing(LIBRARY)


def describe_build_device(target: Target) -> Device:
    """Only the library's version: the IR is the same on every processor."""
    return _cpu.describe_device(target, LIBRARY, with_model=False)


def describe_run_device(target: Target) -> Device:
    """Processor and library: the kernels, and with them the last bits, depend on both."""
    return _cpu.describe_device(target, LIBRARY, with_model=True)


def build(
    onnx: Path, target: Target, contract: Contract, folder: Path, report: Report
) -> dict[str, str]:
    """Write `engine.xml` and `engine.bin`, the batch bounded by the target's profile.

    Raises:
        EngineError: OpenVINO cannot read the graph; holds its own words, which name the node.
    """
    import openvino as ov

    report("read ONNX", 0, 2)
    batch = target.batch
    shape = [ov.Dimension(batch.min, batch.max), 3, contract.size, contract.size]
    try:
        model = ov.Core().read_model(onnx)
        model.reshape({contract.input_name: ov.PartialShape(shape)})
    except RuntimeError as error:
        raise EngineError(
            f"OpenVINO cannot build the graph: {_last_words(error)}",
            "Export the model again; if it stays, choose another architecture or backend.",
        ) from error
    report("write IR", 1, 2)
    _renumber(model)
    # Weights stay as they are: `compress_to_fp16` is on by default and would halve fp32 ones.
    ov.save_model(model, folder / "engine.xml", compress_to_fp16=False)
    report("written", 2, 2)
    return {
        "compress_to_fp16": "no",
        "inference_precision": INFERENCE_PRECISION,
        "computes": PRECISIONS[target.precision],
    }


def _renumber(model: Any) -> None:
    """Name by position the nodes that OpenVINO named by a counter of the whole process.

    Otherwise the bytes would depend on what the process had built before.
    """
    for number, node in enumerate(model.get_ordered_ops()):
        if found := _COUNTED_NAME.fullmatch(node.get_friendly_name()):
            node.set_friendly_name(f"{found[1]}.{number}")


class OpenVinoSession:
    """A compiled model with one inference request; calls must not overlap."""

    def __init__(self, compiled: Any) -> None:
        self._request = compiled.create_infer_request()

    def run(self, pictures: Pictures) -> Probabilities:
        """float32 [n, classes] of uint8 [n, 3, size, size]; n within the batch profile."""
        result: Probabilities = self._request.infer([pictures], share_inputs=True)[0]
        return result

    def close(self) -> None:
        """Give the compiled model back."""
        self._request = None


def load(files: Mapping[str, Path], sidecar: Sidecar, threads: int) -> OpenVinoSession:
    """Compile the IR for this processor, tuned for latency.

    Raises:
        Unavailable: a bf16 engine, and the processor has no bf16.
        EngineError: the files are no IR that this version reads.
    """
    import openvino as ov

    options: dict[str, Any] = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": INFERENCE_PRECISION,
    }
    if threads:
        options["INFERENCE_NUM_THREADS"] = threads
    core = ov.Core()
    try:
        model = core.read_model(files["engine.xml"], files["engine.bin"])
        compiled = core.compile_model(model, "CPU", options)
    except RuntimeError as error:
        raise EngineError(
            f"OpenVINO cannot load the engine: {_last_words(error)}",
            "Build the engine again with the OpenVINO that is installed here.",
        ) from error
    kinds = {op.get_output_element_type(0) for op in model.get_ops() if op.get_output_size()}
    if ov.Type.bf16 in kinds:
        _check_bf16(compiled)
    return OpenVinoSession(compiled)


def _check_bf16(compiled: Any) -> None:
    """Refuse a bf16 engine that this processor would widen or emulate, which OpenVINO tells nobody.

    Without AVX512 it computes in f32; with AVX512 alone it emulates bf16, slower than f32.

    Raises:
        Unavailable: the processor has no bf16.
    """
    nodes = compiled.get_runtime_model().get_ordered_ops()
    computed = {node.get_rt_info()["runtimePrecision"].astype(str) for node in nodes}
    if "bf16" not in computed or not has_bf16():
        how = "emulate it" if "bf16" in computed else "compute in f32 instead"
        raise Unavailable(
            f"The engine is in bf16, for which this processor has no instructions; OpenVINO would "
            f"{how}.",
            "Run it on a processor with AVX512-BF16 or AMX, or ship another precision.",
        )


def _last_words(error: RuntimeError) -> str:
    """The library's message without the lines that name its own source files."""
    lines = (line.strip() for line in str(error).splitlines())
    kept = [line for line in lines if line and not line.startswith("Exception from src/")]
    return " ".join(kept) or str(error).strip()
