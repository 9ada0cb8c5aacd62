"""Seconds to 0.95 macro F1 on validation, X-SDD: our road against torchvision's reference script.

Both train ResNet-18 from scratch with the same optimizer (AdamW and its numbers), schedule, batch
size, epochs, resolution, threads and split of the same files. Ours starts from the folder of
pictures: ingest, validate, prepare and train all count. The reference script, torchvision's
references/classification/train.py, is run as it is, with its own presets; it finds its pictures
already split, and only the time within it counts. Its validation pass gets a macro F1 beside its
accuracy, for which the clock is stopped. If it does not get there within its epochs, the ratio
is a lower bound, and the table says so.

    git clone --depth 1 https://github.com/pytorch/vision somewhere
    python bench/time_to_quality.py --reference somewhere/references/classification

The pictures (Apache-2.0, Feng et al. 2021) are not part of the repository: name their folder.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from _common import figure, make_parser, open_report, print_table
from _tiny import isolate
from _xsdd import PICTURES, lay_out

QUALITY = 0.95
TARGET = 2.0  # times as fast
SIZE, EPOCHS, BATCH, RATE, DECAY, WARMUP = 128, 20, 32, 1e-3, 0.01, 0.5


class Reached(Exception):
    """The quality was reached."""


def main() -> None:
    """Measure and print."""
    parser = make_parser(__doc__)
    parser.add_argument("--data", type=Path, default=PICTURES, help="folder of class folders")
    parser.add_argument(
        "--reference", type=Path, help="torchvision's folder references/classification"
    )
    args = parser.parse_args()
    if not args.data.is_dir():
        sys.exit(f"skipped: there is no folder {args.data}; name one with --data")
    if args.reference is None or not (args.reference / "train.py").is_file():
        sys.exit(f"skipped: there is no train.py in {args.reference}; name one with --reference")
    with (
        tempfile.TemporaryDirectory() as scratch,
        open_report("time to quality", args, ("torch", "torchvision")),
    ):
        isolate(Path(scratch))
        measure(Path(scratch), args)


def measure(scratch: Path, args: argparse.Namespace) -> None:
    """Run one after the other and print."""
    epochs = 2 if args.quick else EPOCHS
    data = lay_out(args.data, scratch / "data")
    own, split = run_ours(data, epochs)
    folder = link_splits(data, split, scratch / "split")
    other = run_reference(args.reference.resolve(), folder, epochs, scratch)
    rows = [
        [side, seconds, len(scores), max(scores), "yes" if max(scores) >= QUALITY else "no"]
        for side, (seconds, scores) in (("ours", own), ("reference", other))
    ]
    print_table(("side", "seconds", "epochs", "best macro F1", f"reached {QUALITY}"), rows)
    if max(own[1]) < QUALITY:
        print("ours did not get there: no ratio")
    ratio = other[0] / own[0] if max(own[1]) >= QUALITY else 0.0
    figure("time_to_quality_ratio", ratio, TARGET)


def run_ours(data: Path, epochs: int) -> tuple[tuple[float, list[float]], dict[str, str]]:
    """Seconds until the quality, macro F1 per epoch, and the split of each picture."""
    import pandas as pd

    from enginehouse.artifact import Workspace
    from enginehouse.project import find_project
    from enginehouse.recipe import Recipe
    from enginehouse.train.train import train
    from flows.road import plainly
    from flows.run import make_context
    from tasks._stage import PROGRESS
    from tasks.data import resolve_data
    from tasks.ingest import ingest_task
    from tasks.prepare import prepare_task
    from tasks.validate import validate_task

    recipe = Recipe.model_validate(
        {
            "name": "steel",
            "data": {"path": str(data)},
            "prepare": {"size": SIZE},
            "train": {
                "epochs": epochs,
                "batch_size": BATCH,
                "learning_rate": RATE,
                "weight_decay": DECAY,
                "warmup_epochs": WARMUP,
                "augment": {"flip_vertical": True},
            },
        }
    )
    scores: list[float] = []

    def report(message: str, done: int = 0, total: int = 0, **metrics: float) -> None:
        if "macro_f1" in metrics:
            scores.append(metrics["macro_f1"])
            print(f"ours       {message}  macro F1 {metrics['macro_f1']:.3f}", flush=True)
            if metrics["macro_f1"] >= QUALITY:
                raise Reached

    clock = time.perf_counter()
    store = find_project().open_store()
    resolved = resolve_data(find_project(), str(data), PROGRESS.info)
    step = plainly(make_context(store, recipe, resolved))
    records: dict[str, Any] = {"data": resolved.version}
    records["manifest"] = step(ingest_task, "ingest", recipe.ingest, **records)
    records["validated"] = step(
        validate_task, "validate", recipe.validation, manifest=records["manifest"]
    )
    pack = step(prepare_task, "prepare", recipe.prepare, **records)
    with tempfile.TemporaryDirectory() as scratch:
        here = Workspace(store, Path(scratch), report)
        with contextlib.suppress(Reached):
            train(pack, recipe.train, here)
        seconds = time.perf_counter() - clock
        index = pd.read_parquet(here.path(pack, "index.parquet"))
    return (seconds, scores), dict(zip(index["path"], index["split"], strict=True))


def link_splits(data: Path, split: dict[str, str], folder: Path) -> Path:
    """Folders `train` and `val` as the reference wants them, with the pictures of our splits."""
    for name, side in split.items():
        if side != "test":
            place = folder / side / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(data / name)
    return folder


def run_reference(
    place: Path, folder: Path, epochs: int, scratch: Path
) -> tuple[float, list[float]]:
    """Seconds until the quality (or the end) in the reference script, and macro F1 per epoch."""
    sys.path.insert(0, str(place))
    import train as reference  # type: ignore[import-not-found]

    scores: list[float] = []
    paused = 0.0
    evaluate: Callable[..., float] = reference.evaluate

    def evaluate_and_score(
        model: Any, criterion: Any, loader: Any, device: Any, **rest: Any
    ) -> Any:
        nonlocal paused
        accuracy = evaluate(model, criterion, loader, device, **rest)
        clock = time.perf_counter()
        scores.append(find_macro_f1(model, loader))
        print(f"reference  epoch {len(scores)}/{epochs}  macro F1 {scores[-1]:.3f}", flush=True)
        paused += time.perf_counter() - clock
        if scores[-1] >= QUALITY:
            raise Reached
        return accuracy

    reference.evaluate = evaluate_and_score
    words = {
        "--data-path": folder,
        "--model": "resnet18",
        "--device": "cpu",
        "--batch-size": BATCH,
        "--epochs": epochs,
        "--workers": 2,
        "--opt": "adamw",
        "--lr": RATE,
        "--weight-decay": DECAY,
        "--norm-weight-decay": 0.0,
        "--lr-scheduler": "cosineannealinglr",
        "--clip-grad-norm": 1.0,
        "--train-crop-size": SIZE,
        "--val-crop-size": SIZE,
        "--val-resize-size": SIZE,
        "--print-freq": 1000,
        "--output-dir": scratch / "reference",
    }
    args = [str(word) for pair in words.items() for word in pair]
    clock = time.perf_counter()
    with contextlib.suppress(Reached):
        reference.main(reference.get_args_parser().parse_args(args))
    return time.perf_counter() - clock - paused, scores


def find_macro_f1(model: Any, loader: Any) -> float:
    """Macro F1 of a network over a loader of pictures and labels."""
    import torch
    from sklearn.metrics import f1_score

    model.eval()
    truth, answers = [], []
    with torch.inference_mode():
        for pictures, labels in loader:
            truth += labels.tolist()
            answers += model(pictures).argmax(1).tolist()
    return float(f1_score(truth, answers, average="macro"))


if __name__ == "__main__":
    main()
