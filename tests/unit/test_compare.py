"""Compare: an engine against its ONNX file, and the node that is named where they part."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from enginehouse import backends
from enginehouse.build.build import build
from enginehouse.build.record import Engine
from enginehouse.compare.compare import compare
from enginehouse.compare.divergence import measure_divergence, name_first
from enginehouse.compare.record import CompareConfig, Parity
from enginehouse.compare.reference import read_tensors, run_literally
from enginehouse.compare.truncate import Cuts
from enginehouse.engine import Precision, Target, load_backend
from enginehouse.errors import EngineError, EngineMismatch
from enginehouse.export.record import OnnxModel
from enginehouse.prepare.record import Pack
from tests.unit.faulty_openvino import damage
from tests.unit.tiny_engines import (
    CONTRACT,
    SIZE,
    TARGET,
    make_branched_graph,
    make_pictures,
    open_workspace,
    seal_pack,
)

BACKENDS = ("openvino", "onnxruntime")
ANSWERS = [0, 1, 2, 2, 1, 0, 0, 1]
NUM_CONVOLUTIONS = 10


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("compare")


@pytest.fixture(scope="module")
def pack(folder: Path) -> Pack:
    return seal_pack(folder, ANSWERS)


@pytest.fixture(autouse=True)
def faulty(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in BACKENDS:
        monkeypatch.setitem(backends.CHOICES, f"faulty_{name}", f"tests.unit.faulty_{name}")


def seal_branched(folder: Path, precision: Precision = "fp32", damaged: str = "") -> OnnxModel:
    here = open_workspace(folder)
    model = make_branched_graph(precision)
    damage(model, damaged)
    onnx.save(model, here.scratch / "model.onnx")
    return OnnxModel(
        files=here.seal(["model.onnx"]), contract=CONTRACT, precision=precision, data="d"
    )


def build_engine(folder: Path, graph: OnnxModel, backend: str, name: str = "engine") -> Engine:
    target = Target(name=name, backend=backend, precision=graph.precision, batch=TARGET.batch)
    device = load_backend(backend).describe_build_device(target)
    return build(graph, device, target, open_workspace(folder))


def compare_engine(folder: Path, engine: Engine, graph: OnnxModel, pack: Pack, **rules: Any) -> Any:
    device = load_backend(engine.sidecar.backend).describe_run_device(engine.target)
    here = open_workspace(folder)
    said: list[str] = []
    here.report = lambda message, done=0, total=0, **metrics: said.append(message)
    try:
        return compare(engine, graph, pack, device, CompareConfig(**rules), here)
    except EngineError as error:
        return error.message, sum("build" in line for line in said)


def name_convolutions(precision: Precision) -> list[str]:
    nodes = make_branched_graph(precision).graph.node
    names = [node.name for node in nodes if node.op_type == "Conv"]
    assert len(names) == NUM_CONVOLUTIONS
    return names


@pytest.mark.parametrize("precision", ["fp32", "int8"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_right_engine_is_near_its_file(
    folder: Path, pack: Pack, backend: str, precision: Precision
) -> None:
    graph = seal_branched(folder, precision)
    parity: Parity = compare_engine(folder, build_engine(folder, graph, backend), graph, pack)
    assert parity.step.name == "ONNX -> engine"
    assert (parity.step.num_pictures, parity.step.flips) == (len(ANSWERS), 0)
    limit = 1e-5 if precision == "fp32" else 0.02
    assert 0 <= parity.step.mean_difference <= parity.step.max_difference < limit
    assert Parity.from_json(parity.to_json()) == parity


@pytest.mark.parametrize("place", [1, 5, 6, 9])
@pytest.mark.parametrize("precision", ["fp32", "int8"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_node_that_a_backend_gets_wrong_is_named(
    folder: Path, pack: Pack, backend: str, precision: Precision, place: int
) -> None:
    """Places in the body of a block, and in the branch beside it."""
    node = name_convolutions(precision)[place]
    graph = seal_branched(folder, precision)
    engine = build_engine(folder, graph, f"faulty_{backend}", f"sign-{node}")
    message, num_builds = compare_engine(folder, engine, graph, pack, max_mean_difference=1e-3)
    assert f"The first node that diverges is {node} (Conv), off by" in message
    assert re.match(
        r"ONNX -> engine: the probabilities of 8 pictures differ by [\d.e-]+ on average and "
        r"[\d.e-]+ at most, and \d answers differ between the faulty_\w+ engine and its "
        rf"{precision} ONNX file; allowed are 0\.001 on average and 1 answers\.",
        message,
    )
    # About 60 tensors to cut at: six halvings, and a look at what each found node is made from.
    assert num_builds <= 16


@pytest.mark.parametrize("backend", BACKENDS)
def test_answers_that_are_no_numbers_are_traced_too(folder: Path, pack: Pack, backend: str) -> None:
    node = name_convolutions("fp32")[6]
    graph = seal_branched(folder)
    engine = build_engine(folder, graph, f"faulty_{backend}", f"nan-{node}")
    message, _ = compare_engine(folder, engine, graph, pack)
    # OpenVINO's Relu makes 0 of what is no number, so its answers are finite.
    assert ("not finite numbers" in message) == (backend == "onnxruntime")
    assert f"The first node that diverges is {node} (Conv), which gives values" in message


def test_a_backend_that_builds_whole_networks_only(folder: Path, pack: Pack) -> None:
    node = name_convolutions("fp32")[4]
    graph = seal_branched(folder)
    engine = build_engine(folder, graph, "faulty_openvino", f"opaque-{node}")
    message, _ = compare_engine(folder, engine, graph, pack, max_mean_difference=1e-3)
    assert "this compiler builds whole networks only" in message


def test_bytes_that_no_build_gives_are_told_apart(folder: Path, pack: Pack) -> None:
    """The engine claims to come from a file that its backend builds rightly."""
    graph = seal_branched(folder)
    other = seal_branched(folder, damaged=name_convolutions("fp32")[4])
    engine = build_engine(folder, other, "openvino")
    with_claim = engine.sidecar.model_copy(update={"onnx_sha256": graph.files["model.onnx"].sha256})
    lying = engine.model_copy(update={"sidecar": with_claim})
    message, _ = compare_engine(folder, lying, graph, pack, max_mean_difference=1e-3)
    assert "the difference lies in this engine's own bytes" in message


def test_an_engine_of_another_file_is_refused(folder: Path, pack: Pack) -> None:
    graph, other = seal_branched(folder), seal_branched(folder, "int8")
    engine = build_engine(folder, other, "openvino")
    device = load_backend("openvino").describe_run_device(engine.target)
    with pytest.raises(EngineMismatch, match="was built from the ONNX file"):
        compare(engine, graph, pack, device, CompareConfig(), open_workspace(folder))


def test_where_nothing_is_wrong_the_farthest_node_is_named(folder: Path, pack: Pack) -> None:
    graph = seal_branched(folder, "int8")
    engine = build_engine(folder, graph, "onnxruntime")
    message, _ = compare_engine(folder, engine, graph, pack, max_mean_difference=1e-12)
    assert "allowed are 1e-12 on average" in message
    assert re.search(r"The first node that diverges is .*signal over noise \d\d", message)


def test_a_graph_is_cut_where_the_batch_is_not_the_first_dimension() -> None:
    nodes = [
        helper.make_node("Cast", ["pictures"], ["a"], to=TensorProto.FLOAT, name="cast"),
        helper.make_node("Transpose", ["a"], ["b"], perm=[1, 2, 0, 3], name="turn"),
        helper.make_node("Mul", ["b", "two"], ["c"], name="double"),
        helper.make_node("Transpose", ["c"], ["d"], perm=[2, 0, 1, 3], name="back"),
        helper.make_node("ReduceMean", ["d", "axes"], ["probabilities"], keepdims=0, name="mean"),
    ]
    graph = helper.make_graph(
        nodes,
        "turned",
        [helper.make_tensor_value_info("pictures", TensorProto.UINT8, ["n", 3, SIZE, SIZE])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["n", 3])],
        [
            numpy_helper.from_array(np.float32(2), "two"),
            numpy_helper.from_array(np.array([2, 3]), "axes"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    cuts = Cuts(model, CONTRACT)
    assert cuts.tensors == ["a", "b", "c", "d", "probabilities"]
    pictures = make_pictures([0, 1])
    whole = 2 * pictures.astype(np.float32).transpose(1, 2, 0, 3).reshape(2, -1)
    assert np.array_equal(run_literally(cuts.cut("c"), CONTRACT, pictures), whole)
    assert np.array_equal(run_literally(cuts.cut("c", 7), CONTRACT, pictures), whole[:, ::7])
    onnx.checker.check_model(cuts.cut("c"), full_check=True)
    values = read_tensors(model, ["c", "probabilities"], CONTRACT, pictures)
    assert np.array_equal(values["c"].reshape(2, -1), whole)


def test_what_a_tensor_is_made_of_skips_what_cannot_be_cut() -> None:
    model = make_branched_graph("int8")
    cuts = Cuts(model, CONTRACT)
    rounded = next(node for node in model.graph.node if node.op_type == "DequantizeLinear")
    assert cuts.find_nearest(rounded.output[0]) == [model.graph.node[2].output[0]]
    assert re.fullmatch(
        r"\w+ \(DequantizeLinear\) after \w+ \(QuantizeLinear\)",
        cuts.name_nodes(rounded.output[0]),
    )
    first = next(node for node in model.graph.node if node.op_type == "Conv")
    assert cuts.find_nearest(first.output[0]) == [rounded.output[0]]


def test_signal_over_noise() -> None:
    ones = np.ones(4, np.float32)
    off = measure_divergence("a", ones, ones * np.float32(0.9))
    assert off.decibels == pytest.approx(20, abs=1e-3)
    assert off.difference == pytest.approx(0.1)
    same = measure_divergence("b", ones, ones)
    broken = measure_divergence("c", ones, ones * np.nan)
    assert name_first([same, off], 20.1).startswith("The first node that diverges is a, off by 0.1")
    assert "is below 15 dB; the farthest apart is a, off" in name_first([same, off], 15)
    assert "is c, which gives values that are not finite" in name_first([off, broken], 15)
    assert name_first([], 15).startswith("No node inside")
