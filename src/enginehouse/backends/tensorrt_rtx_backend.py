"""TensorRT-RTX: engines for GeForce and RTX cards, built ahead of time, with no GPU needed."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from enginehouse.artifact import Report
from enginehouse.backends import _tensorrt
from enginehouse.backends._gpu import find_gpu
from enginehouse.engine import Contract, Device, Sidecar, Target
from enginehouse.errors import EngineError, RecipeError, Unavailable

LIBRARY = "tensorrt-rtx"
EXTRA = "rtx"
LIBRARIES = ("numpy", "onnx", "tensorrt_rtx", "torch")
PRECISIONS = _tensorrt.PRECISIONS


def find_missing() -> str | None:
    """Why TensorRT-RTX cannot be imported here, or None."""
    return _tensorrt.find_missing("tensorrt_rtx", EXTRA, _import_library)


def describe_build_device(target: Target) -> Device:
    """The capabilities to build for, and the library: nothing else enters the plan.

    Raises:
        RecipeError: the target's device is the cpu, or a capability that the library cannot serve.
        Unavailable: no TensorRT-RTX here; for device `gpu`: no GPU here, or not one that it serves.
    """
    wanted = _tensorrt.list_capabilities(target)
    trt = _import_library()
    known = _list_known(trt)
    if not wanted:
        gpu = find_gpu(f"Target {target.name!r}, built for the local GPU,")
        wanted = (gpu.capability,)
        if gpu.capability not in known:
            raise Unavailable(
                f"TensorRT-RTX {trt.__version__} serves compute capabilities "
                f"{', '.join(known)}; the GPU here ({gpu.model}) has {gpu.capability}.",
                "Use the backend tensorrt on this GPU.",
            )
    if unknown := [name for name in wanted if name not in known]:
        raise RecipeError(
            f"Target {target.name!r} wants compute capability {', '.join(unknown)}; TensorRT-RTX "
            f"{trt.__version__} serves {', '.join(known)}.",
            "Name capabilities that it serves, or use the backend tensorrt.",
        )
    return Device(
        device_class=target.device,
        capability="+".join(wanted),
        libraries={LIBRARY: trt.__version__},
    )


def describe_run_device(target: Target) -> Device:
    """The local GPU.

    Raises:
        RecipeError: the target's device is the cpu.
        Unavailable: no TensorRT-RTX or no GPU here, or not one that the target names.
    """
    _tensorrt.list_capabilities(target)
    gpu = find_gpu(f"Target {target.name!r}, a TensorRT-RTX engine,")
    _tensorrt.check_capability(target, gpu)
    trt = _import_library()
    return Device(
        device_class=target.device,
        model=gpu.model,
        capability=gpu.capability,
        driver=gpu.driver,
        libraries={LIBRARY: trt.__version__},
    )


def build(
    onnx: Path, target: Target, contract: Contract, folder: Path, report: Report
) -> dict[str, str]:
    """Write `engine.plan`; its bytes differ from build to build.

    Raises:
        RecipeError, Unavailable: as `describe_build_device`.
        EngineError: the graph cannot be parsed or built; names node and operator where known.
    """
    trt = _import_library()
    wanted = describe_build_device(target).capability.split("+")

    def configure(config: Any) -> None:
        config.num_compute_capabilities = len(wanted)
        for index, name in enumerate(wanted):
            config.set_compute_capability(getattr(trt.ComputeCapability, _enum_name(name)), index)

    plan = _tensorrt.build_plan(trt, onnx, target, contract, report, configure)
    check_plan(plan, wanted, _list_known(trt))
    (folder / _tensorrt.PLAN).write_bytes(plan)
    return {
        "strongly_typed": "yes",
        "tf32": "off",
        "computes": PRECISIONS[target.precision],
        "compute_capabilities": "+".join(wanted),
    }


def check_plan(plan: bytes, wanted: Sequence[str], known: Sequence[str]) -> None:
    """Check that a plan was built for what was asked, by its header.

    The header is not documented; seen in plans of 1.7: bytes 0 to 3 `vtrt`; a little-endian
    uint32 at 32 with one bit per capability, in the order in which the library lists them.

    Raises:
        EngineError: it is no plan, or one for other capabilities.
    """
    if len(plan) < 36 or plan[:4] != b"vtrt":
        raise EngineError(
            f"TensorRT-RTX wrote {len(plan)} bytes that do not begin as a plan does.",
            "Use the version of TensorRT-RTX that the extra rtx pins.",
        )
    (mask,) = struct.unpack_from("<I", plan, 32)
    found = [name for bit, name in enumerate(known) if mask >> bit & 1]
    if mask >> len(known) or sorted(found) != sorted(set(wanted)):
        raise EngineError(
            f"TensorRT-RTX built for compute capability {', '.join(found) or 'none'} (mask "
            f"{mask:#x}); {', '.join(wanted)} was asked for.",
            "Use the version of TensorRT-RTX that the extra rtx pins.",
        )


def load(files: Mapping[str, Path], sidecar: Sidecar, threads: int) -> _tensorrt.TensorRtSession:
    """Deserialise the plan on the current CUDA device. `threads` does not matter to a GPU.

    Raises:
        Unavailable: no GPU here; asked first, for without one the runtime can crash.
        EngineError: TensorRT-RTX cannot deserialise the plan.
    """
    find_gpu("A TensorRT-RTX engine")
    trt = _import_library()
    return _tensorrt.TensorRtSession(trt, files[_tensorrt.PLAN], sidecar)


def _list_known(trt: Any) -> list[str]:
    """The capabilities that the library serves, as `8.6`, in its own order."""
    names = [name for name in trt.ComputeCapability.__members__ if name.startswith("SM")]
    return [f"{name[2:-1]}.{name[-1]}" for name in names]


def _enum_name(capability: str) -> str:
    return "SM" + capability.replace(".", "")


def _import_library() -> Any:
    with _tensorrt.explain_missing("tensorrt_rtx", EXTRA):
        import tensorrt_rtx
    return tensorrt_rtx
