"""TensorRT 10 and 11: engines for the GPU they were built on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from enginehouse.artifact import Report
from enginehouse.backends import _tensorrt
from enginehouse.backends._gpu import find_gpu
from enginehouse.engine import Contract, Device, Sidecar, Target

LIBRARY = "tensorrt"
EXTRA = "tensorrt"
# The distribution may also be called tensorrt-cu12 or -cu13: the device record has the version.
LIBRARIES = ("numpy", "onnx", "tensorrt", "torch")
PRECISIONS = _tensorrt.PRECISIONS


def find_missing() -> str | None:
    """Why TensorRT cannot be imported here, or None."""
    return _tensorrt.find_missing("tensorrt", EXTRA, _import_library)


def describe_build_device(target: Target) -> Device:
    """The local GPU: kernels are timed on it, and the plan runs on its like only.

    Raises:
        RecipeError: the target's device is the cpu.
        Unavailable: no GPU or no TensorRT here, or not one that the target names.
    """
    _tensorrt.list_capabilities(target)
    gpu = find_gpu(f"Target {target.name!r}, a TensorRT engine,")
    _tensorrt.check_capability(target, gpu)
    trt = _import_library()
    return Device(
        device_class=target.device,
        model=gpu.model,
        capability=gpu.capability,
        driver=gpu.driver,
        libraries={LIBRARY: trt.__version__},
    )


def describe_run_device(target: Target) -> Device:
    """As `describe_build_device`: an engine runs where it could have been built."""
    return describe_build_device(target)


def build(
    onnx: Path, target: Target, contract: Contract, folder: Path, report: Report
) -> dict[str, str]:
    """Write `engine.plan`; its bytes differ from build to build, for kernels are timed.

    Raises:
        Unavailable: no GPU or no TensorRT here.
        EngineError: the graph cannot be parsed or built; names node and operator where known.
    """
    find_gpu("Building a TensorRT engine")
    trt = _import_library()
    plan = _tensorrt.build_plan(trt, onnx, target, contract, report, lambda config: None)
    (folder / _tensorrt.PLAN).write_bytes(plan)
    return {"strongly_typed": "yes", "tf32": "off", "computes": PRECISIONS[target.precision]}


def load(files: Mapping[str, Path], sidecar: Sidecar, threads: int) -> _tensorrt.TensorRtSession:
    """Deserialise the plan on the current CUDA device. `threads` does not matter to a GPU.

    Raises:
        Unavailable: no GPU here; asked first, for without one the runtime can crash.
        EngineError: TensorRT cannot deserialise the plan.
    """
    find_gpu("A TensorRT engine")
    trt = _import_library()
    return _tensorrt.TensorRtSession(trt, files[_tensorrt.PLAN], sidecar)


def _import_library() -> Any:
    with _tensorrt.explain_missing("tensorrt", EXTRA):
        import tensorrt
    return tensorrt
