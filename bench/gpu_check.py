"""What training does on a GPU, in under five minutes: speed, memory, precision, accidents.

ResNet-50 at 224 px learns from generated pictures, by the stage `train` itself. Each section runs
in a process of its own, for a bounded time; one that fails is reported and hides no other. The
exit code is 1 if one failed, and 2 if nothing could be measured.

`--tiny` does the same with tiny sizes, on a CPU if there is no GPU: it shows that the script works.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import multiprocessing
import os
import signal
import statistics
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from _common import figure, make_parser, open_report, print_table

from enginehouse.artifact import Report, Workspace, silent
from enginehouse.preparation import Preparation
from enginehouse.prepare.record import Pack
from enginehouse.store import Store
from enginehouse.train.config import TrainConfig
from enginehouse.train.loop import STEPS
from enginehouse.train.train import train

# Slow to import: once, before the sections are forked. Nothing may start CUDA before that, as a
# forked process could not use it then; so torch asks NVML whether there is a GPU.
PRELOADED = ("scipy.optimize", "torch._dynamo")
os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
BUDGET = 285.0  # seconds for all sections together
KILLED_AFTER = 3  # steps
FAST = {"deterministic": False, "cudnn_benchmark": True}
Values = dict[str, float]


@dataclass(frozen=True)
class Sizes:
    """How much work there is; `workers` is the larger number of them that is tried."""

    model: dict[str, str]
    pixels: int
    num_train: int
    batch: int
    epochs: int
    workers: int


FULL = Sizes({"family": "torchvision", "name": "resnet50"}, 224, 2048, 256, 4, 8)
TINY = Sizes({"family": "tiny", "name": "tiny_cnn"}, 32, 64, 16, 2, 1)


@dataclass(frozen=True)
class Bench:
    """What the sections share.

    Attributes:
        folder: holds the store; each training gets a folder of its own there.
        tiny: sizes for a look at the script itself.
    """

    folder: Path
    pack: Pack
    sizes: Sizes
    tiny: bool

    def fit(
        self, report: Report = silent, resumable: Path | None = None, **fields: Any
    ) -> dict[str, Any]:
        """Train; returns the notes, with `images_per_s` and `data_wait` after the first epoch."""
        speed = {**FAST, **fields.pop("speed", {})}
        usual = {
            "model": self.sizes.model,
            "epochs": self.sizes.epochs,
            "patience": self.sizes.epochs,
            "batch_size": self.sizes.batch,
            "max_imbalance": 1000,
            "log_every": 1,
        }
        config = TrainConfig.model_validate({**usual, **fields, "speed": speed})
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        scratch = Path(tempfile.mkdtemp(dir=self.folder))
        store = Store(self.folder / "store")
        here = Workspace(store, scratch, report, resumable=resumable)
        notes: dict[str, Any] = dict(train(self.pack, config, here).notes)
        later = notes["history"][1:] or notes["history"]
        for name in ("images_per_s", "data_wait"):
            notes[name] = statistics.median(row[name] for row in later)
        return notes


def look_at_device() -> dict[str, Any]:
    """The names of the GPUs."""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return {"gpus": [torch.cuda.get_device_name(number) for number in range(count)]}


def measure_speed(bench: Bench) -> Values:
    """Pictures per second and data wait, as it comes and in the fastest form; bf16 and fp32."""
    fast = bench.fit()
    many = bench.fit(workers=bench.sizes.workers)
    plain = bench.fit(speed={"deterministic": True, "cudnn_benchmark": False})
    fp32 = bench.fit(precision="fp32")
    return {
        "images_per_s": fast["images_per_s"],
        "images_per_s_many_workers": many["images_per_s"],
        "images_per_s_deterministic": plain["images_per_s"],
        "images_per_s_fp32_tf32": fp32["images_per_s"],
        "data_wait": fast["data_wait"],
        "data_wait_many_workers": many["data_wait"],
        "bf16_vs_fp32": fast["images_per_s"] / fp32["images_per_s"],
    }


def measure_memory(bench: Bench) -> Values:
    """Peak memory with and without gradient checkpointing."""
    peaks = {}
    for saving in (False, True):
        notes = bench.fit(epochs=1, warmup_epochs=0, speed={"gradient_checkpointing": saving})
        peaks[saving] = max(row.get("memory_mib", 0.0) for row in notes["history"])
    if not torch.cuda.is_available():
        return {}
    saved = 1 - peaks[True] / peaks[False]
    return {"peak_mib": peaks[False], "peak_mib_checkpointing": peaks[True], "saved": saved}


def measure_compile(bench: Bench) -> Values:
    """Pictures per second with torch.compile over those without, after the first epoch."""
    if bench.tiny:
        return {}  # compiling takes longer than all else together, and shows nothing
    eager, compiled = bench.fit(), bench.fit(speed={"compile": True})
    return {
        "images_per_s_compiled": compiled["images_per_s"],
        "compile_vs_eager": compiled["images_per_s"] / eager["images_per_s"],
    }


def run_out_of_memory(bench: Bench) -> Values:
    """Train in 0.6 of the memory that it takes: the micro-batch shrinks, and the run goes on."""
    notes = bench.fit(epochs=1, warmup_epochs=0)
    if not torch.cuda.is_available():
        return {}
    peak = max(row["memory_mib"] for row in notes["history"]) * 2**20
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(0.6 * peak / total)
    notes = bench.fit(epochs=1, warmup_epochs=0)
    assert notes["micro_batch"] < bench.sizes.batch, "memory did not run out"
    return {"micro_batch": float(notes["micro_batch"]), "recovered": 1.0}


def kill_and_resume(bench: Bench) -> Values:
    """Kill -9 a training, run it again, and compare with one that nobody killed."""
    resumable = bench.folder / "resumable"
    settings = {"checkpoint_minutes": 0, "epochs": 2, "speed": {"cudnn_benchmark": False}}

    def die(message: str, done: int = 0, total: int = 0, **metrics: float) -> None:
        if message == STEPS and done == KILLED_AFTER:
            os.kill(os.getpid(), signal.SIGKILL)

    victim = multiprocessing.get_context("fork").Process(
        target=lambda: bench.fit(die, resumable, **settings)
    )
    victim.start()
    victim.join()
    assert victim.exitcode == -signal.SIGKILL, f"the victim ended with {victim.exitcode}"
    resumed, whole = bench.fit(resumable=resumable, **settings), bench.fit(**settings)
    pairs = zip(whole["history"], resumed["history"], strict=True)
    difference = max(abs(one["loss"] - other["loss"]) / one["loss"] for one, other in pairs)
    return {"resumed_after": float(resumed["resumed"][0]), "loss_difference": difference}


def use_all_devices(bench: Bench) -> Values:
    """Pictures per second of all GPUs over as many times those of one, at the same share each."""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 2 * bench.tiny
    if count < 2:
        return {}
    alone = bench.fit()
    together = bench.fit(devices=count, batch_size=count * bench.sizes.batch)
    rate = together["images_per_s"]
    return {
        "images_per_s_all": rate,
        "devices": float(count),
        "efficiency": rate / (count * alone["images_per_s"]),
    }


# Name to function and most seconds.
SECTIONS: dict[str, tuple[Callable[[Bench], Values], float]] = {
    "speed": (measure_speed, 90),
    "memory": (measure_memory, 45),
    "oom": (run_out_of_memory, 45),
    "resume": (kill_and_resume, 60),
    "ddp": (use_all_devices, 60),
    "compile": (measure_compile, 120),
}
# Name of a figure to the section and value it is, its target, and which side is better.
FIGURES: dict[str, tuple[str, str, float, Any]] = {
    "gpu_data_wait": ("speed", "data_wait_many_workers", 0.05, "lower"),
    "gpu_bf16_vs_fp32": ("speed", "bf16_vs_fp32", 1.2, "higher"),
    "gpu_checkpointing_memory_saved": ("memory", "saved", 0.4, "higher"),
    "gpu_oom_recovered": ("oom", "recovered", 1, "higher"),
    "gpu_resume_loss_difference": ("resume", "loss_difference", 0.02, "lower"),
    "gpu_ddp_efficiency": ("ddp", "efficiency", 0.8, "higher"),
    "gpu_compile_vs_eager": ("compile", "compile_vs_eager", 1, "higher"),
}


def main() -> int:
    """Run the sections, print, and keep the numbers as JSON beside `--out`."""
    parser = make_parser(__doc__)
    parser.add_argument("--tiny", dest="quick", action="store_true", help="the same as --quick")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        device = run_section(look_at_device, Path(scratch), 60)
        if not device.get("gpus") and not args.quick:
            reason = device.get("error", "--tiny tries the script out")
            print(f"No CUDA device can be used here, so nothing was measured: {reason}.")
            return 2
        with open_report("training on a GPU", args, ("torch", "torchvision")):
            print(f"GPUs       {device['gpus']}")
            results = measure(Path(scratch), args.quick)
            print_results(results, bool(device["gpus"]))
    if args.out is not None:
        kept = json.dumps({**device, "sections": results}, indent=1)
        args.out.with_suffix(".json").write_text(kept + "\n")
    return int(any("error" in values for values in results.values()))


def measure(scratch: Path, tiny: bool) -> dict[str, dict[str, Any]]:
    """The results of each section."""
    started = time.perf_counter()
    for module in PRELOADED:
        importlib.import_module(module)
    sizes = TINY if tiny else FULL
    bench = Bench(scratch, make_pack(scratch, sizes), sizes, tiny)
    results: dict[str, dict[str, Any]] = {}
    for name, (function, limit) in SECTIONS.items():
        clock = time.perf_counter()
        left = BUDGET - (clock - started)
        if left < 5:
            results[name] = {"error": "not run: no time was left"}
            continue
        results[name] = run_section(partial(function, bench), scratch, min(limit, left))
        results[name]["seconds"] = round(time.perf_counter() - clock, 2)
    return results


def run_section(
    function: Callable[[], dict[str, Any]], folder: Path, limit: float
) -> dict[str, Any]:
    """What a function returns in a process of its own, or `error`; all it started is gone then."""
    answer = folder / "answer.json"
    answer.unlink(missing_ok=True)
    sys.stdout.flush()
    process = multiprocessing.get_context("fork").Process(target=_work, args=(function, answer))
    process.start()
    process.join(limit)
    late = process.is_alive()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid or 0, signal.SIGKILL)
    process.join()
    if answer.exists():
        return dict(json.loads(answer.read_text()))
    ended = f"took longer than {limit:.0f} s" if late else f"ended with {process.exitcode}"
    return {"error": ended}


def _work(function: Callable[[], dict[str, Any]], path: Path) -> None:
    os.setsid()  # a group of its own, so that all of it can be ended
    try:
        answer = function()
    except Exception as error:
        traceback.print_exc()
        answer = {"error": f"{type(error).__name__}: {str(error).splitlines()[0]}"}
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(answer))
    draft.replace(path)


def print_results(results: dict[str, Any], on_gpu: bool) -> None:
    """A table of all numbers, what failed, and the figures."""
    rows = [
        [f"{section}.{name}", value]
        for section, values in results.items()
        for name, value in values.items()
        if name != "error"
    ]
    print_table(("what", "value"), rows)
    for section, values in results.items():
        if "error" in values:
            print(f"failed     {section}: {values['error']}")
    for name, (section, value, target, better) in FIGURES.items():
        found = results[section].get(value)
        if "error" in results[section]:
            print(f"figure {name} unmeasured: section {section} failed")
        elif not on_gpu:
            print(f"figure {name} unmeasured: no GPU")
        elif found is None:
            print(f"figure {name} unmeasured: {'one GPU' if section == 'ddp' else 'tiny sizes'}")
        else:
            figure(name, found, target, better)


def make_pack(scratch: Path, sizes: Sizes) -> Pack:
    """Noise with a bright band, whose height is the class."""
    rng = np.random.default_rng(0)
    here = Workspace(Store(scratch / "store"), scratch)
    counts = {"train": sizes.num_train, "val": sizes.num_train // 16, "test": 0}
    shape = (3, sizes.pixels, sizes.pixels)
    classes, high = tuple("abcd"), sizes.pixels // 4
    rows = []
    for split, count in counts.items():
        pictures = rng.integers(60, 160, (count, *shape), np.uint8)
        for row, picture in enumerate(pictures):
            label = row % len(classes)
            picture[:, high * label : high * (label + 1)] += 60
            place = {"split": split, "row": row, "path": f"{split}/{row}.png"}
            rows.append({**place, "class_index": label})
        np.save(scratch / f"{split}-00000.npy", pictures)
    pd.DataFrame(rows).to_parquet(scratch / "index.parquet")
    return Pack(
        files=here.seal(["index.parquet", *(f"{split}-00000.npy" for split in counts)]),
        classes=classes,
        preparation=Preparation(size=sizes.pixels),
        counts=counts,
        mean=(0.49, 0.49, 0.49),
        std=(0.15, 0.15, 0.15),
    )


if __name__ == "__main__":
    sys.exit(main())
