"""OpenVINO and ONNX Runtime: the same network, built, loaded and run for real."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import numpy_helper

from enginehouse.artifact import silent
from enginehouse.backends import onnxruntime_backend, openvino_backend
from enginehouse.backends._onnxruntime_rewrite import onnxruntime_from_symmetric
from enginehouse.engine import Precision, Session, Sidecar, Target, run_in_batches
from enginehouse.errors import EngineError, RecipeError
from enginehouse.processor import has_bf16
from tests.unit.tiny_engines import CONTRACT, SIZE, TARGET, make_graph, make_pictures, save_graph

BACKENDS = [openvino_backend, onnxruntime_backend]
BUILDS = [(backend, precision) for backend in BACKENDS for precision in backend.PRECISIONS]
LIMITS = {"fp32": 1e-5, "fp16": 0.002, "bf16": 0.02, "int8": 0.02}
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


@pytest.mark.parametrize(("backend", "precision"), BUILDS)
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
    assert np.abs(found - reference).max() < LIMITS[precision]


@pytest.mark.parametrize(("backend", "precision"), BUILDS)
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


@pytest.mark.parametrize("precision", openvino_backend.PRECISIONS)
def test_openvino_says_what_it_computes_and_computes_that(
    precision: Precision, tmp_path: Path
) -> None:
    (tmp_path / "engine").mkdir()
    graph, target = save_graph(tmp_path, precision), make_target(precision)
    flags = openvino_backend.build(graph, target, CONTRACT, tmp_path / "engine", silent)
    assert flags["computes"] == openvino_backend.PRECISIONS[precision]
    files = {path.name: path for path in (tmp_path / "engine").iterdir()}
    session: Any = load_session(openvino_backend, files, target)
    facts = [
        node.get_rt_info()
        for node in session._request.get_compiled_model().get_runtime_model().get_ordered_ops()
    ]
    computed = [
        (fact["layerType"].astype(str), fact["runtimePrecision"].astype(str)) for fact in facts
    ]
    found = {kind for layer, kind in computed if layer in ("Convolution", "Softmax")}
    # u8 where OpenVINO shifts what may be negative by 128.
    assert found <= {"f32", *{"bf16": ["bf16"], "int8": ["i8", "u8"]}.get(precision, [])}
    assert len(found) == (2 if precision in ("bf16", "int8") else 1)


@pytest.mark.skipif(not has_bf16(), reason="the processor has no bf16")
def test_a_bf16_engine_is_refused_where_openvino_would_not_compute_in_bf16(tmp_path: Path) -> None:
    """OpenVINO is told to use no instructions beyond AVX2, as on an older processor."""
    (tmp_path / "engine").mkdir()
    graph = save_graph(tmp_path, "bf16")
    openvino_backend.build(graph, make_target("bf16"), CONTRACT, tmp_path / "engine", silent)
    files = {path.name: path for path in (tmp_path / "engine").iterdir()}
    load_session(openvino_backend, files, make_target("bf16")).close()
    program = f"""
from pathlib import Path
from tests.unit.backends.test_cpu_backends import load_session, make_target, openvino_backend
files = {{path.name: path for path in Path({str(tmp_path / "engine")!r}).iterdir()}}
try:
    load_session(openvino_backend, files, make_target("bf16"))
except Exception as error:
    print(type(error).__name__, error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2"},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout.startswith("Unavailable The engine is in bf16"), done.stderr
    assert "compute in f32 instead" in done.stdout


def test_emulated_bf16_is_told_from_a_processor_that_has_it(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    for flags, wanted in (("avx512f avx512_vnni", False), ("avx512f avx512_bf16", True)):
        cpuinfo.write_text(f"processor : 0\nflags : {flags}\n")
        assert has_bf16(cpuinfo) is wanted


def test_onnxruntime_refuses_bf16_before_it_opens_a_session(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"no bf16 kernels; it runs fp32, fp16, int8") as caught:
        build_files(
            onnxruntime_backend, tmp_path / "not there", tmp_path / "e", make_target("bf16")
        )
    assert "backend openvino" in caught.value.remedy


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


def _change_activation(
    operator: str, scale: float, *limits: float | None, **attributes: float
) -> onnx.ModelProto:
    """The INT8 network with another activation, and another scale of what it gives."""
    model = make_graph("int8")
    relu = next(node for node in model.graph.node if node.op_type == "Relu")
    names = ["" if limit is None else f"limit_{place}" for place, limit in enumerate(limits)]
    for name, limit in zip(names, limits, strict=True):
        if limit is None:
            continue
        model.graph.initializer.append(numpy_helper.from_array(np.float32(limit), name))
    relu.op_type = operator
    relu.input.extend(names)
    relu.attribute.extend(onnx.helper.make_attribute(*each) for each in attributes.items())
    model.graph.initializer.append(numpy_helper.from_array(np.float32(scale), "scale"))
    users = [node for node in model.graph.node if relu.output[0] in node.input]
    users += [node for node in model.graph.node if users[0].output[0] in node.input]
    for node in users:
        node.input[1] = "scale"
    onnx.checker.check_model(model, full_check=True)
    return model


def _run(model: onnx.ModelProto, *, optimized: bool) -> NDArray[np.float32]:
    options = onnxruntime.SessionOptions()
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    found: NDArray[np.float32] = session.run(None, {"pictures": make_pictures(ANSWERS)})[0]
    return found


@pytest.mark.parametrize(
    ("model", "highest"),
    [
        (_change_activation("Relu", 0.2 / 127), 127),  # two thirds of the largest number
        (_change_activation("Clip", 1 / 127, 0, 0.2), 25),  # as a ReLU6 does
        (_change_activation("Clip", 0.2 / 127, 0, 6), 127),
    ],
)
def test_rewrite_cuts_off_where_int8_does(model: onnx.ModelProto, highest: int) -> None:
    rewritten = onnxruntime_from_symmetric(model)
    assert np.allclose(
        _run(rewritten, optimized=True), _run(model, optimized=False), atol=1e-3, rtol=0
    )
    # The integers are cut off, so that the convolution and its quantization are one kernel.
    constants = {item.name: numpy_helper.to_array(item) for item in rewritten.graph.initializer}
    clips = [node for node in rewritten.graph.node if node.op_type == "Clip"]
    assert [int(constants[node.input[2]]) for node in clips] == [highest, 127]
    assert {constants[node.input[2]].dtype for node in clips} == {np.dtype(np.uint8)}
    (conv,) = (node for node in rewritten.graph.node if node.op_type == "Conv")
    readers = [node.op_type for node in rewritten.graph.node if conv.output[0] in node.input]
    assert readers == ["QuantizeLinear"]


def test_rewrite_keeps_negative_numbers_that_a_clip_lets_through() -> None:
    model = _change_activation("Clip", 0.2 / 127, None, 6)
    rewritten = onnxruntime_from_symmetric(model)
    assert np.allclose(
        _run(rewritten, optimized=False), _run(model, optimized=False), atol=1e-5, rtol=0
    )


def test_rewrite_takes_float_weights_where_there_is_no_int8_kernel() -> None:
    model = _change_activation("HardSwish", 1 / 127)
    rewritten = onnxruntime_from_symmetric(model)
    kinds = {item.name: item.data_type for item in rewritten.graph.initializer}
    (conv,) = (node for node in rewritten.graph.node if node.op_type == "Conv")
    assert [kinds[name] for name in conv.input[1:]] == [onnx.TensorProto.FLOAT] * 2
    assert np.allclose(
        _run(rewritten, optimized=True), _run(model, optimized=False), atol=1e-5, rtol=0
    )
    used = {name for node in rewritten.graph.node for name in node.input}
    assert kinds.keys() <= used  # the INT8 weight is gone


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
