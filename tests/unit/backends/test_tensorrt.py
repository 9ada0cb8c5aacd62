"""The code that TensorRT and TensorRT-RTX share, against a stand-in module and the real names."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from enginehouse.artifact import silent
from enginehouse.backends import _tensorrt, tensorrt_backend
from enginehouse.backends._gpu import Gpu, find_gpu
from enginehouse.backends._tensorrt_graph import check_symmetric
from enginehouse.engine import Sidecar, Target
from enginehouse.errors import EngineError, EngineMismatch, RecipeError, Unavailable
from tests.unit.backends.fake_tensorrt import FakeTensorRt
from tests.unit.tiny_engines import CONTRACT, TARGET, make_graph, make_pictures, save_graph

GPU_TARGET = TARGET.model_copy(update={"backend": "tensorrt", "device": "gpu"})

NAMES = {
    "Builder": "create_network create_builder_config create_optimization_profile "
    "build_serialized_network",
    "IBuilderConfig": "clear_flag add_optimization_profile",
    "IOptimizationProfile": "set_shape",
    "OnnxParser": "parse_from_file num_errors get_error",
    "ParserError": "node_name node_operator desc",
    "Runtime": "deserialize_cuda_engine",
    "ICudaEngine": "create_execution_context get_tensor_shape",
    "IExecutionContext": "set_input_shape set_tensor_address execute_async_v3",
    "NetworkDefinitionCreationFlag": "STRONGLY_TYPED",
    "BuilderFlag": "TF32",
    "ILogger": "log Severity",
}


def build_with(trt: Any, graph: Path) -> bytes:
    return _tensorrt.build_plan(trt, graph, GPU_TARGET, CONTRACT, silent, lambda config: None)


def make_sidecar() -> Sidecar:
    return Sidecar(
        backend="tensorrt",
        library="tensorrt",
        library_version="11.4.0",
        device={},
        precision="fp32",
        batch=TARGET.batch,
        contract=CONTRACT,
        onnx_sha256="",
    )


@pytest.mark.parametrize("module", ["tensorrt", "tensorrt_rtx"])
def test_every_name_that_we_use_exists_in_the_real_module(module: str) -> None:
    try:
        trt = importlib.import_module(module)
    except (ImportError, OSError) as error:
        pytest.skip(f"{module} is not installed: {error}")
    for owner, names in NAMES.items():
        for name in names.split():
            assert hasattr(getattr(trt, owner), name), f"{owner}.{name}"
    assert trt.ILogger.Severity.INTERNAL_ERROR <= trt.ILogger.Severity.ERROR
    assert not trt.ILogger.Severity.WARNING <= trt.ILogger.Severity.ERROR
    assert int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED) >= 0
    logger = _tensorrt._make_logger(trt)
    logger.log(trt.ILogger.Severity.ERROR, "a\nb")
    assert logger.last_words() == "a b"


def test_build_is_strongly_typed_without_tf32_and_takes_the_profile(tmp_path: Path) -> None:
    trt = FakeTensorRt()
    assert build_with(trt, save_graph(tmp_path)) == b"the plan"
    assert trt.told == {
        "network_flags": 2,
        "cleared": "TF32",
        "profile": ("pictures", (1, 3, 16, 16), (2, 3, 16, 16), (4, 3, 16, 16)),
    }


@pytest.mark.parametrize(
    ("fails", "words"),
    [
        ("parse", r"cannot parse .* node 'node_relu_4' \(Relu\): no such op"),
        ("profile", "batch profile 1/2/4 does not fit .* no such input"),
        ("build", "cannot build .* no kernel for node_gemm"),
    ],
)
def test_what_the_library_says_of_a_failure_is_in_the_error(
    fails: str, words: str, tmp_path: Path
) -> None:
    with pytest.raises(EngineError, match=words) as caught:
        build_with(FakeTensorRt(fails), save_graph(tmp_path))
    assert "not an error" not in str(caught.value) and caught.value.remedy


@pytest.mark.parametrize("fails", ["deserialize", "context"])
def test_plan_that_cannot_be_loaded_is_an_engine_error(fails: str, tmp_path: Path) -> None:
    plan = tmp_path / "plan"
    plan.write_bytes(b"bytes")
    with pytest.raises(EngineError, match="cannot load the engine"):
        _tensorrt.TensorRtSession(FakeTensorRt(fails), plan, make_sidecar())


def test_plan_with_another_number_of_classes_is_a_mismatch(tmp_path: Path) -> None:
    plan = tmp_path / "plan"
    plan.write_bytes(b"bytes")
    with pytest.raises(EngineMismatch, match="promises 3 classes"):
        _tensorrt.TensorRtSession(FakeTensorRt(classes=7), plan, make_sidecar())


def test_symmetric_and_plain_graphs_pass_the_check(tmp_path: Path) -> None:
    for precision in ("fp32", "int8"):
        check_symmetric(save_graph(tmp_path, precision))


def _change_zero_point(value: np.generic) -> onnx.ModelProto:
    model = make_graph("int8")
    node = next(node for node in model.graph.node if node.op_type == "QuantizeLinear")
    model.graph.initializer.append(numpy_helper.from_array(np.asarray(value), "odd"))
    node.input[2] = "odd"
    return model


def _drop_zero_point() -> onnx.ModelProto:
    model = make_graph("int8")
    del next(node for node in model.graph.node if node.op_type == "QuantizeLinear").input[2]
    return model


def _hide_in_constant() -> onnx.ModelProto:
    model = _change_zero_point(np.int8(0))
    value = numpy_helper.from_array(np.asarray(np.uint8(0)), "value")
    model.graph.initializer.pop()
    model.graph.node.insert(0, helper.make_node("Constant", [], ["odd"], value=value))
    return model


@pytest.mark.parametrize(
    ("model", "fault"),
    [
        (_change_zero_point(np.uint8(0)), "is uint8"),
        (_change_zero_point(np.int8(3)), "has zero point 3"),
        (_drop_zero_point(), "is uint8"),
        (_hide_in_constant(), "is uint8"),
    ],
)
def test_what_tensorrt_would_silently_get_wrong_is_refused_by_node(
    model: onnx.ModelProto, fault: str, tmp_path: Path
) -> None:
    path = tmp_path / "odd.onnx"
    onnx.save(model, path)
    with pytest.raises(EngineError, match=rf"node 'node_quantizelinear_3' .* {fault}"):
        build_with(FakeTensorRt(), path)


def test_capabilities_come_from_the_targets_device() -> None:
    def read(device: str) -> tuple[str, ...]:
        return _tensorrt.list_capabilities(Target(backend="tensorrt", device=device))

    assert read("gpu") == () and read("sm86+sm120") == ("8.6", "12.0")
    with pytest.raises(RecipeError, match="device is cpu"):
        read("cpu")


def test_gpu_of_another_capability_is_unavailable() -> None:
    target = Target(backend="tensorrt", device="sm86+sm89")
    _tensorrt.check_capability(target, Gpu("RTX", "8.9", "580"))
    with pytest.raises(Unavailable, match=r"8.6 or 8.9; the GPU here \(H200\) has 9.0"):
        _tensorrt.check_capability(target, Gpu("H200", "9.0", "580"))


def test_without_a_driver_tensorrt_says_that_it_needs_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    sidecar = make_sidecar()
    for call in (
        lambda: tensorrt_backend.describe_build_device(GPU_TARGET),
        lambda: tensorrt_backend.describe_run_device(GPU_TARGET),
        lambda: tensorrt_backend.build(tmp_path, GPU_TARGET, CONTRACT, tmp_path, silent),
        lambda: tensorrt_backend.load({}, sidecar, 0),
    ):
        with pytest.raises(Unavailable, match="needs an NVIDIA GPU; none is here"):
            call()


def _install_nvidia_smi(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    tool = folder / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


def test_driver_that_does_not_answer_is_quoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _install_nvidia_smi(tmp_path, monkeypatch, "echo could not talk to the driver; exit 9")
    with pytest.raises(Unavailable, match="nvidia-smi says: could not talk to the driver"):
        find_gpu("It")


def test_driver_without_a_device_for_torch_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device here")
    _install_nvidia_smi(tmp_path, monkeypatch, "echo 580.82.07")
    with pytest.raises(Unavailable, match=r"driver 580\.82\.07 is here, but PyTorch"):
        find_gpu("It")


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["fp32", "int8"])
@pytest.mark.parametrize("name", ["tensorrt", "tensorrt_rtx"])
def test_engine_built_and_run_on_the_gpu_gives_the_networks_answers(
    name: str, precision: Any, tmp_path: Path
) -> None:
    backend = importlib.import_module(f"enginehouse.backends.{name}_backend")
    target = GPU_TARGET.model_copy(update={"backend": name, "precision": precision})
    try:
        device = backend.describe_build_device(target)
    except Unavailable as error:
        pytest.skip(error.message)
    backend.build(save_graph(tmp_path, precision), target, CONTRACT, tmp_path, silent)
    sidecar = make_sidecar().model_copy(update={"backend": name, "device": device.facts()})
    session = backend.load({"engine.plan": tmp_path / "engine.plan"}, sidecar, 0)
    for answers in ([0], [1, 2, 0, 1]):
        assert session.run(make_pictures(answers)).argmax(axis=1).tolist() == answers
    session.close()
