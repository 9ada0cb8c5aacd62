"""Graphs of four kinds of architectures, in every precision, in every backend that runs here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from torch import nn

from enginehouse.artifact import silent
from enginehouse.backends import onnxruntime_backend, openvino_backend, tensorrt_rtx_backend
from enginehouse.choices import load_choice
from enginehouse.compare.reference import run_literally
from enginehouse.engine import BatchProfile, Precision, Sidecar, Target, run_in_batches
from tests.unit.backends.small_nets import (
    CONTRACT,
    NETS,
    draw,
    export_net,
    make_net,
    quantize_net,
    run_torch,
)

PICTURES = draw(64, seed=9)
BATCH = BatchProfile(min=1, opt=8, max=64)
# Layers that stay in float: none; or the first one, and others further in.
KEPT = {
    "resnet": ("conv1", "layer2.0.conv2", "layer3.0.add"),
    "mobilenet": (),
    "convnext": (),
    "vit": ("conv_proj", "encoder.layers.encoder_layer_1.mlp.0"),
}


def run_engine(
    backend: Any, model: onnx.ModelProto, precision: Precision, folder: Path
) -> NDArray[np.float32]:
    engine = folder / backend.LIBRARY
    engine.mkdir()
    onnx.save(model, folder / "model.onnx")
    target = Target(backend="openvino", precision=precision, batch=BATCH)
    backend.build(folder / "model.onnx", target, CONTRACT, engine, silent)
    sidecar = Sidecar(
        backend="openvino",
        library=backend.LIBRARY,
        library_version="",
        device={},
        precision=precision,
        batch=BATCH,
        contract=CONTRACT,
        onnx_sha256="",
    )
    session = backend.load({path.name: path for path in engine.iterdir()}, sidecar, 1)
    answers: NDArray[np.float32] = run_in_batches(session, PICTURES, BATCH)
    session.close()
    return answers


def count_flips(wanted: NDArray[np.float32], found: NDArray[np.float32]) -> int:
    return int((wanted.argmax(axis=1) != found.argmax(axis=1)).sum())


def measure_mean(wanted: NDArray[np.float32], found: NDArray[np.float32]) -> float:
    """The mean over the pictures of the largest difference of a probability in each."""
    return float(np.abs(wanted - found).max(axis=1).mean())


def build_for_rtx(model: onnx.ModelProto, precision: Precision, folder: Path) -> None:
    if missing := tensorrt_rtx_backend.find_missing():
        pytest.skip(missing)
    onnx.save(model, folder / "model.onnx")
    target = Target(
        backend="tensorrt_rtx", device="sm86+sm89+sm120", precision=precision, batch=BATCH
    )
    tensorrt_rtx_backend.build(folder / "model.onnx", target, CONTRACT, folder, silent)
    assert (folder / "engine.plan").stat().st_size > 10_000


@pytest.fixture(scope="module", params=NETS)
def net(request: pytest.FixtureRequest) -> tuple[str, nn.Module, onnx.ModelProto]:
    made = make_net(request.param)
    return request.param, made, export_net(made)


def test_int8_engines_answer_as_fake_quant_does(
    net: tuple[str, nn.Module, onnx.ModelProto], tmp_path: Path
) -> None:
    """Rounding edges may fall either way, and one such step moves what comes after it."""
    quantized = quantize_net(net[1], tmp_path, KEPT[net[0]])
    wanted, model = run_torch(quantized, PICTURES), export_net(quantized)
    weights = [tensor for tensor in model.graph.initializer if "frozen" in tensor.name]
    assert weights and all(item.data_type == onnx.TensorProto.INT8 for item in weights)
    literal = run_literally(model, CONTRACT, PICTURES)
    assert measure_mean(wanted, literal) < 0.002
    for backend in (openvino_backend, onnxruntime_backend):
        found = run_engine(backend, model, "int8", tmp_path)
        assert measure_mean(wanted, found) < 0.04, backend.LIBRARY
        assert count_flips(wanted, found) <= 3, backend.LIBRARY
    build_for_rtx(model, "int8", tmp_path)


@pytest.mark.parametrize(("precision", "limit"), [("fp16", 0.002), ("bf16", 0.015)])
def test_cast_engines_answer_as_the_network_does(
    net: tuple[str, nn.Module, onnx.ModelProto],
    precision: Precision,
    limit: float,
    tmp_path: Path,
) -> None:
    quantizer: Any = load_choice("quantizers", precision)
    model = quantizer.rewrite(net[2], PICTURES[:8], quantizer.Options())
    wanted = run_torch(net[1], PICTURES)
    literal = run_literally(model, CONTRACT, PICTURES)
    assert 0 < measure_mean(wanted, literal) < limit
    backends = [openvino_backend] + [onnxruntime_backend] * (precision == "fp16")
    for backend in backends:
        found = run_engine(backend, model, precision, tmp_path)
        assert measure_mean(wanted, found) < limit, backend.LIBRARY
        assert count_flips(wanted, found) <= 2, backend.LIBRARY
    build_for_rtx(model, precision, tmp_path)
