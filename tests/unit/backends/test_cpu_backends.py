"""OpenVINO and ONNX Runtime: the same network, built, loaded and run for real."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from types import ModuleType

import numpy as np
import onnx
import onnxruntime
import pytest

from enginehouse.artifact import silent
from enginehouse.backends import onnxruntime_backend, openvino_backend
from enginehouse.backends._onnxruntime_rewrite import onnxruntime_from_symmetric
from enginehouse.engine import Precision, Session, Sidecar, Target, run_in_batches
from enginehouse.errors import EngineError, RecipeError
from tests.unit.tiny_engines import CONTRACT, SIZE, TARGET, make_graph, make_pictures, save_graph

BACKENDS = [openvino_backend, onnxruntime_backend]
ANSWERS = [0, 1, 2, 2, 1, 0, 0]


def make_target(precision: Precision) -> Target:
    return TARGET.model_copy(update={"precision": precision})


def build_files(backend: ModuleType, graph: Path, folder: Path, target: Target) -> dict[str, Path]:
    folder.mkdir(parents=True)
    backend.build(graph, target, CONTRACT, folder, silent)
    return {path.name: path for path in folder.iterdir()}


def load_session(backend: ModuleType, files: dict[str, Path], target: Target) -> Session:
    sidecar = Sidecar(
        backend=target.backend,
        library=backend.LIBRARY,
        library_version="",
        device={},
        precision=target.precision,
        batch=target.batch,
        contract=CONTRACT,
        onnx_sha256="",
    )
    session: Session = backend.load(files, sidecar, 1)
    return session


@pytest.mark.parametrize("precision", ["fp32", "int8"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_engine_gives_the_networks_answers(
    backend: ModuleType, precision: Precision, tmp_path: Path
) -> None:
    target = make_target(precision)
    files = build_files(backend, save_graph(tmp_path, precision), tmp_path / "engine", target)
    # The store names objects by digest: an engine must load from paths without a suffix.
    stored = {name: tmp_path / f"object{n}" for n, name in enumerate(files)}
    for name, path in files.items():
        shutil.move(path, stored[name])
    session = load_session(backend, stored, target)
    found = run_in_batches(session, make_pictures(ANSWERS), target.batch)
    session.close()
    reference = onnxruntime.InferenceSession(make_graph().SerializeToString()).run(
        None, {"pictures": make_pictures(ANSWERS)}
    )[0]
    assert found.dtype == np.float32
    assert found.argmax(axis=1).tolist() == ANSWERS
    assert np.abs(found - reference).max() < (1e-5 if precision == "fp32" else 0.02)


@pytest.mark.parametrize("precision", ["fp32", "int8"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_builds_from_two_folders_are_the_same_bytes_and_name_no_folder(
    backend: ModuleType, precision: Precision, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents = []
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        graph = save_graph(tmp_path / name, precision)
        files = build_files(backend, graph, tmp_path / name / "out", make_target(precision))
        contents.append({key: path.read_bytes() for key, path in files.items()})
    assert contents[0] == contents[1]
    assert not any(os.fsencode(tmp_path) in data for data in contents[0].values())


def test_openvino_keeps_fp32_weights_and_bounds_the_batch(tmp_path: Path) -> None:
    target = make_target("fp32")
    files = build_files(openvino_backend, save_graph(tmp_path), tmp_path / "engine", target)
    text = files["engine.xml"].read_text()
    assert 'shape="1..4,3,16,16" element_type="u8"' in text
    assert 'element_type="f16"' not in text


@pytest.mark.parametrize("backend", BACKENDS)
def test_unreadable_graph_is_an_engine_error(backend: ModuleType, tmp_path: Path) -> None:
    graph = tmp_path / "broken.onnx"
    graph.write_bytes(b"not a graph")
    with pytest.raises(EngineError, match="cannot") as caught:
        build_files(backend, graph, tmp_path / "engine", make_target("fp32"))
    assert caught.value.remedy


@pytest.mark.parametrize("backend", BACKENDS)
def test_unreadable_engine_is_an_engine_error(backend: ModuleType, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_bytes(b"not an engine")
    files = dict.fromkeys(("engine.xml", "engine.bin", "engine.onnx"), broken)
    with pytest.raises(EngineError, match="cannot load"):
        load_session(backend, files, make_target("fp32"))


@pytest.mark.parametrize("backend", BACKENDS)
def test_unknown_operator_is_named(backend: ModuleType, tmp_path: Path) -> None:
    model = make_graph()
    next(node for node in model.graph.node if node.op_type == "Relu").op_type = "Bewilder"
    graph = tmp_path / "odd.onnx"
    onnx.save(model, graph)
    with pytest.raises(EngineError, match="Bewilder"):
        build_files(backend, graph, tmp_path / "engine", make_target("fp32"))


@pytest.mark.parametrize("backend", BACKENDS)
def test_build_device_is_the_library_and_run_device_the_processor_too(backend: ModuleType) -> None:
    built, run = backend.describe_build_device(TARGET), backend.describe_run_device(TARGET)
    assert built.model == "" and built.libraries.keys() == {backend.LIBRARY}
    assert run.model and run.libraries == built.libraries
    assert run.identity == backend.describe_run_device(TARGET).identity != built.identity


@pytest.mark.parametrize("backend", BACKENDS)
def test_target_for_another_device_is_refused(backend: ModuleType) -> None:
    target = TARGET.model_copy(update={"device": "gpu"})
    with pytest.raises(RecipeError, match="runs on cpu"):
        backend.describe_build_device(target)


def test_rewrite_widens_activations_and_quantizes_biases() -> None:
    graph = onnxruntime_from_symmetric(make_graph("int8")).graph
    kinds = {item.name: item.data_type for item in graph.initializer}
    zero_points = [node.input[2] for node in graph.node if node.op_type == "QuantizeLinear"]
    # The picture behind the normalisation may be negative; behind the ReLU nothing is.
    assert zero_points == ["activation_zero_point_128"] + 2 * ["activation_zero_point_0"]
    biases = [node.input[2] for node in graph.node if node.op_type in ("Conv", "Gemm")]
    makers = {node.output[0]: node for node in graph.node}
    assert all(kinds[makers[name].input[0]] == onnx.TensorProto.INT32 for name in biases)


def test_rewrite_leaves_other_graphs_and_its_input_alone() -> None:
    plain, symmetric = make_graph(), make_graph("int8")
    before = symmetric.SerializeToString(deterministic=True)
    assert [n.op_type for n in onnxruntime_from_symmetric(plain).graph.node] == [
        n.op_type for n in plain.graph.node
    ]
    onnxruntime_from_symmetric(symmetric)
    assert symmetric.SerializeToString(deterministic=True) == before


def test_rewritten_graph_loads_where_exact_kernels_are_asked_for() -> None:
    """What `load` asks for on processors without VNNI; shared zero points would make it fail."""
    model = onnxruntime_from_symmetric(make_graph("int8"))
    pictures = {"pictures": make_pictures(ANSWERS)}
    found = []
    for exact in ("0", "1"):
        options = onnxruntime.SessionOptions()
        options.add_session_config_entry("session.x64quantprecision", exact)
        session = onnxruntime.InferenceSession(model.SerializeToString(), options)
        found.append(session.run(None, pictures)[0])
    assert np.allclose(found[0], found[1], atol=1e-6)


def test_openvino_refuses_a_batch_beyond_the_profile_only_through_the_splitter(
    tmp_path: Path,
) -> None:
    target = make_target("int8")
    graph = save_graph(tmp_path, "int8")
    session = load_session(
        openvino_backend, build_files(openvino_backend, graph, tmp_path / "e", target), target
    )
    assert run_in_batches(session, make_pictures([0] * 9), target.batch).shape == (9, 3)
    with pytest.raises(EngineError, match="uint8"):
        run_in_batches(session, np.zeros((1, 3, SIZE, SIZE), np.float32), target.batch)
