"""A network small enough to check by hand, and the records that stages take, made from it.

The network answers which channel of a picture is brightest: a 3x3 mean per channel, ReLU, global
average, and a Gemm that picks the three means out of eight.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pandas as pd
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from enginehouse.artifact import Workspace
from enginehouse.choices import load_choice
from enginehouse.engine import BatchProfile, Contract, Precision, Target
from enginehouse.export.record import OnnxModel
from enginehouse.preparation import Preparation, Tiling
from enginehouse.prepare.record import Pack
from enginehouse.store import Store

SIZE = 16
CLASSES = ("red", "green", "blue")
CONTRACT = Contract(preparation=Preparation(size=SIZE), classes=CLASSES)
TILED = Contract(  # windows that touch; red is the good class
    preparation=Preparation(size=SIZE, tiles=Tiling(size=SIZE, overlap=0), good="red"),
    classes=CLASSES,
)
TARGET = Target(batch=BatchProfile(min=1, opt=2, max=4))


def make_graph(precision: Precision = "fp32") -> onnx.ModelProto:
    """uint8 [n, 3, 16, 16] in, softmax [n, 3] out; int8 with explicit symmetric Q/DQ.

    fp16 and bf16 have the casts that the quantizers of these names write.
    """
    if precision in ("fp16", "bf16"):
        quantizer: Any = load_choice("quantizers", precision)
        cast: onnx.ModelProto = quantizer.rewrite(
            make_graph(), make_pictures([0, 1, 2]), quantizer.Options()
        )
        return cast
    kernels = np.random.default_rng(0).normal(0, 0.05, (8, 3, 3, 3)).astype(np.float32)
    for channel in range(3):
        kernels[channel] = 0
        kernels[channel, channel] = 1 / 9
    picks = np.zeros((3, 8), np.float32)
    picks[range(3), range(3)] = 8
    graph = _Graph(quantized=precision == "int8")
    name = graph.add("Cast", ["pictures"], to=TensorProto.FLOAT)
    name = graph.add("Mul", [name, graph.keep(np.float32(1 / 127.5))])
    name = graph.add("Add", [name, graph.keep(np.float32(-1))])
    bias = graph.keep(np.linspace(0, 0.01, 8, dtype=np.float32))
    inputs = [graph.activation(name, 1 / 127), graph.weight(kernels), bias]
    name = graph.add("Conv", inputs, pads=[1, 1, 1, 1], strides=[2, 2])
    name = graph.activation(graph.add("Relu", [name]), 1 / 127)
    name = graph.add("Flatten", [graph.add("GlobalAveragePool", [name])])
    inputs = [graph.activation(name, 1 / 127), graph.weight(picks)]
    name = graph.add("Gemm", [*inputs, graph.keep(np.zeros(3, np.float32))], transB=1)
    graph.add("Softmax", [name], output="probabilities", axis=1)
    return graph.finish()


def make_branched_graph(precision: Precision = "fp32") -> onnx.ModelProto:
    """Three residual blocks of random weights: as `make_graph` outside, with 10 Conv inside.

    Each block is Conv, Relu, Conv beside a 1x1 Conv, added, Relu: in this order.
    """
    graph, rng = _Graph(quantized=precision == "int8"), np.random.default_rng(1)

    def convolve(name: str, channels: int, side: int) -> str:
        kernels = rng.normal(0, (2 / (channels * side**2)) ** 0.5, (8, channels, side, side))
        inputs = [graph.activation(name, 4 / 127), graph.weight(kernels.astype(np.float32))]
        bias = graph.keep(rng.normal(0, 0.1, 8).astype(np.float32))
        return graph.add("Conv", [*inputs, bias], pads=[side // 2] * 4)

    name = graph.add("Cast", ["pictures"], to=TensorProto.FLOAT)
    name = graph.add("Mul", [name, graph.keep(np.float32(1 / 64))])
    name = graph.add("Add", [name, graph.keep(np.float32(-2))])
    name = graph.add("Relu", [convolve(name, 3, 3)])
    for _ in range(3):
        body = convolve(graph.add("Relu", [convolve(name, 8, 3)]), 8, 3)
        both = [graph.activation(side, 4 / 127) for side in (body, convolve(name, 8, 1))]
        name = graph.add("Relu", [graph.add("Add", both)])
    name = graph.add("Flatten", [graph.add("GlobalAveragePool", [name])])
    weights = graph.weight(rng.normal(0, 1, (3, 8)).astype(np.float32))
    inputs = [graph.activation(name, 2 / 127), weights, graph.keep(np.zeros(3, np.float32))]
    graph.add("Softmax", [graph.add("Gemm", inputs, transB=1)], output="probabilities", axis=1)
    return graph.finish()


class _Graph:
    def __init__(self, quantized: bool) -> None:
        self.quantized = quantized
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def keep(self, value: NDArray[np.generic] | np.generic) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def add(self, operator: str, inputs: list[str], output: str = "", **attributes: Any) -> str:
        name = output or f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(
            helper.make_node(operator, inputs, [name], name=f"node_{name}", **attributes)
        )
        return name

    def activation(self, name: str, scale: float) -> str:
        if not self.quantized:
            return name
        pair = [self.keep(np.float32(scale)), self.keep(np.int8(0))]
        return self.add("DequantizeLinear", [self.add("QuantizeLinear", [name, *pair]), *pair])

    def weight(self, values: NDArray[np.float32]) -> str:
        if not self.quantized:
            return self.keep(values)
        flat = values.reshape(len(values), -1)
        scales = (np.abs(flat).max(axis=1) / 127).astype(np.float32)
        numbers = np.round(flat / scales[:, None]).astype(np.int8).reshape(values.shape)
        zeros = self.keep(np.zeros(len(values), np.int8))
        return self.add("DequantizeLinear", [self.keep(numbers), self.keep(scales), zeros], axis=0)

    def finish(self) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "tiny",
            [helper.make_tensor_value_info("pictures", TensorProto.UINT8, ["n", 3, SIZE, SIZE])],
            [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["n", 3])],
            self.constants,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
        onnx.checker.check_model(model, full_check=True)
        return model


def save_graph(folder: Path, precision: Precision = "fp32") -> Path:
    path = folder / f"{precision}.onnx"
    onnx.save(make_graph(precision), path)
    return path


def make_pictures(answers: list[int], seed: int = 0) -> NDArray[np.uint8]:
    """Noise, with the channel that is the answer brighter."""
    pictures = np.random.default_rng(seed).integers(90, 130, (len(answers), 3, SIZE, SIZE))
    pictures[range(len(answers)), answers] += 90
    return pictures.astype(np.uint8)


def open_workspace(folder: Path) -> Workspace:
    """A workspace with a fresh scratch folder, over the store in `folder`."""
    store = Store(folder / "store")
    scratch = folder / f"scratch{len(list(folder.glob('scratch*')))}"
    scratch.mkdir()
    return Workspace(store, scratch)


def seal_onnx(
    folder: Path, precision: Precision = "fp32", contract: Contract = CONTRACT
) -> OnnxModel:
    here = open_workspace(folder)
    onnx.save(make_graph(precision), here.scratch / "model.onnx")
    return OnnxModel(
        files=here.seal(["model.onnx"]), contract=contract, precision=precision, data="d"
    )


def seal_pack(
    folder: Path,
    answers: list[int],
    labels: list[int] | None = None,
    part_of: Callable[[int], str] = str,
    **columns: list[Any],
) -> Pack:
    """A pack whose val and test splits hold pictures of `answers`, labelled so, or as `labels`.

    Args:
        part_of: which part the picture in a row shows.
        columns: more of the index, a value per row.
    """
    here = open_workspace(folder)
    labels = answers if labels is None else labels
    rows = []
    for split in ("val", "test"):
        np.save(here.scratch / f"{split}-00000.npy", make_pictures(answers))
        rows += [
            {
                **{"split": split, "row": row, "path": f"{split}/{row}.png"},
                **{"label": CLASSES[label], "class_index": label, "part": part_of(row)},
                **{name: values[row] for name, values in columns.items()},
            }
            for row, label in enumerate(labels)
        ]
    names = ["split", "row", "path", "label", "class_index", "part", *columns]
    # Not in the order of the array: readers have to go by `row`.
    pd.DataFrame(rows[::-1], columns=names).to_parquet(here.scratch / "index.parquet")
    return Pack(
        files=here.seal(["index.parquet", "val-00000.npy", "test-00000.npy"]),
        classes=CLASSES,
        preparation=CONTRACT.preparation,
        counts={"train": 0, "val": len(answers), "test": len(answers)},
        mean=(0.5, 0.5, 0.5),
        std=(0.5, 0.5, 0.5),
    )


def seal_tiled_pack(
    folder: Path, windows: list[dict[str, Any]], boxes: list[dict[str, Any]], min_visible: float
) -> Pack:
    """A pack of windows: val and test hold one of each row's `answer`, labelled `label`.

    Args:
        windows: path, x, y, answer, label (class indices), clean, picture_index.
        boxes: path, label, x, y, width, height.
    """
    here = open_workspace(folder)
    pictures = make_pictures([row["answer"] for row in windows])
    for split in ("val", "test"):
        np.save(here.scratch / f"{split}-00000.npy", pictures)
    table = pd.DataFrame(windows)
    table = table.assign(
        row=range(len(table)),
        class_index=table["label"],
        label=[CLASSES[label] for label in table["label"]],
        part=table["path"],
        width=SIZE,
        height=SIZE,
    )
    index = pd.concat([table.assign(split="val"), table.assign(split="test")], ignore_index=True)
    index[::-1].to_parquet(here.scratch / "index.parquet")
    columns = ["path", "label", "x", "y", "width", "height"]
    pd.DataFrame(boxes, columns=columns).to_parquet(here.scratch / "boxes.parquet")
    return Pack(
        files=here.seal(["index.parquet", "boxes.parquet", "val-00000.npy", "test-00000.npy"]),
        classes=CLASSES,
        preparation=TILED.preparation,
        min_visible=min_visible,
        counts={"train": 0, "val": len(table), "test": len(table)},
        mean=(0.5, 0.5, 0.5),
        std=(0.5, 0.5, 0.5),
    )
