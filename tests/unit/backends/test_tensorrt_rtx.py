"""TensorRT-RTX built for real, with no GPU: needs the extra rtx, else skipped visibly."""

from __future__ import annotations

import importlib
import struct
from pathlib import Path

import onnx
import pytest

from enginehouse.artifact import silent
from enginehouse.backends import _tensorrt, tensorrt_rtx_backend
from enginehouse.engine import Precision, Sidecar, Target
from enginehouse.errors import EngineError, RecipeError, Unavailable
from tests.unit.tiny_engines import CONTRACT, TARGET, make_graph, save_graph

KNOWN = ["7.5", "8.0", "8.6", "8.9", "12.0", "12.1"]


@pytest.fixture(autouse=True)
def _needs_rtx(request: pytest.FixtureRequest) -> None:
    missing = tensorrt_rtx_backend.find_missing()
    if missing and "plan_header" not in request.node.name:
        pytest.skip(missing)


def make_target(device: str, precision: Precision = "int8") -> Target:
    changes = {"backend": "tensorrt_rtx", "device": device, "precision": precision}
    return TARGET.model_copy(update=changes)


def make_sidecar() -> Sidecar:
    return Sidecar(
        backend="tensorrt_rtx",
        library="tensorrt-rtx",
        library_version="",
        device={},
        precision="fp32",
        batch=TARGET.batch,
        contract=CONTRACT,
        onnx_sha256="",
    )


@pytest.mark.parametrize("precision", tensorrt_rtx_backend.PRECISIONS)
def test_builds_ahead_of_time_for_the_named_capabilities(
    precision: Precision, tmp_path: Path
) -> None:
    target = make_target("sm89+sm86+sm120", precision)
    graph = save_graph(tmp_path, precision)
    flags = tensorrt_rtx_backend.build(graph, target, CONTRACT, tmp_path, silent)
    plan = (tmp_path / "engine.plan").read_bytes()
    tensorrt_rtx_backend.check_plan(plan, ["8.6", "8.9", "12.0"], KNOWN)
    assert flags["compute_capabilities"] == "8.9+8.6+12.0"
    assert flags["computes"] == tensorrt_rtx_backend.PRECISIONS[precision]
    device = tensorrt_rtx_backend.describe_build_device(target)
    assert (device.capability, device.model, device.driver) == (
        "8.9+8.6+12.0",
        "",
        "",
    )
    assert device.libraries.keys() == {"tensorrt-rtx"}


def test_unknown_operator_is_named_with_its_node(tmp_path: Path) -> None:
    model = make_graph()
    next(node for node in model.graph.node if node.op_type == "Relu").op_type = "Bewilder"
    onnx.save(model, tmp_path / "odd.onnx")
    with pytest.raises(EngineError, match=r"node 'node_relu_4' \(Bewilder\)"):
        tensorrt_rtx_backend.build(
            tmp_path / "odd.onnx", make_target("sm86", "fp32"), CONTRACT, tmp_path, silent
        )


def test_what_cannot_be_compiled_is_told_in_the_librarys_words(tmp_path: Path) -> None:
    """Turing has no fp32 matrix product in this library."""
    with pytest.raises(EngineError, match=r"cannot build the engine: .*SM75"):
        tensorrt_rtx_backend.build(
            save_graph(tmp_path), make_target("sm75", "fp32"), CONTRACT, tmp_path, silent
        )
    assert not (tmp_path / "engine.plan").exists()


def test_capability_that_the_library_does_not_serve_is_refused() -> None:
    with pytest.raises(RecipeError, match=r"9\.0; TensorRT-RTX .* serves 7\.5, 8\.0"):
        tensorrt_rtx_backend.describe_build_device(make_target("sm90"))


def test_local_gpu_is_needed_to_build_for_it_and_to_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for call in (
        lambda: tensorrt_rtx_backend.describe_build_device(make_target("gpu")),
        lambda: tensorrt_rtx_backend.describe_run_device(make_target("sm86")),
        lambda: tensorrt_rtx_backend.load({}, make_sidecar(), 0),
    ):
        with pytest.raises(Unavailable, match="needs an NVIDIA GPU; none is here"):
            call()


def test_plan_that_the_runtime_gives_none_for_is_an_engine_error(tmp_path: Path) -> None:
    (tmp_path / "engine.plan").write_bytes(b"vtrt, but no plan")
    trt = importlib.import_module("tensorrt_rtx")
    with pytest.raises(EngineError, match="cannot load the engine"):
        _tensorrt.TensorRtSession(trt, tmp_path / "engine.plan", make_sidecar())


def make_plan(mask: int) -> bytes:
    return b"vtrt" + bytes(28) + struct.pack("<I", mask) + bytes(64)


def test_plan_header_is_compared_with_what_was_asked() -> None:
    tensorrt_rtx_backend.check_plan(make_plan(0b001100), ["8.9", "8.6"], KNOWN)
    for plan, words in (
        (make_plan(0b000100), r"built for compute capability 8\.6 .* 8\.9, 8\.6 was asked"),
        (make_plan(0b1001100), r"mask 0x4c"),
        (b"vtrt", "4 bytes"),
        (b"ftrt" + bytes(64), "do not begin as a plan does"),
    ):
        with pytest.raises(EngineError, match=words):
            tensorrt_rtx_backend.check_plan(plan, ["8.9", "8.6"], KNOWN)
