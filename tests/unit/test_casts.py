"""fp16 and bf16 by casts: where they go, what stays in fp32, and the same bytes everywhere."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from numpy.typing import NDArray
from onnx import TensorProto, helper

from enginehouse.choices import check_options, load_choice
from enginehouse.errors import ExportError, QuantizationError
from enginehouse.export.canonical import make_canonical
from enginehouse.export.graph import onnx_from_torch, wrap_network
from enginehouse.export.literal import make_literal
from flows import TELEMETRY_OFF
from tests.unit.tiny_engines import CONTRACT, make_graph, make_pictures

TYPES = {"fp16": TensorProto.FLOAT16, "bf16": TensorProto.BFLOAT16}
PICTURES = make_pictures([0, 1, 2, 1])


def cast(kind: str, model: onnx.ModelProto, **options: float | str) -> onnx.ModelProto:
    quantizer: Any = load_choice("quantizers", kind)
    found: onnx.ModelProto = quantizer.rewrite(model, PICTURES, quantizer.Options(**options))
    return found


def run(model: onnx.ModelProto, pictures: NDArray[np.uint8] = PICTURES) -> NDArray[np.float32]:
    """What ONNX Runtime gives when it takes the graph literally."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    content = make_literal(model).SerializeToString()
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    result: NDArray[np.float32] = session.run(None, {"pictures": pictures})[0]
    return result


def list_types(model: onnx.ModelProto) -> dict[str, list[int]]:
    """Operator to the types of what it gives, in order; casts left out."""
    graph = onnx.shape_inference.infer_shapes(model, strict_mode=True).graph
    kinds = {
        value.name: value.type.tensor_type.elem_type for value in (*graph.value_info, *graph.output)
    }
    found: dict[str, list[int]] = {}
    for node in graph.node:
        if node.op_type != "Cast":
            found.setdefault(node.op_type, []).append(kinds[node.output[0]])
    return found


def export_network(gain: float = 1.0) -> onnx.ModelProto:
    """Three convolutions, the second of which makes its numbers `gain` times as large."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = torch.nn.Sequential(
            *(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Conv2d(8, 8, 3)),
            *(torch.nn.ReLU(), torch.nn.Conv2d(8, 8, 3), torch.nn.AdaptiveAvgPool2d(1)),
            *(torch.nn.Flatten(), torch.nn.Linear(8, 3)),
        ).eval()
    for name, factor in (("2", gain), ("4", 1 / gain)):
        net.get_submodule(name).weight.data *= factor
    model: Any = SimpleNamespace(
        mean=(0.5,) * 3, std=(0.25,) * 3, problem="single_label", temperature=1.2
    )
    return onnx_from_torch(wrap_network(net, model), CONTRACT, 20)[0]


@pytest.mark.parametrize("kind", TYPES)
def test_the_middle_is_cast_and_the_ends_are_not(kind: str) -> None:
    low, model = TYPES[kind], cast(kind, make_graph())
    types = list_types(model)
    assert types["Conv"] == types["Relu"] == types["GlobalAveragePool"] == [low]
    # The pixels until they are normalised, and the last product with the softmax behind it.
    for operator in ("Mul", "Add", "Gemm", "Softmax"):
        assert types[operator] == [TensorProto.FLOAT], operator
    ends = [*model.graph.input, *model.graph.output]
    assert [value.type.tensor_type.elem_type for value in ends] == [
        TensorProto.UINT8,
        TensorProto.FLOAT,
    ]
    weights = {tensor.data_type for tensor in model.graph.initializer if len(tensor.dims) == 4}
    assert weights == {low}


@pytest.mark.parametrize(("kind", "limit"), [("fp16", 2e-3), ("bf16", 2e-2)])
def test_answers_stay_and_probabilities_keep_their_resolution(kind: str, limit: float) -> None:
    pictures = make_pictures([0, 1, 2] * 40)
    rounded = run(cast(kind, make_graph()), pictures)
    assert rounded.argmax(axis=1).tolist() == [0, 1, 2] * 40
    model = export_network()
    exact, rounded = run(model, pictures), run(cast(kind, model), pictures)
    assert 0 < np.abs(rounded - exact).max() < limit
    # Logits of 8 or 11 bits would give many pictures the very same probability.
    assert len(np.unique(rounded[:, 0])) > 100


def test_large_activations_stay_in_fp32_where_fp16_would_overflow() -> None:
    model = export_network(gain=3e5)
    exact = run(model)
    safe = cast("fp16", model)
    float16, float32 = TensorProto.FLOAT16, TensorProto.FLOAT
    assert list_types(safe)["Conv"] == [float16, float32, float32]
    assert np.allclose(run(safe), exact, atol=2e-3)
    # bf16 reaches as far as fp32.
    assert list_types(cast("bf16", model))["Conv"] == [TensorProto.BFLOAT16] * 3
    assert list_types(cast("fp16", export_network()))["Conv"] == [float16] * 3


@pytest.mark.parametrize("kind", TYPES)
def test_operators_that_are_named_stay_in_fp32(kind: str) -> None:
    types = list_types(cast(kind, make_graph(), keep_float="GlobalAveragePool, Relu"))
    assert types["Conv"] == [TYPES[kind]]
    assert types["Relu"] == types["GlobalAveragePool"] == [TensorProto.FLOAT]


def test_what_cannot_be_done_is_told() -> None:
    with pytest.raises(QuantizationError, match="names Sofmax; the exported graph holds no such"):
        cast("fp16", make_graph(), keep_float="Sofmax")
    # Another network might do, so this candidate is out and no more.
    with pytest.raises(ExportError, match=r"could be cast to fp16: all of it stays in fp32"):
        cast("fp16", make_graph(), keep_float="Conv")


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        ("fp16", {"largest": 0.0}, "largest: .*greater than or equal to 1"),
        ("fp16", {"keep_float": "soft max"}, "keep_float: "),
        ("bf16", {"largest": 512.0}, "no option 'largest'; there are keep_float"),
    ],
)
def test_options_are_checked_in_the_recipe(
    kind: str, options: Mapping[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        check_options("quantizers", "quantizer", kind, options)


def test_without_modelopt_the_install_command_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "modelopt", None)
    quantizer: Any = load_choice("quantizers", "bf16")
    for call in (
        lambda: quantizer.quantize(None, quantizer.Options()),
        lambda: cast("bf16", make_graph()),
    ):
        with pytest.raises(QuantizationError, match="want NVIDIA's ModelOpt") as caught:
            call()
        assert "pip install -c requirements.lock -e '.[modelopt]'" in caught.value.remedy


def test_another_process_gives_the_same_bytes_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """With another seed of hashing, for AutoCast walks through sets of names."""
    onnx.save(export_network(gain=1e5), tmp_path / "model.onnx")
    np.save(tmp_path / "pictures.npy", PICTURES)
    folder = tmp_path / "work"
    folder.mkdir()
    surroundings = {"PYTHONHASHSEED": "1", "TMPDIR": str(folder), "PYTHONPATH": str(Path.cwd())}
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(tmp_path)],
        cwd=folder,
        env={**os.environ, **TELEMETRY_OFF, **surroundings},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""  # nor does it print or warn
    assert done.stdout.split() == list(digest_casts(tmp_path))
    assert len(set(done.stdout.split())) == 2
    assert list(folder.iterdir()) == []


def digest_casts(folder: Path) -> Iterator[str]:
    pictures = np.load(folder / "pictures.npy")
    for kind in TYPES:
        quantizer: Any = load_choice("quantizers", kind)
        model = onnx.load(folder / "model.onnx")
        model = make_canonical(quantizer.rewrite(model, pictures, quantizer.Options()), {})
        content = model.SerializeToString(deterministic=True)
        assert not any(trace in content for trace in (b"/work", b"/tmp", b"/home", b".py"))
        yield hashlib.sha256(content).hexdigest()


_PROGRAM = """
import sys
from pathlib import Path
from tests.unit.test_casts import digest_casts
print(*digest_casts(Path(sys.argv[1])))
"""


@pytest.mark.parametrize(("kind", "dtype"), [("fp16", torch.float16), ("bf16", torch.bfloat16)])
def test_literal_graphs_round_as_torch_does(kind: str, dtype: torch.dtype) -> None:
    """Number by number torch rounds once, behind each operator, as a literal graph has to."""
    names = ["x", "a", "b", "c", "y"]
    nodes = [
        helper.make_node("Cast", ["x"], ["a"], to=TYPES[kind]),
        helper.make_node("Mul", ["a", "a"], ["b"]),
        helper.make_node("Add", ["b", "a"], ["c"]),
        helper.make_node("Cast", ["c"], ["y"], to=TensorProto.FLOAT),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "xy"]
    graph = helper.make_graph(nodes, "rounding", ends[:1], ends[1:])
    opsets = [helper.make_opsetid("", 22)]
    literal = make_literal(helper.make_model(graph, opset_imports=opsets, ir_version=10))
    values = torch.randn(1000, generator=torch.Generator().manual_seed(0))
    low = values.to(dtype)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        literal.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    (found,) = session.run(None, {"x": values.numpy()})
    assert torch.equal(torch.from_numpy(found), (low * low + low).float())
    assert {node.output[0] for node in literal.graph.node} >= set(names[1:])


def test_graphs_without_casts_are_literal_already() -> None:
    for precision in ("fp32", "int8"):
        model = make_graph(precision)
        assert make_literal(model) is model
