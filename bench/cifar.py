"""The recipe `cifar10` on a sample: the learning curve of our trainer against a plain loop.

Both train the same network from the same kind of random weights on the same pictures, with the
optimizer, schedule, precision and variations of the recipe; they draw other random numbers. The
plain loop below is what one would write by hand from the recipe, picture by picture and without
any of the trainer's parts. They agree if the accuracy on validation after the last epoch differs
by no more than the seeds explain: within the 95 % interval of Student's t for the difference of
two means. The sample (CIFAR-10, Krizhevsky 2009) is not part of the repository: name its folder,
which holds `train` and `test` with class folders each.
"""

from __future__ import annotations

import argparse
import copy
import math
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from _common import figure, make_parser, open_report, print_table
from _tiny import isolate

DEFAULT = Path(__file__).parents[2] / "shared" / "data" / "cifar10_jpg"
VAL_SHARE = 0.2  # more than the recipe's, so that the curve is not all noise
FEW = 12  # pictures per class and split in a quick look


def main() -> None:
    """Measure and print."""
    parser = make_parser(__doc__)
    parser.add_argument("--data", type=Path, default=DEFAULT, help="folder of train/ and test/")
    parser.add_argument("--seeds", type=int, default=2, help="runs of each side (default: 2)")
    parser.add_argument("--epochs", type=int, default=4, help="default: 4")
    args = parser.parse_args()
    if not (args.data / "train").is_dir():
        sys.exit(f"skipped: there is no folder {args.data / 'train'}; name one with --data")
    if args.seeds < 2:
        sys.exit("--seeds must be at least 2: one run shows no spread")
    with (
        tempfile.TemporaryDirectory() as scratch,
        open_report("CIFAR-10 sample, learning curve", args, ("torch", "torchvision")),
    ):
        isolate(Path(scratch))
        measure(args, Path(scratch))


def measure(args: argparse.Namespace, scratch: Path) -> None:
    """Train both sides with each seed, and print the curves."""
    from enginehouse.train.train import train

    data = take_few(args.data, scratch / "few") if args.quick else args.data.resolve()
    pack, config, store = prepare_pack(data, args)
    curves: dict[str, list[list[float]]] = {"ours": [], "plain loop": []}
    for seed in range(args.seeds):
        (scratch / f"work{seed}").mkdir()
        here = open_workspace(store, scratch / f"work{seed}")
        mine = config.model_copy(update={"seed": seed})
        model = train(pack, mine, here)
        curves["ours"].append([float(row["accuracy"]) for row in model.notes["history"]])
        print(f"ours       seed {seed}: {show(curves['ours'][-1])}", flush=True)
        curves["plain loop"].append(run_plain_loop(pack, mine, here))
        print(f"plain loop seed {seed}: {show(curves['plain loop'][-1])}", flush=True)
    means = {side: np.array(runs).mean(axis=0) for side, runs in curves.items()}
    rows = [
        [f"epoch {e + 1}", *(float(means[side][e]) for side in means)]
        for e in range(len(means["ours"]))
    ]
    print_table(("mean accuracy on validation", *means), rows)
    figure("cifar_difference_over_spread", compare(*curves.values()), 1.0, "lower")


def compare(ours: list[list[float]], other: list[list[float]]) -> float:
    """Difference of the mean last accuracies, over what the seeds explain (Student's t, 95 %)."""
    from scipy.stats import t

    one, two = (np.array(runs)[:, -1] for runs in (ours, other))
    error = math.sqrt(one.var(ddof=1) / len(one) + two.var(ddof=1) / len(two))
    reach = float(t.ppf(0.975, len(one) + len(two) - 2)) * error
    difference = float(abs(one.mean() - two.mean()))
    print(f"difference {difference:.4f}; the seeds explain up to {reach:.4f}")
    return difference / reach if reach else math.inf if difference else 0.0


def prepare_pack(data: Path, args: argparse.Namespace) -> tuple[Any, Any, Any]:
    """The recipe's pack of these pictures, its settings of training, and the store."""
    from enginehouse.project import find_project
    from enginehouse.recipe import Recipe
    from flows.inspection import Inspection
    from flows.recipes import load_recipe
    from flows.road import let_through, plainly
    from flows.run import make_context
    from tasks._stage import PROGRESS
    from tasks.data import resolve_data
    from tasks.prepare import prepare_task

    project = find_project()
    words = load_recipe(project, "cifar10").model_dump(mode="json")
    words["prepare"]["val_share"] = VAL_SHARE
    words["train"] |= {"epochs": args.epochs, "patience": args.epochs}
    if args.quick:
        words["train"] |= {"model": {"family": "tiny", "name": "tiny_cnn"}, "batch_size": 16}
    recipe = Recipe.model_validate(words)
    store = project.open_store()
    resolved = resolve_data(project, str(data), PROGRESS.info)
    step = plainly(make_context(store, recipe, resolved))
    inspection = Inspection(project, recipe.name, resolved, store)
    manifest, validated = let_through(recipe, resolved.version, step, inspection)
    pack = step(
        *(prepare_task, "prepare", recipe.prepare),
        data=resolved.version,
        manifest=manifest,
        validated=validated,
    )
    print(f"{pack.counts}; {recipe.train.model.name}, {args.epochs} epochs", flush=True)
    return pack, recipe.train, store


def open_workspace(store: Any, scratch: Path) -> Any:
    """A workspace that prints a line per epoch."""
    from enginehouse.artifact import Workspace

    def report(message: str, done: int = 0, total: int = 0, **metrics: float) -> None:
        if message.startswith("epoch"):
            print(f"  {message}: accuracy {metrics['accuracy']:.3f}", file=sys.stderr, flush=True)

    return Workspace(store, scratch, report)


def take_few(source: Path, target: Path) -> Path:
    """The first pictures of each class of each split."""
    for folder in sorted(path for path in source.glob("*/*") if path.is_dir()):
        place = target / folder.relative_to(source)
        place.mkdir(parents=True)
        for path in sorted(folder.iterdir())[:FEW]:
            shutil.copyfile(path, place / path.name)
    return target


def show(curve: list[float]) -> str:
    """A learning curve in one line."""
    return " ".join(f"{value:.3f}" for value in curve)


# The plain loop


def run_plain_loop(pack: Any, config: Any, here: Any) -> list[float]:
    """Accuracy on validation after each epoch."""
    import torch
    from torch.nn import functional

    from enginehouse.train.machine import choose_device, choose_dtype
    from enginehouse.train.network import build_network

    torch.manual_seed(1000 + config.seed)
    rng = np.random.default_rng(1000 + config.seed)
    device = choose_device()
    dtype = choose_dtype(config.precision, device)
    pictures, labels = read_pictures(pack, "train", here)
    net = build_network(config.model, len(pack.classes)).to(device)
    net = net.to(memory_format=torch.channels_last)
    averaged = copy.deepcopy(net)
    weights = [p for p in net.parameters() if p.ndim > 1]
    others = [p for p in net.parameters() if p.ndim <= 1]
    groups = [{"params": weights, "weight_decay": config.weight_decay}, {"params": others}]
    optimizer = torch.optim.SGD(groups, config.learning_rate, config.momentum, nesterov=True)
    num_steps = math.ceil(len(labels) / config.batch_size)
    step = 0
    curve = []
    for epoch in range(config.epochs):
        net.train()
        for rows in np.array_split(rng.permutation(len(labels)), num_steps):
            batch = vary(pictures[rows], pack, config.augment, rng)
            inputs = (
                torch.from_numpy(batch).to(device).contiguous(memory_format=torch.channels_last)
            )
            for group in optimizer.param_groups:
                group["lr"] = find_rate(config, (step + 0.5) / num_steps)
            with torch.autocast(device.type, dtype, enabled=dtype != torch.float32):
                logits = net(inputs)
            loss = functional.cross_entropy(
                logits.float(),
                torch.from_numpy(labels[rows]).to(device),
                label_smoothing=config.loss.label_smoothing,
            )
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), config.clip_norm)
            optimizer.step()
            step += 1
            follow(averaged, net, min(config.ema_decay, (1 + step) / (10 + step)))
        curve.append(measure_accuracy(averaged, pack, here, dtype, device))
        print(f"  plain epoch {epoch + 1}: accuracy {curve[-1]:.3f}", file=sys.stderr, flush=True)
    return curve


def read_pictures(pack: Any, split: str, here: Any) -> tuple[Any, Any]:
    """Pictures, float32 [n, 3, size, size] on the 0..255 scale, and class indices."""
    import pandas as pd

    from enginehouse.prepare.shards import open_pictures

    index = pd.read_parquet(here.path(pack, "index.parquet"))
    index = index[index["split"] == split].sort_values("row")
    pictures = open_pictures(pack, split, here)[:].astype(np.float32)
    return pictures, index["class_index"].to_numpy(np.int64)


def vary(pictures: Any, pack: Any, augment: Any, rng: np.random.Generator) -> Any:
    """Flip, shift with the edge repeated, cut a square out, normalise; picture by picture."""
    mean = np.array(pack.mean, np.float32).reshape(3, 1, 1)
    std = np.array(pack.std, np.float32).reshape(3, 1, 1)
    size = pictures.shape[2]
    reach = round(augment.shift * size)
    side = round(augment.cutout_side * size)
    varied = np.empty_like(pictures)
    for number, picture in enumerate(pictures):
        padded = np.pad(picture, ((0, 0), (reach, reach), (reach, reach)), "edge")
        top, left = rng.integers(0, 2 * reach + 1, 2)
        moved = padded[:, top : top + size, left : left + size]
        if augment.flip_horizontal and rng.random() < 0.5:
            moved = moved[:, :, ::-1]
        done = (moved / 255 - mean) / std
        for _ in range(augment.cutout):
            y, x = rng.integers(0, size, 2) - side // 2
            done[:, max(y, 0) : max(y + side, 0), max(x, 0) : max(x + side, 0)] = 0  # the mean
        varied[number] = done
    return varied


def find_rate(config: Any, epochs_done: float) -> float:
    """A linear warmup, then a cosine down to zero."""
    if epochs_done < config.warmup_epochs:
        return float(config.learning_rate * epochs_done / config.warmup_epochs)
    rest = (epochs_done - config.warmup_epochs) / (config.epochs - config.warmup_epochs)
    return float(config.learning_rate * 0.5 * (1 + math.cos(math.pi * rest)))


def follow(averaged: Any, net: Any, decay: float) -> None:
    """Move an average of weights and statistics towards those of the network."""
    for slow, fast in zip(averaged.state_dict().values(), net.state_dict().values(), strict=True):
        if slow.is_floating_point():
            slow.mul_(decay).add_(fast.detach(), alpha=1 - decay)
        else:
            slow.copy_(fast)


def measure_accuracy(net: Any, pack: Any, here: Any, dtype: Any, device: Any) -> float:
    """On the validation split."""
    import torch

    pictures, labels = read_pictures(pack, "val", here)
    mean = np.array(pack.mean, np.float32).reshape(3, 1, 1)
    std = np.array(pack.std, np.float32).reshape(3, 1, 1)
    net.eval()
    hits = 0
    with torch.inference_mode():
        for start in range(0, len(labels), 128):
            batch = torch.from_numpy((pictures[start : start + 128] / 255 - mean) / std).to(device)
            with torch.autocast(device.type, dtype, enabled=dtype != torch.float32):
                said = net(batch.contiguous(memory_format=torch.channels_last)).argmax(1)
            hits += int((said.cpu().numpy() == labels[start : start + 128]).sum())
    return hits / len(labels)


if __name__ == "__main__":
    main()
