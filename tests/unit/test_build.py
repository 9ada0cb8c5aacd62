"""Build: records in, an engine with its sidecar out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from enginehouse.build.build import build
from enginehouse.build.record import Engine
from enginehouse.engine import Contract, Target, load_backend, open_engine, run_in_batches
from enginehouse.errors import EngineError, EngineMismatch, RecipeError
from tests.unit.tiny_engines import CONTRACT, TARGET, make_pictures, open_workspace, seal_onnx


def build_engine(folder: Path, target: Target, contract: Contract = CONTRACT) -> Engine:
    device = load_backend(target.backend).describe_build_device(target)
    onnx = seal_onnx(folder, target.precision, contract)
    return build(onnx, device, target, open_workspace(folder))


@pytest.mark.parametrize("backend", ["openvino", "onnxruntime"])
def test_engine_opens_and_answers(backend: str, tmp_path: Path) -> None:
    target = TARGET.model_copy(update={"backend": backend})
    engine = build_engine(tmp_path, target)
    here = open_workspace(tmp_path)
    session = open_engine(here.paths(engine), engine.target, engine.sidecar, threads=1)
    answers = run_in_batches(session, make_pictures([2, 0, 1]), engine.sidecar.batch)
    session.close()
    assert answers.argmax(axis=1).tolist() == [2, 0, 1]
    assert np.allclose(answers.sum(axis=1), 1, atol=1e-5)


def test_sidecar_says_what_the_engine_was_built_for(tmp_path: Path) -> None:
    engine = build_engine(tmp_path, TARGET)
    sidecar = engine.sidecar
    assert set(engine.files) == {"engine.xml", "engine.bin"}
    assert sidecar.library_version == sidecar.device["libraries"]["openvino"]
    assert sidecar.onnx_sha256 == seal_onnx(tmp_path, "int8").files["model.onnx"].sha256
    assert (sidecar.contract, sidecar.batch, sidecar.precision) == (CONTRACT, TARGET.batch, "int8")
    assert sidecar.flags["inference_precision"] == "f32"
    assert Engine.from_json(engine.to_json()) == engine


def test_the_same_inputs_give_the_same_engine(tmp_path: Path) -> None:
    first, second = (build_engine(tmp_path / name, TARGET) for name in ("a", "b"))
    assert first.identity == second.identity


def test_graph_of_another_precision_is_refused(tmp_path: Path) -> None:
    device = load_backend("openvino").describe_build_device(TARGET)
    with pytest.raises(EngineError, match="wants int8; the ONNX graph is fp32"):
        build(seal_onnx(tmp_path, "fp32"), device, TARGET, open_workspace(tmp_path))


def test_device_record_of_another_machine_is_refused(tmp_path: Path) -> None:
    device = load_backend("openvino").describe_build_device(TARGET)
    other = device.model_copy(update={"libraries": {"openvino": "2020.1"}})
    with pytest.raises(EngineMismatch, match=r"openvino 2020\.1; here is cpu, openvino 20"):
        build(seal_onnx(tmp_path, "int8"), other, TARGET, open_workspace(tmp_path))


def test_unknown_backend_is_refused_with_the_near_names() -> None:
    with pytest.raises(RecipeError, match="did you mean 'openvino'"):
        load_backend("openvinno")


def test_open_engine_checks_the_sidecar_before_it_touches_the_files(tmp_path: Path) -> None:
    engine = build_engine(tmp_path, TARGET)
    old = engine.sidecar.model_copy(update={"library_version": "2020.1"})
    nowhere = dict.fromkeys(engine.files, tmp_path / "nowhere")
    with pytest.raises(EngineMismatch, match=r"built with openvino 2020\.1"):
        open_engine(nowhere, engine.target, old)
