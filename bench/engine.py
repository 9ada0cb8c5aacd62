"""How much faster the OpenVINO INT8 engine is than what one would run without it.

ResNet-18 and ResNet-50 at 224 px, batch 1 and 8, against OpenVINO fp32, OpenVINO bf16 and PyTorch
eager fp32. All sides get the same uint8 pictures, normalise inside the timed call, use the same
threads, and are called in alternating rounds; medians count. The weights are random, with spread
BatchNorm statistics: speed does not depend on what a network has learnt. Quantizer, exporter and
engines are the product's own stages.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import openvino as ov
import pandas as pd
import torch
from _common import figure, open_report, parse_args, print_table
from safetensors.torch import save_file

from enginehouse.artifact import Workspace
from enginehouse.build.build import build
from enginehouse.build.record import Engine
from enginehouse.choices import load_choice
from enginehouse.engine import BatchProfile, Precision, Target, load_backend, open_engine
from enginehouse.export.export import ExportConfig, export
from enginehouse.ingest.record import DataVersion
from enginehouse.measure.eager import open_eager
from enginehouse.measure.timing import time_alternating
from enginehouse.preparation import Preparation
from enginehouse.prepare.record import Pack
from enginehouse.prepare.shards import open_pictures
from enginehouse.processor import count_cores
from enginehouse.quantize.quantize import QuantizeConfig, quantize
from enginehouse.store import Store
from enginehouse.train.record import ModelConfig, TrainedModel

SIZE = 224
CLASSES = tuple(f"class{number}" for number in range(10))
BATCHES = (1, 8)
MODELS = ("resnet18", "resnet50")
QUICK_MODELS = ("resnet18",)
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
INT8, FP32, BF16, EAGER = "OpenVINO int8", "OpenVINO fp32", "OpenVINO bf16", "PyTorch eager"


class Folder:
    """A store, and a fresh workspace for each stage that is called."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.store = Store(root / "store")

    def open(self) -> Workspace:
        """A workspace whose scratch folder is empty."""
        return Workspace(self.store, Path(tempfile.mkdtemp(dir=self.root)))


def seal_pictures(folder: Folder) -> Pack:
    """Coloured patches, 32 for calibration and 8 for each other split."""
    here, rng = folder.open(), np.random.default_rng(0)
    counts = {"train": 32, "val": 8, "test": 8}
    rows = []
    for split, count in counts.items():
        patches = rng.integers(0, 256, (count, 3, 14, 14), dtype=np.uint8)
        np.save(here.scratch / f"{split}-00000.npy", patches.repeat(16, axis=2).repeat(16, axis=3))
        rows += [
            {"split": split, "row": row, "path": f"{split}/{row}", "part": f"{split}{row}"}
            | {"label": CLASSES[row % 10], "class_index": row % 10}
            for row in range(count)
        ]
    pd.DataFrame(rows).to_parquet(here.scratch / "index.parquet", index=False)
    names = [*(f"{split}-00000.npy" for split in counts), "index.parquet"]
    return Pack(
        files=here.seal(names),
        classes=CLASSES,
        preparation=Preparation(size=SIZE),
        counts=counts,
        mean=MEAN,
        std=STD,
    )


def seal_network(folder: Folder, name: str) -> TrainedModel:
    """Random weights; BatchNorm statistics spread, so that folding them changes something."""
    here = folder.open()
    torch.manual_seed(0)
    network = load_choice("models", "torchvision").build_model(name, len(CLASSES))
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.uniform_(-0.1, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    save_file(network.state_dict(), here.scratch / "weights.safetensors")
    return TrainedModel(
        files=here.seal(["weights.safetensors"]),
        model=ModelConfig(family="torchvision", name=name),
        classes=CLASSES,
        preparation=Preparation(size=SIZE),
        mean=MEAN,
        std=STD,
        val_accuracy=0,
        val_macro_f1=0,
    )


def build_engines(folder: Folder, model: TrainedModel, pack: Pack) -> dict[str, Engine]:
    """The INT8 engine and its fp32 twin, by precision."""
    quantized = quantize(
        model=model, pack=pack, config=QuantizeConfig(num_pictures=16), here=folder.open()
    )
    # Random weights answer at random: how far INT8 is from fp32 is no matter here.
    config = ExportConfig(num_parity_pictures=1, max_difference=1)
    engines = {}
    sources: dict[Precision, Any] = {"int8": quantized, "fp32": model}
    for precision, source in sources.items():
        onnx = export(
            model=source, pack=pack, data=DataVersion(digest="0"), config=config, here=folder.open()
        )
        target = Target(precision=precision, batch=BatchProfile(min=1, opt=8, max=8))
        device = load_backend(target.backend).describe_build_device(target)
        engines[precision] = build(onnx=onnx, device=device, config=target, here=folder.open())
    return engines


@contextlib.contextmanager
def open_sides(
    folder: Folder, model: TrainedModel, engines: dict[str, Engine], threads: int
) -> Iterator[dict[str, Callable[[Any], object]]]:
    """Name to callable on uint8 pictures."""
    here = folder.open()
    sides: dict[str, Callable[[Any], object]] = {}
    for name, precision in ((INT8, "int8"), (FP32, "fp32")):
        engine = engines[precision]
        session = open_engine(here.paths(engine), engine.target, engine.sidecar, threads)
        sides[name] = session.run
    core = ov.Core()
    if "BF16" in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
        paths = here.paths(engines["fp32"])
        network = core.read_model(paths["engine.xml"], paths["engine.bin"])
        options = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "bf16"}
        compiled = core.compile_model(network, "CPU", {**options, "INFERENCE_NUM_THREADS": threads})
        request = compiled.create_infer_request()
        sides[BF16] = lambda pictures: request.infer([pictures], share_inputs=True)[0]
    weights = here.path(model, "weights.safetensors")
    with open_eager(model, weights, "cpu", threads) as eager:
        yield {**sides, EAGER: eager}


def time_model(
    folder: Folder, name: str, pack: Pack, rounds: int, threads: int
) -> list[dict[str, Any]]:
    """One row per batch: model, batch, and the median milliseconds of each side."""
    model = seal_network(folder, name)
    engines = build_engines(folder, model, pack)
    pictures = open_pictures(pack, "test", folder.open())[:]
    rows = []
    with open_sides(folder, model, engines, threads) as sides:
        for batch in BATCHES:
            part = pictures[:batch]
            # Bound now: the loop's variables change before the sides are called again.
            calls = {side: lambda call=call, part=part: call(part) for side, call in sides.items()}
            times = time_alternating(calls, rounds)
            medians = {side: median(values) for side, values in times.items()}
            rows.append({"model": name, "batch": batch, **medians})
    return rows


def main() -> None:
    """Time, print the table, end with the figures: the worst case over models and batches."""
    args = parse_args(__doc__)
    rounds = 7 if args.quick else 31
    threads = count_cores()
    with (
        open_report("engine speed", args, ("openvino", "torch", "torchvision", "torchao")),
        tempfile.TemporaryDirectory() as root,
    ):
        folder = Folder(Path(root))
        pack = seal_pictures(folder)
        rows = []
        for name in QUICK_MODELS if args.quick else MODELS:
            rows += time_model(folder, name, pack, rounds, threads)
        print(f"median milliseconds per call of {rounds} rounds, {threads} threads; ratio to int8")
        others = [side for side in (FP32, BF16, EAGER) if side in rows[0]]
        print_table(
            ("model", "batch", INT8, *(column for side in others for column in (side, "ratio"))),
            [
                [row["model"], row["batch"], row[INT8]]
                + [cell for side in others for cell in (row[side], f"{row[side] / row[INT8]:.2f}x")]
                for row in rows
            ],
        )
        worst = {side: min(row[side] / row[INT8] for row in rows) for side in others}
        print(f"worst case against {EAGER} fp32: {worst[EAGER]:.2f}x")
        if BF16 not in worst:
            print("this processor has no bf16: that figure cannot be taken here")
        figure("engine_int8_vs_openvino_fp32", worst[FP32], 1.5)
        if BF16 in worst:
            figure("engine_int8_vs_openvino_bf16", worst[BF16], 1.2)


if __name__ == "__main__":
    main()
