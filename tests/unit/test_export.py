"""Exporting: one file from pixels to probabilities, the same bytes everywhere, as torch says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, numpy_helper

from enginehouse.engine import Contract
from enginehouse.errors import ExportError
from enginehouse.export.checks import check_graph, check_symmetric
from enginehouse.export.export import ExportConfig, export
from enginehouse.export.record import OnnxModel
from enginehouse.ingest.record import DataVersion
from enginehouse.preparation import Cleaning, Preparation
from enginehouse.prepare.record import Pack
from enginehouse.quantize.quantize import quantize
from enginehouse.quantize.record import QuantizeConfig, QuantizedModel
from enginehouse.train.record import TrainedModel
from tests.unit.tiny_pack import CLASSES, SIZE, draw, open_workspace, seal_pack, train_tiny

DATA = DataVersion(digest="d1")
CONFIG = ExportConfig(num_parity_pictures=16)
PRECISIONS = ("fp32", "int8")
PREPARATION = Preparation(size=SIZE, clean=(Cleaning(step="blur", options={"sigma": 1}),))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("export")


@pytest.fixture(scope="module")
def pack(folder: Path) -> Pack:
    return seal_pack(folder, preparation=PREPARATION)


@pytest.fixture(scope="module")
def models(folder: Path, pack: Pack) -> dict[str, TrainedModel | QuantizedModel]:
    trained = train_tiny(folder, pack)
    config = QuantizeConfig(num_pictures=24)
    return {
        "fp32": trained,
        "int8": quantize(trained, pack, config, open_workspace(folder)),
    }


@pytest.fixture(scope="module")
def exports(folder: Path, pack: Pack, models: dict[str, Any]) -> dict[str, OnnxModel]:
    return {
        name: export(model, pack, DATA, CONFIG, open_workspace(folder))
        for name, model in models.items()
    }


@pytest.fixture(params=PRECISIONS)
def path(request: pytest.FixtureRequest, exports: dict[str, OnnxModel], folder: Path) -> Path:
    return open_workspace(folder).path(exports[request.param], "model.onnx")


def test_input_and_output_are_the_contract(path: Path) -> None:
    graph = onnx.load(path).graph
    assert [str(_shape(value)) for value in (*graph.input, *graph.output)] == [
        str(("pictures", TensorProto.UINT8, ["batch", 3, SIZE, SIZE])),
        str(("probabilities", TensorProto.FLOAT, ["batch", 3])),
    ]


@pytest.mark.parametrize("batch", [1, 2, 5])
def test_any_batch_gives_probabilities(path: Path, batch: int) -> None:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    labels = [0, 1, 2, 0, 1][:batch]
    (found,) = session.run(None, {"pictures": draw(labels, 9)})
    assert found.shape == (batch, 3)
    assert found.sum(axis=1) == pytest.approx(np.ones(batch), abs=1e-5)
    assert found.argmax(axis=1).tolist() == labels


def test_metadata_say_what_it_is(exports: dict[str, OnnxModel], folder: Path) -> None:
    for precision, record in exports.items():
        model = onnx.load(open_workspace(folder).path(record, "model.onnx"))
        metadata = {entry.key: entry.value for entry in model.metadata_props}
        assert json.loads(metadata["classes"]) == list(CLASSES)
        assert Contract.model_validate_json(metadata["contract"]) == record.contract
        assert record.contract.preparation == PREPARATION
        assert (metadata["data"], metadata["precision"]) == ("d1", precision)
        assert (record.data, record.precision) == ("d1", precision)
        assert model.producer_name == "enginehouse"


def test_parity_is_noted(exports: dict[str, OnnxModel]) -> None:
    limits = {"fp32": 1e-5, "int8": 0.02}
    for precision, record in exports.items():
        parity: Any = record.notes["parity"]
        assert parity["num_pictures"] == 16
        assert 0 <= parity["mean_difference"] <= parity["max_difference"] < limits[precision]
        assert parity["flips"] == 0


def test_another_tolerance_or_opset(models: dict[str, Any], pack: Pack, folder: Path) -> None:
    strict = ExportConfig(max_difference=1e-12)
    with pytest.raises(ExportError, match=r"differs from torch by up to .*answers differ"):
        export(models["int8"], pack, DATA, strict, open_workspace(folder))
    older = export(models["fp32"], pack, DATA, ExportConfig(opset=18), open_workspace(folder))
    loaded = onnx.load(open_workspace(folder).path(older, "model.onnx"))
    assert [entry.version for entry in loaded.opset_import] == [18]


def test_bytes_hold_no_trace_of_where_they_were_made(path: Path) -> None:
    content = path.read_bytes()
    for trace in (b"/work", b"/tmp", b"/home", b"/root", b"site-packages", b".py", b"__main__"):
        assert trace not in content
    model = onnx.load(path)
    assert not any(node.metadata_props or node.doc_string for node in model.graph.node)
    assert len({node.name for node in model.graph.node}) == len(model.graph.node)


def test_another_process_in_another_folder_gives_the_same_bytes(
    models: dict[str, Any], exports: dict[str, OnnxModel], pack: Pack, folder: Path
) -> None:
    (folder / "model.json").write_text(models["int8"].to_json())
    (folder / "pack.json").write_text(pack.to_json())
    place = folder / "another" / "folder"
    place.mkdir(parents=True)
    done = subprocess.run(
        [
            *(sys.executable, str(Path(__file__).with_name("export_again.py"))),
            *(str(folder / name) for name in ("store", "model.json", "pack.json")),
        ],
        cwd=place,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    # The digest and nothing else: the exporter prints and warns nothing.
    assert done.stdout.strip() == exports["int8"].files["model.onnx"].sha256
    assert done.stderr == ""


def test_int8_is_symmetric_and_folded(exports: dict[str, OnnxModel], folder: Path) -> None:
    model = onnx.load(open_workspace(folder).path(exports["int8"], "model.onnx"))
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    operators = [node.op_type for node in model.graph.node]
    assert "BatchNormalization" not in operators
    kinds = ("QuantizeLinear", "DequantizeLinear")
    pairs = [node for node in model.graph.node if node.op_type in kinds]
    assert len(pairs) > 20
    for node in pairs:
        zero = tensors[node.input[2]]
        assert zero.data_type == TensorProto.INT8
        assert not numpy_helper.to_array(zero).any()


def test_unsymmetric_graphs_are_refused(exports: dict[str, OnnxModel], folder: Path) -> None:
    path = open_workspace(folder).path(exports["int8"], "model.onnx")
    for value, complaint in ((np.uint8(0), "type UINT8"), (np.int8(3), "other than 0")):
        model = onnx.load(path)
        node = next(node for node in model.graph.node if node.op_type == "QuantizeLinear")
        model.graph.initializer.append(numpy_helper.from_array(np.array(value), "odd"))
        node.input[2] = "odd"
        with pytest.raises(ExportError, match=f"QuantizeLinear_0 .*{complaint}"):
            check_symmetric(model)
    plain = onnx.load(open_workspace(folder).path(exports["fp32"], "model.onnx"))
    with pytest.raises(ExportError, match="no QuantizeLinear"):
        check_symmetric(plain)


def test_a_graph_that_breaks_the_contract_is_refused(path: Path) -> None:
    model = onnx.load(path)
    contract = Contract(preparation=Preparation(size=SIZE), classes=CLASSES)
    check_graph(model, contract)
    with pytest.raises(ExportError, match="the contract wants"):
        check_graph(model, contract.model_copy(update={"classes": ("a", "b")}))
    fixed = onnx.load(path)
    fixed.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1
    with pytest.raises(ExportError, match="the contract wants"):
        check_graph(fixed, contract)
    del model.graph.initializer[0]
    with pytest.raises(ExportError, match="not valid ONNX"):
        check_graph(model, contract)


def test_tensorrt_rtx_parses_the_int8_graph(exports: dict[str, OnnxModel], folder: Path) -> None:
    trt = pytest.importorskip("tensorrt_rtx", reason="wants the extra rtx")
    content = open_workspace(folder).path(exports["int8"], "model.onnx").read_bytes()
    logger = trt.Logger(trt.Logger.ERROR)
    builder = trt.Builder(logger)
    flags = 1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)
    network = builder.create_network(flags)
    parser = trt.OnnxParser(network, logger)
    assert parser.parse(content), parser.get_error(0).desc()


def test_resnet_passes_the_whole_way(folder: Path, pack: Pack) -> None:
    """One real architecture: BatchNorm folds, and 20 convolutions keep one scale per channel."""
    network = {"family": "torchvision", "name": "resnet18"}
    model = train_tiny(folder, pack, model=network, epochs=1, precision="auto")
    quantized = quantize(model, pack, QuantizeConfig(num_pictures=16), open_workspace(folder))
    record = export(quantized, pack, DATA, CONFIG, open_workspace(folder))
    proto = onnx.load(open_workspace(folder).path(record, "model.onnx"))
    operators = [node.op_type for node in proto.graph.node]
    assert operators.count("Conv") == 20
    assert "BatchNormalization" not in operators
    assert record.files["model.onnx"].size < 12_000_000


def _shape(value: onnx.ValueInfoProto) -> tuple[str, int, list[str | int]]:
    tensor = value.type.tensor_type
    return value.name, tensor.elem_type, [d.dim_param or d.dim_value for d in tensor.shape.dim]
