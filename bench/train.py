"""Pictures per second of the stage `train` against a bare hand-written loop, and its memory.

Both train ResNet-18 on synthetic pictures, epoch by epoch in turn and in one process: the bare
epoch runs whenever the stage reports one of its own. Each epoch is the training pass, the
validation pass and, for the stage, keeping the best weights. The bare loop is what one would
write by hand: the same model, optimizer, precision, memory format, clipping and variations
(flip, shift, brightness, drawn per batch instead of per picture), and nothing else. It is free
of the stage's deterministic mode. How long training waited for data is what the stage itself says.

Peak memory is that of a process that takes two steps of ResNet-50 at 224 px, less what it had
before the first, with and without gradient checkpointing.
"""

from __future__ import annotations

import argparse
import math
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from _common import figure, make_parser, open_report, print_table
from torchvision.models import resnet18, resnet50

from enginehouse.artifact import Workspace
from enginehouse.preparation import Preparation
from enginehouse.prepare.record import Pack
from enginehouse.prepare.shards import open_pictures
from enginehouse.store import Store
from enginehouse.train.config import TrainConfig
from enginehouse.train.loop import STEPS
from enginehouse.train.machine import choose_device, choose_dtype
from enginehouse.train.recompute import checkpoint_blocks
from enginehouse.train.train import train

TARGET = 0.98
MAX_WAIT = 0.05  # share of the time of a step
MIN_SAVED = 0.4  # share of the peak memory
SIZE = 64
NUM_CLASSES = 5
BATCH = 32


def main() -> None:
    """Measure and print."""
    parser = make_parser(__doc__)
    parser.add_argument("--memory-of", choices=("plain", "saving"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.memory_of:
        print(take_steps(args.memory_of == "saving", 8 if args.quick else 64))
        return
    num_train, num_epochs = (256, 6) if args.quick else (1024, 26)
    with (
        tempfile.TemporaryDirectory() as scratch,
        open_report("training speed", args, ("torch", "torchvision")),
    ):
        times, waits = measure(Path(scratch), num_train, num_epochs)
        medians = {side: statistics.median(values) for side, values in times.items()}
        rows = [
            [side, num_train / medians[side], min(values), medians[side], max(values)]
            for side, values in times.items()
        ]
        print_table(("side", "pictures/s", "min s", "median s", "max s"), rows)
        print(f"ResNet-18, {SIZE} px, {num_train} pictures, batch {BATCH}, {num_epochs - 1} epochs")
        peaks = {mode: measure_memory(mode, args.quick) for mode in ("plain", "saving")}
        print(f"ResNet-50, 224 px, peak above the weights: {peaks['plain']:.0f} MiB, with gradient")
        print(f"checkpointing {peaks['saving']:.0f} MiB")
        pairs = zip(times["bare"], times["train"], strict=True)
        ratio = statistics.median(bare / own for bare, own in pairs)  # neighbours in time
        figure("train_vs_bare", ratio, TARGET)
        figure("train_data_wait", statistics.median(waits), MAX_WAIT, "lower")
        figure("checkpointing_memory_saved", 1 - peaks["saving"] / peaks["plain"], MIN_SAVED)


def measure(
    scratch: Path, num_train: int, num_epochs: int
) -> tuple[dict[str, list[float]], list[float]]:
    """Seconds per epoch of both sides, in turn (the first of each is a warm-up); shares waited."""
    pack = make_pack(scratch, num_train)
    config = TrainConfig(
        epochs=num_epochs, patience=num_epochs, batch_size=BATCH, max_imbalance=1000
    )
    bare = BareLoop(scratch, pack, config, num_train)
    times: dict[str, list[float]] = {"train": [], "bare": []}
    waits: list[float] = []
    started = math.nan

    def report(message: str, done: int = 0, total: int = 0, **metrics: float) -> None:
        nonlocal started
        ended = time.perf_counter()
        if message == STEPS:
            return
        if done:
            waits.append(metrics["data_wait"])
            bare_time = bare.run_epoch(done - 1)
            if done > 1:
                times["train"].append(ended - started)
                times["bare"].append(bare_time)
        started = time.perf_counter()

    (scratch / "work").mkdir()
    train(pack, config, Workspace(Store(scratch / "store"), scratch / "work", report))
    return times, waits


class BareLoop:
    """What one would write by hand, with its pictures in memory."""

    def __init__(self, scratch: Path, pack: Pack, config: TrainConfig, num_train: int) -> None:
        here = Workspace(Store(scratch / "store"), scratch)
        self.pictures = {
            name: torch.from_numpy(open_pictures(pack, name, here)[:]) for name in ("train", "val")
        }
        self.device = choose_device()
        self.dtype = choose_dtype(config.precision, self.device)
        self.mean = torch.tensor(pack.mean, device=self.device).view(3, 1, 1)
        self.std = torch.tensor(pack.std, device=self.device).view(3, 1, 1)
        self.net = resnet18(num_classes=NUM_CLASSES)
        self.net = self.net.to(self.device).to(memory_format=torch.channels_last)
        self.optimizer = torch.optim.AdamW(
            self.net.parameters(), config.learning_rate, weight_decay=0.01, fused=True
        )
        steps = config.epochs * -(-num_train // BATCH)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, steps)
        self.clip_norm = config.clip_norm

    def run_epoch(self, epoch: int) -> float:
        """One epoch; returns its seconds."""
        deterministic = torch.are_deterministic_algorithms_enabled()
        torch.use_deterministic_algorithms(False)
        clock = time.perf_counter()
        self._train(torch.Generator().manual_seed(epoch))
        self._validate()
        seconds = time.perf_counter() - clock
        torch.use_deterministic_algorithms(deterministic)
        return seconds

    def _train(self, generator: torch.Generator) -> None:
        self.net.train()
        pictures = self.pictures["train"]
        loss_sum = torch.zeros((), device=self.device)
        for rows in torch.randperm(len(pictures), generator=generator).split(BATCH):
            batch = pictures[rows].to(self.device).float()
            flip_x, flip_y, shift, light = torch.rand(4, generator=generator).tolist()
            batch = batch.flip(3) if flip_x < 0.5 else batch
            batch = batch.flip(2) if flip_y < 0.5 else batch
            batch = batch.roll(round(shift * 4), 3) * (0.85 + 0.3 * light)
            labels = (rows % NUM_CLASSES).to(self.device)
            loss = torch.nn.functional.cross_entropy(self._run(batch), labels)
            self.optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.net.parameters(), self.clip_norm)
            self.optimizer.step()
            self.schedule.step()
            loss_sum += loss.detach()
        loss_sum.item()

    def _validate(self) -> None:
        self.net.eval()
        with torch.inference_mode():
            for batch in self.pictures["val"].split(2 * BATCH):
                self._run(batch.to(self.device).float()).argmax(1).cpu()

    def _run(self, batch: torch.Tensor) -> torch.Tensor:
        inputs = ((batch / 255 - self.mean) / self.std).contiguous(
            memory_format=torch.channels_last
        )
        with torch.autocast(self.device.type, self.dtype, enabled=self.dtype != torch.float32):
            logits = self.net(inputs)
        return logits.float()


def measure_memory(mode: str, quick: bool) -> float:
    """MiB that a process of its own needs for its steps."""
    command = [sys.executable, __file__, "--memory-of", mode, *(["--quick"] if quick else [])]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout)


def take_steps(saving: bool, batch: int) -> float:
    """Peak memory of two steps of ResNet-50 as training takes them, in MiB, less that before."""
    net = resnet50(num_classes=NUM_CLASSES).to(memory_format=torch.channels_last).train()
    if saving:
        checkpoint_blocks(net)
    optimizer = torch.optim.AdamW(net.parameters(), fused=True)
    pictures = torch.randn(batch, 3, 224, 224).contiguous(memory_format=torch.channels_last)
    dtype = choose_dtype("auto", torch.device("cpu"))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(2):
        with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
            loss = net(pictures).float().square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def make_pack(scratch: Path, num_train: int) -> Pack:
    """Noise with one bright band per class."""
    rng = np.random.default_rng(0)
    here = Workspace(Store(scratch / "store"), scratch)
    counts = {"train": num_train, "val": num_train // 4, "test": 0}
    rows = []
    for split, count in counts.items():
        labels = np.arange(count) % NUM_CLASSES
        pictures = rng.integers(60, 160, (count, 3, SIZE, SIZE))
        for picture, label in zip(pictures, labels, strict=True):
            picture[:, 10 * label + 4 : 10 * label + 8] += 60
        np.save(scratch / f"{split}-00000.npy", pictures.astype(np.uint8))
        rows += [
            {"split": split, "row": row, "path": f"{split}/{row}.png", "class_index": label}
            for row, label in enumerate(labels.tolist())
        ]
    pd.DataFrame(rows).to_parquet(scratch / "index.parquet")
    return Pack(
        files=here.seal(["index.parquet", *(f"{split}-00000.npy" for split in counts)]),
        classes=tuple("abcde"),
        preparation=Preparation(size=SIZE),
        counts=counts,
        mean=(0.45, 0.45, 0.45),
        std=(0.12, 0.12, 0.12),
    )


if __name__ == "__main__":
    main()
