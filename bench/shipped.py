"""What ships is as good as fp32: X-SDD out of fold, each picture judged by a network new to it.

For ResNet-18 and MobileNetV3-small as `bench/folds.py --parts scratch,mobile --state FOLDER` left
them: per fold, the candidates are quantized, exported, built for OpenVINO, compared, scored on
validation, measured and chosen among by the product's own stages; then the engine that ships and
the fp32 engine answer the fold's test pictures. Over all folds:
  - errors that only the shipped engine makes, less those that only fp32 makes, with the one-sided
    95 % bound on the difference; the worst class by net loss per 60 pictures
  - a candidate that cannot be good (one scale per weight, in a depthwise network) is caught
  - one INT8 file in four runtimes: torch's fake-quant, OpenVINO and ONNX Runtime answer alike but
    for listed pictures, and TensorRT-RTX builds it for three generations of cards
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from _common import figure, make_parser, open_report, print_table
from _stages import Folder, build_for, recall
from numpy.typing import NDArray

from enginehouse import quantizers
from enginehouse.build.record import Engine
from enginehouse.choices import load_choice
from enginehouse.choose.choose import choose
from enginehouse.choose.paired import measure_excess
from enginehouse.choose.record import ChooseConfig, ChooseRules, Rung
from enginehouse.compare.compare import compare
from enginehouse.compare.record import CompareConfig
from enginehouse.engine import BatchProfile, load_backend
from enginehouse.errors import EngineError, ExportError
from enginehouse.evaluate.answers import run_split
from enginehouse.evaluate.config import EvaluateConfig
from enginehouse.evaluate.evaluate import evaluate
from enginehouse.evaluate.record import Scorecard
from enginehouse.export.export import ExportConfig, export
from enginehouse.export.graph import wrap_network
from enginehouse.export.record import OnnxModel
from enginehouse.ingest.record import DataVersion
from enginehouse.measure.measure import measure
from enginehouse.measure.record import MeasureConfig
from enginehouse.prepare.index import read_index
from enginehouse.prepare.record import Pack
from enginehouse.prepare.shards import open_pictures
from enginehouse.quantize.quantize import quantize
from enginehouse.quantize.record import PLAIN, STATE, Candidate, QuantizedModel, QuantizePlan
from enginehouse.train.network import build_network
from enginehouse.train.record import TrainedModel

PER_TENSOR = Candidate.model_construct(quantizer="per_tensor", name="per_tensor", options={})
INT8 = Candidate(quantizer="int8_ptq")
NETWORKS = {
    "resnet18": ("scratch", (INT8,)),
    "mobilenet_v3_small": (
        "mobile",
        (PER_TENSOR, INT8, Candidate(quantizer="int8_qat", options={"epochs": 2})),
    ),
}
FOLDS = 5
PROFILE = BatchProfile(min=1, opt=1, max=32)
RTX = {"backend": "tensorrt_rtx", "device": "sm86+sm89+sm120"}
EXCESS_TARGET, LOSS_TARGET, FLIPS_TARGET = 0.01, 1.0, 1 / 200


@dataclass
class Fold:
    """What one fold came to.

    Attributes:
        truth, fp32, shipped: class indices of its test pictures.
        runtimes: by name, those that the INT8 file gives in each.
        caught: candidates that were refused or not chosen, with the reason.
    """

    paths: list[str]
    parts: list[str]
    truth: NDArray[Any]
    fp32: NDArray[Any]
    shipped: NDArray[Any]
    chosen: str
    reasons: dict[str, str]
    runtimes: dict[str, NDArray[Any]]


def main() -> None:
    """Walk, print, end with the figures."""
    parser = make_parser(__doc__)
    parser.add_argument("--state", type=Path, required=True, help="what bench/folds.py left")
    parser.add_argument("--networks", default=",".join(NETWORKS), help="which of them")
    args = parser.parse_args()
    # For this script alone; a recipe cannot name it.
    quantizers.CHOICES["per_tensor"] = "_per_tensor"
    libraries = ("torch", "torchao", "openvino", "onnxruntime", "tensorrt-rtx")
    with (
        open_report("What ships, against fp32 on X-SDD", args, libraries),
        tempfile.TemporaryDirectory() as scratch,
    ):
        for name in args.networks.split(","):
            measure_network(name, args, Path(scratch))


def measure_network(name: str, args: argparse.Namespace, scratch: Path) -> None:
    """All folds of one network."""
    recipe, candidates = NETWORKS[name]
    folds = []
    for number in range(1, (1 if args.quick else FOLDS) + 1):
        folder = Folder(scratch)
        folder.use_store(args.state / "state" / "store")
        model = recall(folder.store, f"{recipe}/fold{number}.train", TrainedModel)
        pack = recall(folder.store, f"{recipe}/fold{number}.prepare", Pack)
        folds.append(walk_fold(folder, model, pack, candidates))
        chosen, reasons = folds[-1].chosen, folds[-1].reasons
        print(f"{name}, fold {number}: {chosen} {reasons.pop(chosen)}", flush=True)
        for candidate, reason in reasons.items():
            print(f"    {candidate}: {' '.join(reason.split())[:300]}", flush=True)
    tell_excess(name, folds, model.classes)
    tell_runtimes(name, folds)


def walk_fold(
    folder: Folder, model: TrainedModel, pack: Pack, candidates: tuple[Candidate, ...]
) -> Fold:
    """From a trained network to the answers of what ships."""
    backend = load_backend("openvino")
    engines: dict[str, Engine] = {}
    cards: dict[str, Scorecard] = {}
    graphs: dict[str, tuple[QuantizedModel, OnnxModel]] = {}
    failed: dict[str, str] = {}
    rungs = []
    plan = QuantizePlan()
    for candidate in (Candidate(quantizer=PLAIN), *candidates):
        label = candidate.label
        quantized = quantize(model, pack, plan.configure(candidate), folder.open())
        try:
            onnx = export(
                quantized, model, pack, DataVersion(digest="0"), ExportConfig(), folder.open()
            )
            graphs[label] = quantized, onnx
            engine = build_for(folder, onnx, PROFILE, backend="openvino")
            device = backend.describe_run_device(engine.target)
            compare(engine, onnx, pack, device, CompareConfig(), folder.open())
        except (ExportError, EngineError) as error:
            failed[label] = f"refused: {error.message}"
            continue
        engines[label] = engine
        cards[label] = evaluate(engine, pack, device, EvaluateConfig(), folder.open())
        rungs.append(Rung(name=label, precision=onnx.precision))
    latency = measure(model, pack, device, MeasureConfig(), folder.open(), **engines)
    config = ChooseConfig(rules=ChooseRules(), rungs=tuple(rungs))
    decision = choose(pack, device, latency, config, folder.open(), **cards)
    reasons: Any = decision.notes["reasons"]
    answers = {
        name: run_split(engines[name], pack, "test", folder.open()).argmax(axis=1)
        for name in {PLAIN, decision.chosen}
    }
    index = read_index(pack, "test", folder.open())
    return Fold(
        paths=index["path"].tolist(),
        parts=index["part"].tolist(),
        truth=index["class_index"].to_numpy(),
        fp32=answers[PLAIN],
        shipped=answers[decision.chosen],
        chosen=decision.chosen,
        reasons={**reasons, **failed},
        runtimes=run_everywhere(folder, *graphs["int8_ptq"], pack),
    )


def run_everywhere(
    folder: Folder, quantized: QuantizedModel, onnx: OnnxModel, pack: Pack
) -> dict[str, NDArray[Any]]:
    """The answers of one INT8 file in torch, OpenVINO and ONNX Runtime; TensorRT-RTX builds it."""
    import torch
    from safetensors.torch import load_file

    here = folder.open()
    net = build_network(quantized.model, len(quantized.classes)).eval()
    state = load_file(here.path(quantized, STATE))
    rounded = load_choice("quantizers", quantized.quantizer).restore(
        net, state, quantized.kept_float, quantized.size
    )
    served = wrap_network(rounded, quantized)
    pictures = open_pictures(pack, "test", here)
    said = []
    with torch.inference_mode():
        for start in range(0, len(pictures), 32):
            part = torch.from_numpy(np.array(pictures[start : start + 32]))
            said.append(served(part).argmax(dim=1).numpy())
    answers = {"torch fake-quant": np.concatenate(said)}
    for backend in ("openvino", "onnxruntime"):
        engine = build_for(folder, onnx, PROFILE, backend=backend)
        answers[backend] = run_split(engine, pack, "test", folder.open()).argmax(axis=1)
    build_for(folder, onnx, PROFILE, **RTX)
    return answers


def tell_excess(name: str, folds: list[Fold], classes: tuple[str, ...]) -> None:
    """Paired errors over all folds, overall and by class."""
    truth, fp32, shipped = (
        np.concatenate([getattr(fold, field) for fold in folds])
        for field in ("truth", "fp32", "shipped")
    )
    parts = np.unique(np.concatenate([fold.parts for fold in folds]), return_inverse=True)[1]
    excess = measure_excess(fp32 != truth, shipped != truth, parts)
    rows: list[list[object]] = []
    losses = []
    for index, label in enumerate(classes):
        among = truth == index
        lost = int((among & (fp32 == truth) & (shipped != truth)).sum())
        gained = int((among & (fp32 != truth) & (shipped == truth)).sum())
        losses.append((lost - gained) / among.sum() * 60)
        rows.append([label, int(among.sum()), lost, gained, f"{losses[-1]:.2f}"])
    print_table((f"class, {name}", "pictures", "only shipped errs", "only fp32", "per 60"), rows)
    print(
        f"{name}: fp32 errs {int((fp32 != truth).sum())} times, what ships "
        f"{int((shipped != truth).sum())} times of {len(truth)}; lost {excess.lost}, gained "
        f"{excess.gained}"
    )
    figure(f"shipped_{name}_excess_bound", excess.bound, EXCESS_TARGET, "lower")
    figure(f"shipped_{name}_worst_class_loss_per_60", max(losses), LOSS_TARGET, "lower")


def tell_runtimes(name: str, folds: list[Fold]) -> None:
    """Pictures that not every runtime answers alike."""
    paths = [path for fold in folds for path in fold.paths]
    said = {
        runtime: np.concatenate([fold.runtimes[runtime] for fold in folds])
        for runtime in folds[0].runtimes
    }
    table = np.stack(list(said.values()))
    differ = np.flatnonzero((table != table[0]).any(axis=0))
    for row in differ:
        told = ", ".join(f"{runtime} {int(each[row])}" for runtime, each in said.items())
        print(f"    {paths[row]}: {told}")
    print(f"{name}: {len(differ)} of {len(paths)} pictures are not answered alike by all runtimes")
    figure(f"runtimes_{name}_flips", len(differ) / len(paths), FLIPS_TARGET, "lower")


if __name__ == "__main__":
    main()
