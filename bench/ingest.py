"""Pictures per second of ingest against a plain Pillow loop and cleanvision; changes; memory.

Four questions, each with its own table. How fast is the stage `ingest`, all of it, on one and on
two processes, against a loop in as many that reads, decodes to RGB and hashes file and pixels (and
does nothing else)? How fast is cleanvision on the same files? What does ingest cost after
one per cent of the files is new, next to the first time? By how much does its peak memory grow
with each further picture?

Pictures are real where the folder is there (ball screws, JPEG of about 1130 x 460 pixels), else
drawn; each is linked several times, so that starting the processes counts as it would in a large
set. Digests of files are taken beforehand, as in a run.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib.metadata
import io
import json
import multiprocessing
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from _common import figure, make_parser, open_report, print_table
from PIL import Image

from enginehouse.artifact import Source, Workspace
from enginehouse.ingest.ingest import IngestConfig, ingest
from enginehouse.ingest.record import DataVersion
from enginehouse.parallel import VARIABLE, count_workers
from enginehouse.store import Store

PER_CORE = 0.9  # of the plain loop's pictures per second
SHARE = 0.05  # of the first ingest's time, after one per cent is new
BYTES = 1024  # per further picture
LARGE = Path(__file__).parents[2] / "shared" / "data" / "bsdata" / "images"
SMALL = Path(__file__).parents[2] / "shared" / "data" / "xsdd" / "images"
SIZES = (1000, 10000)  # pictures, for memory


def main() -> None:
    """Measure and print."""
    parser = make_parser(__doc__)
    parser.add_argument("--memory", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.memory:
        print(json.dumps(measure_peak(args.memory)))
        return
    with (
        tempfile.TemporaryDirectory() as scratch,
        open_report("ingest", args, ("pillow", "opencv-python-headless", "imagehash")),
    ):
        measure(Path(scratch), args.quick)


def measure(scratch: Path, quick: bool) -> None:
    """All four questions."""
    count, rounds = (400, 1) if quick else (4000, 3)
    large = lay_out(scratch / "large", LARGE, count, side=800)
    small = lay_out(scratch / "small", SMALL, 2 * count, side=128)
    speeds = measure_speed(scratch, large, rounds)
    measure_speed(scratch, small, rounds)
    measure_cleanvision(lay_out(scratch / "few", LARGE, count // 4, 800), speeds["ingest, 2"])
    share = measure_change(scratch, large, rounds)
    grown = measure_memory(scratch)
    cores = [n for n in (1, 2) if n <= count_workers()]
    per_core = min(speeds[f"ingest, {n}"] / speeds[f"plain loop, {n}"] for n in cores)
    figure("ingest_per_core", per_core, PER_CORE)
    figure("ingest_one_percent_new", share, SHARE, "lower")
    figure("ingest_bytes_per_picture", grown, BYTES, "lower")


def measure_speed(scratch: Path, folder: Path, rounds: int) -> dict[str, float]:
    """Pictures per second of each side, by its name and number of processes; in turn."""
    listing = take_listing(folder)
    sides: dict[str, Callable[[], object]] = {
        "plain loop, 1": lambda: run_plain(folder, list(listing)),
        "plain loop, 2": lambda: run_plain_twice(folder, list(listing)),
        "ingest, 1": lambda: run_ingest(scratch, folder, listing, 1),
        "ingest, 2": lambda: run_ingest(scratch, folder, listing, 2),
    }
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, run in sides.items():
            clock = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - clock)
    speeds = {name: len(listing) / statistics.median(each) for name, each in times.items()}
    rows = [
        [name, speed, speed / speeds[f"plain loop, {name[-1]}"], min(times[name]), max(times[name])]
        for name, speed in speeds.items()
    ]
    print(f"{folder.name} pictures: {describe(folder, listing)}")
    print_table(("side, processes", "pictures/s", "of plain", "min s", "max s"), rows)
    return speeds


def measure_cleanvision(folder: Path, ours: float) -> None:
    """Pictures through cleanvision, on two processes: what people use for such checks.

    Args:
        ours: pictures per second of ingest on two processes.
    """
    os.environ["TQDM_DISABLE"] = "1"  # read at import
    try:
        from cleanvision import Imagelab
    except ImportError:
        print("cleanvision is not installed (extra `bench`), so it is not compared.\n")
        return
    count = len(take_listing(folder))
    clock = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()):
        Imagelab(data_path=str(folder)).find_issues(n_jobs=2, verbose=False)
    speed = count / (time.perf_counter() - clock)
    name = f"cleanvision {importlib.metadata.version('cleanvision')}, 2"
    rows = [["ingest, 2", ours, 1.0], [name, speed, speed / ours]]
    print_table(("side, processes", "pictures/s", "of ingest"), rows)


def measure_change(scratch: Path, folder: Path, rounds: int) -> float:
    """Time of ingest after one per cent is new, over that of the first; the median of rounds."""
    before = take_listing(folder)
    draw_pictures(folder / "new", max(1, len(before) // 100), side=800)
    after = take_listing(folder)
    rows = []
    for _ in range(rounds):
        store = Store(Path(tempfile.mkdtemp(dir=scratch)) / "store")
        first = run_ingest(scratch, folder, before, 2, store)
        again = run_ingest(scratch, folder, after, 2, store)
        change = f"{len(after) - len(before)} of {len(after)} new"
        rows.append([change, first, again, again / first])
    print_table(("change", "first s", "again s", "share"), rows)
    return statistics.median(float(row[-1]) for row in rows)


def measure_memory(scratch: Path) -> float:
    """Bytes by which the peak grows with each further picture, in processes of their own."""
    peaks = []
    rows = []
    for count in SIZES:
        folder = scratch / f"many{count}"
        draw_pictures(folder / "good", count // 2, side=16)
        draw_pictures(folder / "bad", count // 2, side=16, seed=count)
        command = [sys.executable, __file__, "--memory", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        peak = json.loads(done.stdout)
        peaks.append(peak["self"])
        rows.append([f"{count} pictures", peak["self"] / 2**20, peak["workers"] / 2**20])
    print_table(("peak memory", "MiB", "MiB of a worker"), rows)
    return float(peaks[1] - peaks[0]) / (SIZES[1] - SIZES[0])


def measure_peak(folder: Path) -> dict[str, int]:
    """Peak memory in bytes of this process after ingesting a folder, and of its largest child."""
    with tempfile.TemporaryDirectory() as scratch:
        run_ingest(Path(scratch), folder, take_listing(folder), 2)
    # Not ru_maxrss: that of a child begins with what its parent occupied at the fork.
    status = Path("/proc/self/status").read_text()
    own = int(status.partition("VmHWM:")[2].split()[0])
    workers = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return {"self": own * 1024, "workers": workers * 1024}


def run_plain_twice(folder: Path, paths: list[str]) -> None:
    """The plain loop in two processes at once, each over its half."""
    context = multiprocessing.get_context("spawn")
    halves = [paths[::2], paths[1::2]]
    processes = [context.Process(target=run_plain, args=(folder, half)) for half in halves]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0


def run_plain(folder: Path, paths: list[str]) -> None:
    """What one would write by hand to know the files' and the pixels' digests."""
    for path in paths:
        content = (folder / path).read_bytes()
        hashlib.md5(content).hexdigest()
        with Image.open(io.BytesIO(content)) as image:
            hashlib.sha256(image.convert("RGB").tobytes()).hexdigest()


def run_ingest(
    scratch: Path,
    folder: Path,
    listing: dict[str, str],
    workers: int,
    store: Store | None = None,
) -> float:
    """The whole stage; seconds. Without a store it has an empty one."""
    place = Path(tempfile.mkdtemp(dir=scratch))
    os.environ[VARIABLE] = str(workers)
    data = DataVersion(digest=hashlib.md5(json.dumps(listing).encode()).hexdigest())
    sources = {data.digest: Source(folder, listing)}
    here = Workspace(store or Store(place / "store"), place, sources=sources)
    here.memo("enginehouse.ingest.describe")  # the code digests are known by then in a run
    clock = time.perf_counter()
    ingest(data, IngestConfig(format="class_folders"), here)
    seconds = time.perf_counter() - clock
    del os.environ[VARIABLE]
    return seconds


def lay_out(folder: Path, source: Path, count: int, side: int) -> Path:
    """A folder of `count` pictures in two classes, real ones if `source` is there."""
    if not source.is_dir():
        draw_pictures(folder / "good", count // 2, side)
        draw_pictures(folder / "bad", count // 2, side, seed=count)
        return folder
    real = sorted(path for path in source.rglob("*") if path.suffix in (".jpg", ".png"))
    for number in range(count):
        path = real[number % len(real)]
        # By the picture, so that copies do not contradict each other.
        target = folder / ("good", "bad")[number % len(real) % 2] / f"{number}_{path.name}"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(path.resolve())
    return folder


def draw_pictures(folder: Path, count: int, side: int, seed: int = 0) -> None:
    """JPEGs of smooth noise, all different."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True)
    for number in range(count):
        coarse = rng.integers(0, 255, (side // 8, side // 8, 3), np.uint8)
        Image.fromarray(coarse).resize((side, side)).save(folder / f"{number:06}.jpg")


def take_listing(folder: Path) -> dict[str, str]:
    """Relative path to MD5."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {
        path.relative_to(folder).as_posix(): hashlib.md5(path.read_bytes()).hexdigest()
        for path in paths
    }


def describe(folder: Path, listing: dict[str, str]) -> str:
    """How many there are, and how large the first one is."""
    with Image.open(folder / next(iter(listing))) as image:
        width, height = image.size
    size = sum((folder / path).stat().st_size for path in listing) / len(listing) / 1000
    return f"{len(listing)}, the first {width} x {height} pixels, {size:.0f} kB on average"


if __name__ == "__main__":
    main()
