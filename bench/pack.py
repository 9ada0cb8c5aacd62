"""What a pack costs and saves: waiting for data in training, against a folder of JPEGs.

Both sides train ResNet-18 by the same steps, an epoch of each in turn; what differs is where the
batches come from: the pack as the stage `train` reads it, or torchvision's ImageFolder, which
decodes and resizes every picture in every epoch, in the training process and in two others.
Waiting is the time in which training has no batch yet; on a GPU each step is waited for, so that
there it is what waiting can be at most. Packing is the whole stage `prepare`.

The pictures are those of BSData (CC BY-SA 4.0, Schlagenhauf, Landwehr and Fleischer 2021) where
their folder is given or found, else drawn; all of them 1130 x 460 px.
"""

from __future__ import annotations

import itertools
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from _common import figure, make_parser, open_report, print_table
from PIL import Image
from torchvision import datasets, transforms
from torchvision.models import resnet18

from enginehouse.artifact import Source, Workspace
from enginehouse.ingest.ingest import IngestConfig, ingest
from enginehouse.ingest.record import DataVersion
from enginehouse.prepare.config import PrepareConfig
from enginehouse.prepare.prepare import prepare
from enginehouse.prepare.record import Pack
from enginehouse.store import Store, hash_file
from enginehouse.train.augment import AugmentConfig
from enginehouse.train.batches import Feed
from enginehouse.train.machine import choose_device, choose_dtype, describe_device
from enginehouse.train.splits import Split, read_split
from enginehouse.train.world import World
from enginehouse.validate.record import Validated

MOST_WAITING = 0.05  # of the time of a training step
MOST_EPOCHS = 2.0
MOST_DISK = 1.1  # times the raw pixels
DEFAULT = Path(__file__).parents[2] / "shared" / "data" / "bsdata" / "images"
SIDES = (1130, 460)  # pixels, width and height
QUALITY = 90
SIZE = 128
BATCH = 32
NUM_WORKERS = 2
DATA = DataVersion(digest="pictures")

Batches = Callable[[], Iterable[tuple[torch.Tensor, torch.Tensor]]]


class Epoch(NamedTuple):
    """Seconds of a pass over training, and how many of them were spent waiting for a batch."""

    seconds: float
    waiting: float


def main() -> None:
    """Measure and print."""
    parser = make_parser(__doc__)
    parser.add_argument("--data", type=Path, default=DEFAULT, help="folder of pictures")
    args = parser.parse_args()
    num, num_epochs = (64, 1) if args.quick else (1024, 5)
    with (
        tempfile.TemporaryDirectory() as scratch,
        open_report("packing", args, ("torch", "torchvision", "pillow")),
    ):
        measure(Path(scratch), args.data, num, num_epochs)


def measure(scratch: Path, data: Path, num: int, num_epochs: int) -> None:
    """Pack, train from both, and print what each took."""
    pictures = scratch / "pictures"
    whence = "BSData" if write_pictures(pictures, data, num) else "drawn"
    pack, packing = time_packing(scratch, pictures)
    trainer = Trainer()
    print(f"{num} JPEGs of {SIDES[0]} x {SIDES[1]} px ({whence}), packed at {SIZE} px")
    print(f"ResNet-18, batch {BATCH}, {describe_device(trainer.device)}, {num_epochs} epochs\n")
    split = read_split(pack, "train", open_workspace(scratch, pictures))
    sides = {"pack": make_feed(pack, split, trainer.device)}
    names = list_training(scratch, pictures, pack)
    for workers in (0, NUM_WORKERS):
        sides[f"ImageFolder, {workers} workers"] = make_folder(pictures, names, workers, pack)
    epochs: dict[str, list[Epoch]] = {side: [] for side in sides}
    for number in range(num_epochs + 1):
        for side, batches in sides.items():
            epoch = trainer.run_epoch(batches())
            epochs[side] += [epoch] if number else []  # the first warms up
    report(epochs, len(split), packing, pack)


def report(epochs: dict[str, list[Epoch]], num_train: int, packing: float, pack: Pack) -> None:
    """The table and the figures."""
    seconds = {side: statistics.median(e.seconds for e in mine) for side, mine in epochs.items()}
    waiting = {
        side: statistics.median(e.waiting / e.seconds for e in mine)
        for side, mine in epochs.items()
    }
    print_table(
        ("side", "pictures/s", "s per epoch", "waiting %"),
        [[side, num_train / seconds[side], seconds[side], 100 * waiting[side]] for side in epochs],
    )
    best = min(value for side, value in seconds.items() if side != "pack")
    saved = best - seconds["pack"]
    raw = sum(pack.counts.values()) * 3 * pack.size**2
    stored = sum(blob.size for blob in pack.files.values())
    print(f"packing took {packing:.1f} s; an epoch saves {saved:.1f} s on the faster ImageFolder")
    figure("pack_waiting_share", waiting["pack"], MOST_WAITING, better="lower")
    figure("pack_paid_after_epochs", packing / max(saved, 1e-9), MOST_EPOCHS, better="lower")
    figure("pack_disk_vs_raw", stored / raw, MOST_DISK, better="lower")


def write_pictures(folder: Path, data: Path, num: int) -> bool:
    """JPEGs in two class folders; whether they are made from the pictures in `data`."""
    sources = sorted(data.glob("*.jpg")) if data.is_dir() else []
    rng = np.random.default_rng(0)
    for number in range(num):
        if sources:
            with Image.open(sources[number % len(sources)]) as opened:
                picture = opened.convert("RGB").resize(SIDES)
        else:
            coarse = rng.integers(40, 216, (23, 57, 3)).astype(np.uint8)
            picture = Image.fromarray(coarse).resize(SIDES, Image.Resampling.BICUBIC)
        grain = rng.integers(-6, 7, (SIDES[1], SIDES[0], 1))  # also keeps repeats apart
        array = (np.asarray(picture, np.int16) + grain).clip(0, 255).astype(np.uint8)
        path = folder / "ab"[number % 2] / f"{number:05}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(array).save(path, quality=QUALITY)
    return bool(sources)


def open_workspace(scratch: Path, pictures: Path) -> Workspace:
    """A workspace with a scratch folder of its own."""
    own = Path(tempfile.mkdtemp(dir=scratch))
    listing = {
        path.relative_to(pictures).as_posix(): hash_file(path, "md5")
        for path in sorted(pictures.rglob("*.jpg"))
    }
    return Workspace(
        Store(scratch / "store"), own, sources={DATA.digest: Source(pictures, listing)}
    )


def time_packing(scratch: Path, pictures: Path) -> tuple[Pack, float]:
    """The pack, and the seconds of the stage."""
    config = IngestConfig(format="class_folders")
    manifest = ingest(DATA, config, open_workspace(scratch, pictures))
    validated = Validated(manifest=manifest.identity, num_expectations=0, failures=())
    here = open_workspace(scratch, pictures)
    clock = time.perf_counter()
    pack = prepare(DATA, manifest, validated, PrepareConfig(size=SIZE), here)
    return pack, time.perf_counter() - clock


def list_training(scratch: Path, pictures: Path, pack: Pack) -> set[str]:
    """The paths that the pack trains on."""
    import pandas as pd

    index = pd.read_parquet(open_workspace(scratch, pictures).path(pack, "index.parquet"))
    return set(index["path"][index["split"] == "train"])


def make_feed(pack: Pack, split: Split, device: torch.device) -> Batches:
    """Batches as the stage `train` takes them, read by the process that trains."""
    feed = Feed(pack.mean, pack.std, 0, World(0, 1, device))
    epochs = itertools.count(1)

    def read() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for batch in feed.shuffled(split, next(epochs), 0, BATCH, AugmentConfig()):
            yield batch.inputs, batch.targets

    return read


def make_folder(folder: Path, names: set[str], num_workers: int, pack: Pack) -> Batches:
    """Batches of the same pictures as one gets them from torchvision, mirrored at random."""
    steps = [
        transforms.Resize((SIZE, SIZE)),
        transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
        transforms.Normalize(pack.mean, pack.std),
    ]
    chosen = datasets.ImageFolder(
        str(folder),
        transforms.Compose(steps),
        is_valid_file=lambda path: Path(path).relative_to(folder).as_posix() in names,
    )
    loader = torch.utils.data.DataLoader(
        chosen,
        BATCH,
        shuffle=True,
        num_workers=num_workers,
        persistent_workers=num_workers > 0,
        pin_memory=torch.cuda.is_available(),
    )
    return lambda: loader


class Trainer:
    """What one would write by hand."""

    def __init__(self) -> None:
        self.device = choose_device()
        self.dtype = choose_dtype("auto", self.device)
        self.net = resnet18(num_classes=2).to(self.device).to(memory_format=torch.channels_last)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-3, fused=True)

    def run_epoch(self, batches: Iterable[tuple[torch.Tensor, torch.Tensor]]) -> Epoch:
        """One pass of training."""
        self.net.train()
        waiting, started = 0.0, time.perf_counter()
        source = iter(batches)
        while True:
            clock = time.perf_counter()
            batch = next(source, None)
            if batch is None:
                break
            inputs, truth = (tensor.to(self.device) for tensor in batch)
            self._wait()
            waiting += time.perf_counter() - clock
            self._step(inputs, truth)
        return Epoch(time.perf_counter() - started, waiting)

    def _step(self, inputs: torch.Tensor, truth: torch.Tensor) -> None:
        """The truth is class indices [n] or one row of targets each [n, classes]."""
        inputs = inputs.contiguous(memory_format=torch.channels_last)
        with torch.autocast(self.device.type, self.dtype, enabled=self.dtype != torch.float32):
            loss = torch.nn.functional.cross_entropy(self.net(inputs).float(), truth)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self._wait()

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()


if __name__ == "__main__":
    main()
