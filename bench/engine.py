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

import openvino as ov
from _common import figure, open_report, parse_args, print_table
from _stages import ANYTHING, Folder, build_for, seal_network, seal_pictures, shrink

from enginehouse.build.record import Engine
from enginehouse.engine import BatchProfile, open_engine
from enginehouse.measure.eager import open_eager
from enginehouse.measure.timing import time_alternating
from enginehouse.prepare.record import Pack
from enginehouse.prepare.shards import open_pictures
from enginehouse.processor import count_cores
from enginehouse.quantize.record import QuantizeConfig
from enginehouse.train.record import TrainedModel

BATCHES = (1, 8)
MODELS = ("resnet18", "resnet50")
QUICK_MODELS = ("resnet18",)
INT8, FP32, BF16, EAGER = "OpenVINO int8", "OpenVINO fp32", "OpenVINO bf16", "PyTorch eager"


def build_engines(folder: Folder, model: TrainedModel, pack: Pack) -> dict[str, Engine]:
    """The INT8 engine and its fp32 twin, by precision."""
    engines = {}
    for name, options in (("int8_ptq", {"sensitivity_pictures": 0}), ("none", {})):
        config = QuantizeConfig(quantizer=name, options=options, num_pictures=16)
        onnx = shrink(folder, model, pack, config, ANYTHING)
        batch = BatchProfile(min=1, opt=8, max=8)
        engines[onnx.precision] = build_for(folder, onnx, batch, backend="openvino")
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
