"""Build: an ONNX file becomes an engine for one target, with a sidecar that says for what."""

from __future__ import annotations

from enginehouse.artifact import Workspace
from enginehouse.build.record import Engine
from enginehouse.engine import Backend, Device, Sidecar, Target, load_backend
from enginehouse.errors import EngineError, EngineMismatch
from enginehouse.export.record import OnnxModel

LIBRARIES = ("numpy",)


def build(onnx: OnnxModel, device: Device, config: Target, here: Workspace) -> Engine:
    """Build the engine of one target.

    Args:
        onnx: the graph; its precision must be the target's.
        device: what the backend's `describe_build_device` says of this target, here and now.
        config: the target.
        here: workspace.

    Raises:
        EngineMismatch: the device record is not this machine's.
        Unavailable: this machine cannot build for the target.
        EngineError: the graph cannot be built, or has another precision.
    """
    backend = load_backend(config.backend)
    _check_inputs(onnx, device, config, backend)
    flags = backend.build(
        here.path(onnx, "model.onnx"), config, onnx.contract, here.scratch, here.report
    )
    names = sorted(path.name for path in here.scratch.iterdir())
    sidecar = Sidecar(
        backend=config.backend,
        library=backend.LIBRARY,
        library_version=device.libraries[backend.LIBRARY],
        device=device.model_dump(
            include={"device_class", "model", "capability", "driver", "libraries"}
        ),
        precision=config.precision,
        batch=config.batch,
        contract=onnx.contract,
        onnx_sha256=onnx.files["model.onnx"].sha256,
        flags=flags,
    )
    return Engine(files=here.seal(names), target=config, sidecar=sidecar)


def _check_inputs(onnx: OnnxModel, device: Device, config: Target, backend: Backend) -> None:
    if onnx.precision != config.precision:
        raise EngineError(
            f"Target {config.name!r} wants {config.precision}; the ONNX graph is {onnx.precision}.",
            "Give it the graph that was exported with that precision.",
        )
    local = backend.describe_build_device(config)
    if local.identity != device.identity:
        raise EngineMismatch(
            f"Target {config.name!r} was to be built on {device.describe()}; here is "
            f"{local.describe()}.",
            "Describe the build device again, on the machine that builds.",
        )
