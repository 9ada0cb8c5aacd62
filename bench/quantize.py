"""Our INT8 against onnxruntime.quantization and NNCF: same network, same pictures, same runtimes.

Networks trained on X-SDD as `bench/folds.py --parts scratch,mobile --state FOLDER` left them. Each
quantizer gets our fp32 ONNX file and the same calibration pictures, with the settings that its
documentation gives for a CPU: ONNX Runtime QDQ with uint8 activations and per-channel weights;
NNCF on OpenVINO's model for OpenVINO, on the ONNX file for ONNX Runtime. Quality is counted on
pictures that no network was trained on; latency is taken in alternating rounds, batch 1 and 8.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import openvino as ov
from _common import figure, make_parser, open_report, print_table
from _stages import Folder, build_for, recall
from numpy.typing import NDArray
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_static,
)
from onnxruntime.quantization.shape_inference import quant_pre_process

from enginehouse.choose.paired import measure_excess
from enginehouse.engine import BatchProfile, Pictures, open_engine
from enginehouse.export.export import ExportConfig, export
from enginehouse.ingest.record import DataVersion
from enginehouse.measure.timing import time_alternating
from enginehouse.prepare.index import read_index
from enginehouse.prepare.record import Pack
from enginehouse.prepare.shards import open_pictures
from enginehouse.processor import count_cores
from enginehouse.quantize.calibration import choose_rows
from enginehouse.quantize.quantize import quantize
from enginehouse.quantize.record import QuantizeConfig
from enginehouse.train.record import TrainedModel
from enginehouse.train.splits import read_split

NETWORKS = {"resnet18": "scratch", "mobilenet_v3_small": "mobile"}
NUM_PICTURES = 128
BATCHES = (1, 8)
PROFILE = BatchProfile(min=1, opt=8, max=32)
OURS = "ours"
Run = Callable[[Pictures], NDArray[Any]]


class Reader(CalibrationDataReader):  # type: ignore[misc]
    """Calibration pictures as ONNX Runtime asks for them."""

    def __init__(self, batches: list[Pictures]) -> None:
        self.rest: Iterator[Pictures] = iter(batches)

    def get_next(self) -> dict[str, Pictures] | None:
        """The next batch, or None."""
        batch = next(self.rest, None)
        return None if batch is None else {"pictures": batch}


def main() -> None:
    """Quantize thrice, run twice, print, end with the figures."""
    parser = make_parser(__doc__)
    parser.add_argument("--state", type=Path, required=True, help="what bench/folds.py left")
    parser.add_argument("--folds", type=int, default=3, help="default: 3; --quick: 1")
    args = parser.parse_args()
    logging.getLogger("nncf").setLevel(logging.ERROR)
    libraries = ("torch", "torchao", "openvino", "onnxruntime", "nncf")
    with (
        open_report("Post-training INT8 against other quantizers", args, libraries),
        tempfile.TemporaryDirectory() as scratch,
    ):
        for name in NETWORKS:
            measure_network(name, Path(scratch), args)


def measure_network(name: str, scratch: Path, args: argparse.Namespace) -> None:
    """One network: its folds one after the other, quality pooled, latency of the first."""
    wrong: dict[str, dict[str, list[NDArray[Any]]]] = {"OpenVINO": {}, "ONNX Runtime": {}}
    far: dict[tuple[str, str], list[float]] = {}
    parts, times = [], {}
    for number in range(1, (1 if args.quick else args.folds) + 1):
        folder = Folder(scratch)
        folder.use_store(args.state / "state" / "store")
        model = recall(folder.store, f"{NETWORKS[name]}/fold{number}.train", TrainedModel)
        pack = recall(folder.store, f"{NETWORKS[name]}/fold{number}.prepare", Pack)
        here = folder.open()
        index, pictures = read_index(pack, "test", here), open_pictures(pack, "test", here)[:]
        truth = index["class_index"].to_numpy()
        parts += index["part"].tolist()
        sides = make_sides(folder, model, pack)
        for runtime, runs in sides.items():
            base = answer(runs["fp32"], pictures)
            for side, run in runs.items():
                said = answer(run, pictures)
                wrong[runtime].setdefault(side, []).append(said.argmax(axis=1) != truth)
                far.setdefault((runtime, side), []).append(float(np.abs(said - base).max(1).mean()))
            if number == 1:
                times[runtime] = time_sides(runs, pictures, rounds=5 if args.quick else 21)
    groups = np.unique(parts, return_inverse=True)[1]
    for runtime, by_side in wrong.items():
        errors = {side: np.concatenate(each) for side, each in by_side.items()}
        tell(name, runtime, errors, far, times[runtime], groups)


def make_sides(folder: Folder, model: TrainedModel, pack: Pack) -> dict[str, dict[str, Run]]:
    """Runtime to quantizer to a callable from uint8 pictures to probabilities."""
    graphs = {}
    for quantizer, options in (("none", {}), ("int8_ptq", {"sensitivity_pictures": 0})):
        config = QuantizeConfig(quantizer=quantizer, options=options, num_pictures=NUM_PICTURES)
        quantized = quantize(model, pack, config, folder.open())
        version = DataVersion(digest="0")
        graphs[quantizer] = export(
            quantized, model, pack, version, ExportConfig(max_difference=1), folder.open()
        )
    here = folder.open()
    plain = here.path(graphs["none"], "model.onnx")
    batches = list(iter_calibration(pack, folder))
    by_ort, by_nncf = here.scratch / "ort.onnx", here.scratch / "nncf.onnx"
    quantize_with_ort(plain, by_ort, batches)
    onnx.save(quantize_with_nncf(onnx.load(plain), batches), by_nncf)
    nncf_ir = quantize_with_nncf(ov.Core().read_model(plain), batches)
    sides: dict[str, dict[str, Run]] = {"OpenVINO": {}, "ONNX Runtime": {}}
    for label, graph in (("fp32", graphs["none"]), (OURS, graphs["int8_ptq"])):
        for runtime, backend in (("OpenVINO", "openvino"), ("ONNX Runtime", "onnxruntime")):
            engine = build_for(folder, graph, PROFILE, backend=backend)
            files = here.paths(engine)
            session = open_engine(files, engine.target, engine.sidecar, count_cores())
            sides[runtime][label] = session.run
    sides["OpenVINO"]["onnxruntime.quantization"] = open_openvino(ov.Core().read_model(by_ort))
    sides["OpenVINO"]["NNCF"] = open_openvino(nncf_ir)
    sides["ONNX Runtime"]["onnxruntime.quantization"] = open_onnxruntime(by_ort)
    sides["ONNX Runtime"]["NNCF"] = open_onnxruntime(by_nncf)
    return sides


def iter_calibration(pack: Pack, folder: Folder) -> Iterator[Pictures]:
    """The pictures that our quantizer takes, uint8, in its batches."""
    split = read_split(pack, "train", folder.open())
    rows = choose_rows(split.labels, NUM_PICTURES, seed=0)
    for start in range(0, len(rows), 16):
        yield split.pick(rows[start : start + 16])[0].numpy()


def quantize_with_ort(source: Path, target: Path, batches: list[Pictures]) -> None:
    """ONNX Runtime's static quantization, as its documentation has it for CPUs."""
    ready = target.with_suffix(".ready.onnx")
    quant_pre_process(str(source), str(ready))
    quantize_static(
        str(ready),
        str(target),
        Reader(batches),
        quant_format=QuantFormat.QDQ,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        per_channel=True,
    )


def quantize_with_nncf(model: Any, batches: list[Pictures]) -> Any:
    """NNCF's post-training quantization with its defaults."""
    import nncf

    rows = [each[None] for batch in batches for each in batch]
    is_onnx = isinstance(model, onnx.ModelProto)
    data = nncf.Dataset(rows, (lambda row: {"pictures": row}) if is_onnx else None)
    return nncf.quantize(model, data, subset_size=len(rows))


def open_openvino(model: Any) -> Run:
    """Compiled as our own engines are."""
    options = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
    threads = {"INFERENCE_NUM_THREADS": count_cores()}
    request = ov.Core().compile_model(model, "CPU", {**options, **threads}).create_infer_request()
    return lambda pictures: request.infer([pictures], share_inputs=True)[0]


def open_onnxruntime(path: Path) -> Run:
    """Opened as our own engines are."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = count_cores()
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda pictures: session.run(None, {"pictures": pictures})[0]


def answer(run: Run, pictures: Pictures) -> NDArray[Any]:
    """Probabilities of all pictures."""
    most = PROFILE.max
    starts = range(0, len(pictures), most)
    return np.concatenate([np.array(run(pictures[start : start + most])) for start in starts])


def time_sides(
    runs: dict[str, Run], pictures: Pictures, rounds: int
) -> dict[int, dict[str, float]]:
    """Batch to quantizer to median milliseconds."""
    times = {}
    for batch in BATCHES:
        part = np.ascontiguousarray(pictures[:batch])
        calls = {side: lambda run=run, part=part: run(part) for side, run in runs.items()}
        taken = time_alternating(calls, rounds)
        times[batch] = {side: median(each) for side, each in taken.items()}
    return times


def tell(
    name: str,
    runtime: str,
    errors: dict[str, NDArray[Any]],
    far: dict[tuple[str, str], list[float]],
    times: dict[int, dict[str, float]],
    parts: NDArray[Any],
) -> None:
    """The table of one network on one runtime, and its figures."""
    rows: list[list[object]] = []
    for side, wrong in errors.items():
        distance = f"{np.mean(far[runtime, side]):.4f}"
        rows.append([side, int(wrong.sum()), distance, *(f"{times[b][side]:.2f}" for b in BATCHES)])
    head = f"{name} on {runtime}, {len(parts)} pictures"
    print_table((head, "errors", "from fp32", *(f"ms at batch {b}" for b in BATCHES)), rows)
    label = f"quantize_{name}_{runtime.replace(' ', '').lower()}"
    others = [side for side in errors if side not in (OURS, "fp32")]
    # How much more often we err than another, with 95 % confidence: more than 0 is no noise.
    worst = max(-measure_excess(errors[OURS], errors[other], parts).bound for other in others)
    figure(f"{label}_more_errors", worst, 0, "lower")
    ratio = min(times[b][other] / times[b][OURS] for b in BATCHES for other in others)
    figure(f"{label}_speed", ratio, 0.97)


if __name__ == "__main__":
    main()
