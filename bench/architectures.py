"""What INT8 makes of the architectures people use: what stays in float, where it runs, how fast.

Each is quantized (EfficientNetV2-S by training on), exported and built by the product's own
stages, at 224 px with random weights and spread BatchNorm statistics: whether it works and how
fast it is does not depend on what a network has learnt. INT8 is held against the fp32 engine of
the same backend, batch 1, in alternating rounds; TensorRT-RTX is built for three generations of
cards, and run on none. `--write` puts the table into docs/quantization.md.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

import onnx
from _common import figure, make_parser, open_report, print_table
from _stages import ANYTHING, Folder, build_for, seal_network, seal_pictures, shrink

from enginehouse.engine import BatchProfile, open_engine
from enginehouse.errors import EnginehouseError
from enginehouse.measure.eager import open_eager
from enginehouse.measure.timing import time_alternating
from enginehouse.prepare.record import Pack
from enginehouse.prepare.shards import open_pictures
from enginehouse.processor import count_cores
from enginehouse.quantize.record import QuantizeConfig

PTQ = QuantizeConfig(quantizer="int8_ptq", options={"sensitivity_pictures": 0}, num_pictures=16)
QAT = QuantizeConfig(quantizer="int8_qat", options={"epochs": 1, "batch_size": 8}, num_pictures=16)
PLAIN = QuantizeConfig(quantizer="none", num_pictures=16)
NETWORKS = {
    "resnet18": PTQ,
    "resnet50": PTQ,
    "mobilenet_v3_small": PTQ,
    "efficientnet_v2_s": QAT,
    "convnext_tiny": PTQ,
    "vit_b_16": PTQ,
}
QUICK = ("resnet18",)
RTX = {"backend": "tensorrt_rtx", "device": "sm86+sm89+sm120"}
DOCS = Path(__file__).parents[1] / "docs" / "quantization.md"
MARKS = "<!-- architectures: begin -->", "<!-- architectures: end -->"
COLUMNS = (
    *("network", "made by", "INT8 products", "left in float"),
    *("OpenVINO", "ONNX Runtime", "over eager", "TensorRT-RTX"),
)
# Why an operator has no INT8 form in a graph that every backend takes.
REASONS = {
    "Conv": "on 1x1 maps: gates of squeeze-and-excitation",
    "LayerNormalization": "its sums want float",
    "Softmax": "its exponentials want float",
    "Gelu": "no INT8 kernel",
    "Erf": "GELU: no INT8 kernel",
    "HardSwish": "fused behind the product before it",
    "Sigmoid": "SiLU: no INT8 kernel",
    "HardSigmoid": "gates of squeeze-and-excitation",
    "MatMul": "products of two activations in attention",
}


def main() -> None:
    """Try each network, print the table, end with how many work everywhere."""
    parser = make_parser(__doc__)
    parser.add_argument("--write", action="store_true", help="write the table into the docs")
    args = parser.parse_args()
    libraries = ("openvino", "onnxruntime", "tensorrt-rtx", "torch", "torchvision", "torchao")
    with (
        open_report("INT8 by architecture", args, libraries),
        tempfile.TemporaryDirectory() as root,
    ):
        folder = Folder(Path(root))
        pack = seal_pictures(folder)
        rows, failed = [], 0
        for name in QUICK if args.quick else NETWORKS:
            row, faults = try_network(folder, name, pack, rounds=5 if args.quick else 15)
            rows.append(row)
            failed += bool(faults)
            for fault in faults:
                print(f"{name}: {fault}", flush=True)
        print_table([*COLUMNS[:3], *COLUMNS[4:]], [[*row[:3], *row[4:]] for row in rows])
        for row in rows:
            print(f"{row[0]}, left in float: {row[3]}")
        if args.write:
            write_docs(rows)
        figure("architectures_that_fail", failed, 0, "lower")


def try_network(folder: Folder, name: str, pack: Pack, rounds: int) -> tuple[list[str], list[str]]:
    """One row of the table, and what did not work."""
    model, config = seal_network(folder, name), NETWORKS[name]
    graphs = {
        "int8": shrink(folder, model, pack, config, ANYTHING),
        "fp32": shrink(folder, model, pack, PLAIN, ANYTHING),
    }
    faults = []
    times: dict[str, float] = {}
    with contextlib.ExitStack() as stack:
        sides: dict[str, Any] = {}
        here, threads = folder.open(), count_cores()
        pictures = open_pictures(pack, "test", here)[:1]
        for backend in ("openvino", "onnxruntime"):
            for precision, graph in graphs.items():
                try:
                    profile = BatchProfile(min=1, opt=1, max=8)
                    engine = build_for(folder, graph, profile, backend=backend)
                    files = here.paths(engine)
                    session = open_engine(files, engine.target, engine.sidecar, threads)
                except EnginehouseError as error:
                    faults.append(f"{backend} {precision}: {error.message}")
                    continue
                stack.callback(session.close)
                sides[f"{backend} {precision}"] = lambda run=session.run: run(pictures)
        weights = here.path(model, "weights.safetensors")
        eager = stack.enter_context(open_eager(model, weights, "cpu", threads))
        sides["eager"] = lambda: eager(pictures)
        times = {side: median(each) for side, each in time_alternating(sides, rounds).items()}
    built = "builds"
    try:
        build_for(folder, graphs["int8"], BatchProfile(min=1, opt=1, max=8), **RTX)
    except EnginehouseError as error:
        faults.append(f"tensorrt_rtx: {error.message}")
        built = "fails"
    products, left = list_operators(onnx.load(here.path(graphs["int8"], "model.onnx")))
    speeds = [
        tell_ratio(times, f"{each} fp32", f"{each} int8") for each in ("openvino", "onnxruntime")
    ]
    over_eager = tell_ratio(times, "eager", "openvino int8")
    return [name, config.quantizer, products, left, *speeds, over_eager, built], faults


def tell_ratio(times: dict[str, float], slow: str, fast: str) -> str:
    """`2.31x (4.0 ms)`, or a dash where one side does not run."""
    if slow not in times or fast not in times:
        return "-"
    return f"{times[slow] / times[fast]:.2f}x ({times[fast]:.1f} ms)"


def list_operators(model: onnx.ModelProto) -> tuple[str, str]:
    """How many of the products are INT8, and the operators that compute in float, with reasons."""
    producer = {output: node.op_type for node in model.graph.node for output in node.output}
    products, left = Counter[bool](), Counter[str]()
    for node in model.graph.node:
        is_int8 = bool(node.input) and producer.get(node.input[0]) == "DequantizeLinear"
        if node.op_type in ("Conv", "Gemm", "MatMul"):
            products[is_int8] += 1
        if node.op_type in REASONS and not is_int8:
            left[node.op_type] += 1
    told = [f"{count} {op} ({REASONS[op]})" for op, count in left.most_common()]
    return f"{products[True]} of {products.total()}", "; ".join(told) or "nothing"


def write_docs(rows: list[list[str]]) -> None:
    """Put the table between its marks in the docs."""
    text = DOCS.read_text(encoding="utf-8")
    begin, end = (text.index(mark) for mark in MARKS)
    lines = [COLUMNS, ["---"] * len(COLUMNS), *rows]
    table = "\n".join("| " + " | ".join(row) + " |" for row in lines)
    DOCS.write_text(f"{text[:begin]}{MARKS[0]}\n{table}\n{text[end:]}", encoding="utf-8")


if __name__ == "__main__":
    main()
