"""Exporting: one file from pixels to probabilities, the same bytes everywhere, as torch says."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from safetensors.torch import load_file, save_file

from enginehouse import quantizers
from enginehouse.compare.record import Step
from enginehouse.engine import Contract
from enginehouse.errors import DataError, ExportError
from enginehouse.export.checks import (
    check_graph,
    check_per_channel,
    check_precision,
    check_symmetric,
)
from enginehouse.export.export import ExportConfig, export
from enginehouse.export.literal import make_literal
from enginehouse.export.record import OnnxModel
from enginehouse.ingest.record import DataVersion
from enginehouse.preparation import Cleaning, Preparation
from enginehouse.prepare.record import Pack
from enginehouse.quantize.quantize import quantize
from enginehouse.quantize.record import QuantizeConfig, QuantizedModel
from enginehouse.train.network import build_network
from enginehouse.train.record import ModelConfig, TrainedModel
from tests.unit.tiny_pack import CLASSES, SIZE, draw, open_workspace, seal_pack, train_tiny

DATA = DataVersion(digest="d1")
CONFIG = ExportConfig(num_parity_pictures=16)
QUANTIZERS = {"fp32": "none", "fp16": "fp16", "bf16": "bf16", "int8": "int8_ptq"}
PREPARATION = Preparation(size=SIZE, clean=(Cleaning(step="blur", options={"sigma": 1}),))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("export")


@pytest.fixture(scope="module")
def pack(folder: Path) -> Pack:
    return seal_pack(folder, preparation=PREPARATION)


@pytest.fixture(scope="module")
def trained(folder: Path, pack: Pack) -> TrainedModel:
    return train_tiny(folder, pack)


@pytest.fixture(scope="module")
def models(folder: Path, pack: Pack, trained: TrainedModel) -> dict[str, QuantizedModel]:
    def make(quantizer: str) -> QuantizedModel:
        options = {"sensitivity_pictures": 0} if quantizer == "int8_ptq" else {}
        config = QuantizeConfig(quantizer=quantizer, num_pictures=24, options=options)
        return quantize(trained, pack, config, open_workspace(folder))

    return {precision: make(quantizer) for precision, quantizer in QUANTIZERS.items()}


class Exporter:
    """Exports what was made of one trained network."""

    def __init__(self, folder: Path, pack: Pack, trained: TrainedModel) -> None:
        self.folder, self.pack, self.trained = folder, pack, trained

    def __call__(self, model: QuantizedModel, config: ExportConfig = CONFIG) -> OnnxModel:
        return export(model, self.trained, self.pack, DATA, config, open_workspace(self.folder))


@pytest.fixture(scope="module")
def run_export(folder: Path, pack: Pack, trained: TrainedModel) -> Exporter:
    return Exporter(folder, pack, trained)


@pytest.fixture(scope="module")
def exports(models: dict[str, QuantizedModel], run_export: Exporter) -> dict[str, OnnxModel]:
    return {precision: run_export(model) for precision, model in models.items()}


@pytest.fixture(params=QUANTIZERS)
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
    content = make_literal(onnx.load(path)).SerializeToString()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
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


def test_the_chain_is_noted(exports: dict[str, OnnxModel]) -> None:
    limits = {"fp32": 1e-5, "fp16": 2e-3, "bf16": 0.02, "int8": 0.02}
    for precision, record in exports.items():
        noted: Any = record.notes["parity"]
        steps = [Step.model_validate(step) for step in noted]
        names = ["torch fp32 -> ONNX"]
        if precision == "int8":
            names = ["torch fp32 -> fake-quant", "fake-quant -> ONNX"]
        assert [step.name for step in steps] == names
        for step in steps:
            assert (step.num_pictures, step.flips) == (16, 0)
            assert 0 <= step.mean_difference <= step.max_difference
        assert steps[-1].max_difference < limits[precision]
    rounding: Any = exports["int8"].notes["parity"]
    assert rounding[0]["mean_difference"] > rounding[1]["mean_difference"]


def test_another_opset(models: dict[str, Any], run_export: Exporter, folder: Path) -> None:
    older = run_export(models["fp32"], ExportConfig(opset=18))
    loaded = onnx.load(open_workspace(folder).path(older, "model.onnx"))
    assert [entry.version for entry in loaded.opset_import] == [18]


def test_another_tolerance(models: dict[str, Any], run_export: Exporter) -> None:
    with pytest.raises(ExportError) as caught:
        run_export(models["bf16"], ExportConfig(num_parity_pictures=8, max_difference=1e-12))
    assert re.match(
        r"torch fp32 -> ONNX: the probabilities of 8 pictures differ by [\d.e-]+ on average and "
        r"[\d.e-]+ at most, and 0 answers differ; allowed are 1e-12 on average and 1 answers\. "
        r"No node inside the network is below 25 dB; the farthest apart is \w+ \(\w+; in torch ",
        caught.value.message,
    )


def turn_a_convolution(model: QuantizedModel, folder: Path) -> QuantizedModel:
    """What a quantizer made, but the first convolution of a block has the wrong sign."""
    here = open_workspace(folder)
    state = load_file(here.path(model, "state.safetensors"))
    state["4.body.0.weight"] = -state["4.body.0.weight"]
    save_file(state, here.scratch / "state.safetensors")
    return model.model_copy(update={"files": here.seal(["state.safetensors"])})


@pytest.mark.parametrize(
    ("precision", "start"),
    [
        ("int8", r"torch fp32 -> fake-quant: .* allowed are 3 answers"),
        ("fp32", r"torch fp32 -> ONNX: .* allowed are 0\.02 at most and 3 answers"),
    ],
)
def test_a_network_that_torch_restores_otherwise_is_found(
    precision: str,
    start: str,
    models: dict[str, QuantizedModel],
    run_export: Exporter,
    folder: Path,
) -> None:
    with pytest.raises(ExportError) as caught:
        run_export(turn_a_convolution(models[precision], folder))
    assert re.match(
        rf"{start}\. The first node that diverges is conv2d_1 "
        r"\(aten\.conv2d\.\w+ in 4\.body\.0\), off by",
        caught.value.message,
    )


def test_a_graph_that_is_not_what_torch_computes_is_found(
    models: dict[str, QuantizedModel], run_export: Exporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(quantizers.CHOICES, "faulty", "tests.unit.faulty_quantizer")
    with pytest.raises(ExportError) as caught:
        run_export(models["int8"].model_copy(update={"quantizer": "faulty"}))
    assert re.match(
        r"fake-quant -> ONNX: .* allowed are 0\.02 on average and 3 answers\. The first "
        r"node that diverges is Neg_0 \(Neg; in torch relu_2\), off by",
        caught.value.message,
    )


@pytest.mark.parametrize(
    ("field", "value"), [("mean", (0.1, 0.1, 0.1)), ("classes", ("a", "b", "c"))]
)
def test_what_does_not_belong_together_is_refused(
    models: dict[str, QuantizedModel], run_export: Exporter, field: str, value: Any
) -> None:
    odd = models["fp32"].model_copy(update={field: value})
    with pytest.raises(ExportError, match=rf"trained network has {field} \(.* of one with \("):
        run_export(odd)


def test_without_validation_pictures_nothing_is_exported(
    models: dict[str, QuantizedModel], trained: TrainedModel, folder: Path
) -> None:
    empty = seal_pack(folder, val_labels=(), preparation=PREPARATION)
    with pytest.raises(DataError, match="validation split holds no pictures"):
        export(models["fp32"], trained, empty, DATA, CONFIG, open_workspace(folder))


def test_bytes_hold_no_trace_of_where_they_were_made(path: Path) -> None:
    content = path.read_bytes()
    for trace in (b"/work", b"/tmp", b"/home", b"/root", b"site-packages", b".py", b"__main__"):
        assert trace not in content
    model = onnx.load(path)
    assert not any(node.metadata_props or node.doc_string for node in model.graph.node)
    assert len({node.name for node in model.graph.node}) == len(model.graph.node)


def test_another_process_in_another_folder_gives_the_same_bytes(
    models: dict[str, QuantizedModel],
    exports: dict[str, OnnxModel],
    trained: TrainedModel,
    pack: Pack,
    folder: Path,
) -> None:
    (folder / "model.json").write_text(models["int8"].to_json())
    (folder / "trained.json").write_text(trained.to_json())
    (folder / "pack.json").write_text(pack.to_json())
    place = folder / "another" / "folder"
    place.mkdir(parents=True)
    done = subprocess.run(
        [
            *(sys.executable, str(Path(__file__).with_name("export_again.py"))),
            *(str(folder / name) for name in ("store", "model.json", "trained.json", "pack.json")),
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


def seal_random(folder: Path, pack: Pack, name: str) -> TrainedModel:
    """An architecture of torchvision that nobody trained."""
    here = open_workspace(folder)
    network = ModelConfig(family="torchvision", name=name)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = build_network(network, len(pack.classes))
    save_file(net.state_dict(), here.scratch / "weights.safetensors")
    return TrainedModel(
        files=here.seal(["weights.safetensors"]),
        model=network,
        classes=pack.classes,
        preparation=pack.preparation,
        mean=pack.mean,
        std=pack.std,
        val_accuracy=0,
        val_macro_f1=0,
    )


def test_resnet_passes_the_whole_way(folder: Path, pack: Pack) -> None:
    """One real architecture: BatchNorm folds, and 20 convolutions keep one scale per channel."""
    model = seal_random(folder, pack, "resnet18")
    config = QuantizeConfig(num_pictures=16, options={"sensitivity_pictures": 0})
    quantized = quantize(model, pack, config, open_workspace(folder))
    anything = ExportConfig(num_parity_pictures=4, max_flips=1)
    record = export(quantized, model, pack, DATA, anything, open_workspace(folder))
    proto = onnx.load(open_workspace(folder).path(record, "model.onnx"))
    operators = [node.op_type for node in proto.graph.node]
    assert operators.count("Conv") == 20
    assert "BatchNormalization" not in operators
    assert record.files["model.onnx"].size < 12_000_000


def make_depthwise(per_channel: bool, gemm: bool = False) -> onnx.ModelProto:
    """A depthwise convolution whose channels' ranges span 1e-3 to 10, its weights in INT8."""
    ranges = np.geomspace(1e-3, 10, 16, dtype=np.float32)
    values = np.random.default_rng(0).uniform(-1, 1, (16, 1, 3, 3)).astype(np.float32)
    values *= (ranges / np.abs(values).max(axis=(1, 2, 3)))[:, None, None, None]
    if gemm:
        values = values.reshape(16, 9)
    largest = np.abs(values).reshape(16, -1).max(axis=1)
    scale = (largest if per_channel else largest.max()) / np.float32(127)
    shaped = scale.reshape([-1] + [1] * (values.ndim - 1)) if per_channel else scale
    tensors = {
        "weight": np.round(values / shaped).astype(np.int8),
        "scale": np.asarray(scale, np.float32),
        "zero": np.zeros(scale.shape, np.int8),
    }
    nodes = [helper.make_node("DequantizeLinear", ["weight", "scale", "zero"], ["w"], axis=0)]
    shape, out = ["n", 16, 8, 8], ["n", 16, 6, 6]
    if gemm:
        nodes.append(helper.make_node("Transpose", ["w"], ["t"], perm=[1, 0]))
        nodes.append(helper.make_node("MatMul", ["x", "t"], ["y"], name="product"))
        shape, out = ["n", 9], ["n", 16]
    else:
        nodes.append(helper.make_node("Conv", ["x", "w"], ["y"], name="product", group=16))
    graph = helper.make_graph(
        nodes,
        "depthwise",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, out)],
        [numpy_helper.from_array(value, name) for name, value in tensors.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


@pytest.mark.parametrize("gemm", [False, True])
def test_weights_with_one_scale_for_all_channels_are_refused(gemm: bool) -> None:
    check_per_channel(make_depthwise(per_channel=True, gemm=gemm))
    with pytest.raises(ExportError) as caught:
        check_per_channel(make_depthwise(per_channel=False, gemm=gemm))
    assert re.match(
        r"The weights of product \((Conv|MatMul)\) have one scale per tensor: 6 of their 16 "
        r"channels are rounded to zero\. Wanted is one scale per channel \(per-channel\)\.",
        caught.value.message,
    )


def test_a_graph_must_compute_in_the_type_that_it_promises(
    exports: dict[str, OnnxModel], folder: Path
) -> None:
    here = open_workspace(folder)
    graphs = {name: onnx.load(here.path(each, "model.onnx")) for name, each in exports.items()}
    types = {"fp16": TensorProto.FLOAT16, "bf16": TensorProto.BFLOAT16}
    for precision, graph in graphs.items():
        check_precision(graph, precision)  # type: ignore[arg-type]
        kinds = {
            value.name: value.type.tensor_type.elem_type
            for value in onnx.shape_inference.infer_shapes(graph).graph.value_info
        }
        wanted = types.get(precision, TensorProto.FLOAT)
        convolutions = [node for node in graph.graph.node if node.op_type == "Conv"]
        assert [kinds[node.output[0]] for node in convolutions] == [wanted] * 7
    with pytest.raises(ExportError, match=r"None of the 8 .* fp16 graph computes in FLOAT16"):
        check_precision(graphs["fp32"], "fp16")
    with pytest.raises(ExportError, match=r"gives BFLOAT16; a graph of precision fp16 has no"):
        check_precision(graphs["bf16"], "fp16")
    with pytest.raises(ExportError, match=r"gives FLOAT16; a graph of precision int8 has no"):
        check_precision(graphs["fp16"], "int8")


def _shape(value: onnx.ValueInfoProto) -> tuple[str, int, list[str | int]]:
    tensor = value.type.tensor_type
    return value.name, tensor.elem_type, [d.dim_param or d.dim_value for d in tensor.shape.dim]
