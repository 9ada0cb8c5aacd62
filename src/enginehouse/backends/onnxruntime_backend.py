"""ONNX Runtime on the CPU: the engine is an ONNX file, spelled so that INT8 kernels are found."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from enginehouse.artifact import Report
from enginehouse.backends import _cpu
from enginehouse.backends._onnxruntime_rewrite import onnxruntime_from_symmetric
from enginehouse.engine import Contract, Device, Pictures, Probabilities, Sidecar, Target
from enginehouse.errors import EngineError
from enginehouse.processor import has_vnni

LIBRARY = "onnxruntime"
EXTRA = ""
LIBRARIES = ("numpy", "onnx", "onnxruntime")


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
    """Write `engine.onnx`: an INT8 graph rewritten for this library, an fp32 graph as it is.

    The batch dimension stays open; sessions are fed within the profile.

    Raises:
        EngineError: ONNX Runtime cannot load the result; holds its own words.
    """
    import onnx as onnx_library

    report("read ONNX", 0, 2)
    path = folder / "engine.onnx"
    if target.precision == "int8":
        model = onnxruntime_from_symmetric(onnx_library.load(onnx))
        path.write_bytes(model.SerializeToString(deterministic=True))
    else:
        path.write_bytes(onnx.read_bytes())
    report("check", 1, 2)
    _open_session(path, threads=1)
    report("written", 2, 2)
    return {"spelling": "uint8 activations, int32 bias" if target.precision == "int8" else "as is"}


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
    return OnnxRuntimeSession(_open_session(files["engine.onnx"], threads), sidecar.contract)


def _open_session(path: Path, threads: int) -> Any:
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
    try:
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
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
