"""ONNX Runtime on the CPU: the engine is an ONNX file, spelled so that INT8 kernels are found."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from enginehouse.artifact import Report
from enginehouse.backends import _cpu
from enginehouse.backends._onnxruntime_rewrite import onnxruntime_from_symmetric
from enginehouse.engine import (
    Contract,
    Device,
    Pictures,
    Precision,
    Probabilities,
    Sidecar,
    Target,
)
from enginehouse.errors import EngineError
from enginehouse.processor import has_vnni

LIBRARY = "onnxruntime"
EXTRA = ""
LIBRARIES = ("numpy", "onnx", "onnxruntime")
PRECISIONS: dict[Precision, str] = {
    "fp32": "fp32",
    "fp16": "fp32; fp16 weights are widened, and casts to fp16 kept or left out at will",
    "int8": "int8 activations as uint8, biases as int32; what is float in fp32",
}


def find_missing() -> str | None:
    """Why ONNX Runtime cannot be used here, or None."""
    return _cpu.find_missing(LIBRARY)


def describe_build_device(target: Target) -> Device:
    """Only the library's version: the file is the same on every processor."""
    return _cpu.describe_device(target, LIBRARY, with_model=False)


def describe_run_device(target: Target) -> Device:
    """Processor and library: the kernels, and with them the last bits, depend on both."""
    return _cpu.describe_device(target, LIBRARY, with_model=True)


def build(
    onnx: Path, target: Target, contract: Contract, folder: Path, report: Report
) -> dict[str, str]:
    """Write `engine.onnx`: an INT8 graph rewritten for this library, others as they are.

    The batch dimension stays open; sessions are fed within the profile.

    Raises:
        EngineError: ONNX Runtime has no kernels for the precision, or cannot load the result; then
            holds its own words.
    """
    if target.precision not in PRECISIONS:
        raise EngineError(
            f"ONNX Runtime's CPU provider has no {target.precision} kernels; it runs "
            f"{', '.join(PRECISIONS)}.",
            f"Use the backend openvino for {target.precision} on the CPU.",
        )
    import onnx as onnx_library

    report("read ONNX", 0, 2)
    path = folder / "engine.onnx"
    if target.precision == "int8":
        model = onnxruntime_from_symmetric(onnx_library.load(onnx))
        path.write_bytes(model.SerializeToString(deterministic=True))
    else:
        path.write_bytes(onnx.read_bytes())
    report("check", 1, 2)
    _open_session(path, target.precision, threads=1)
    report("written", 2, 2)
    return {"computes": PRECISIONS[target.precision]}


class OnnxRuntimeSession:
    """An inference session."""

    def __init__(self, session: Any, contract: Contract) -> None:
        self._session = session
        self._contract = contract

    def run(self, pictures: Pictures) -> Probabilities:
        """float32 [n, classes] of uint8 [n, 3, size, size]."""
        names = self._contract
        result: Probabilities = self._session.run(
            [names.output_name], {names.input_name: pictures}
        )[0]
        return result

    def close(self) -> None:
        """Give the session back."""
        self._session = None


def load(files: Mapping[str, Path], sidecar: Sidecar, threads: int) -> OnnxRuntimeSession:
    """Open a session on the CPU.

    Raises:
        EngineError: this version cannot load the file.
    """
    session = _open_session(files["engine.onnx"], sidecar.precision, threads)
    return OnnxRuntimeSession(session, sidecar.contract)


def _open_session(path: Path, precision: Precision, threads: int) -> Any:
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # looked at by the import
    import onnxruntime
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    onnxruntime.disable_telemetry_events()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4  # what fails is raised, with the same words
    # Idle threads that spin take cores from whatever else runs, other engines in this process too.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if not has_vnni():
        # There the fast uint8 x int8 kernels add pairs of products in 16 bits, which overflows;
        # this asks for exact ones. With VNNI it would only cost (2.7 times on ResNet-18).
        options.add_session_config_entry("session.x64quantprecision", "1")
    # ONNX Runtime 1.32 crashes when it lays out the fp16 convolution of a vision transformer anew.
    avoided = ["NchwcTransformer"] if precision == "fp16" else []
    try:
        return onnxruntime.InferenceSession(
            path, options, providers=["CPUExecutionProvider"], disabled_optimizers=avoided
        )
    except (
        state.EPFail,
        state.Fail,
        state.InvalidArgument,
        state.InvalidGraph,
        state.InvalidProtobuf,
        state.NotImplemented,
        state.RuntimeException,
    ) as error:
        raise EngineError(
            f"ONNX Runtime cannot load the graph: {str(error).strip()}",
            "Export the model again; if it stays, choose another architecture or backend.",
        ) from error
