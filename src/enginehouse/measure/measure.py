"""Measure: latency of the engine, of its fp32 twin and of PyTorch eager, in one run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import UTC, datetime
from statistics import median

import numpy as np
from pydantic import Field

from enginehouse.artifact import Config, Workspace
from enginehouse.build.record import Engine
from enginehouse.engine import Device, Pictures, open_engine
from enginehouse.errors import DataError, RecipeError
from enginehouse.evaluate.fit import check_fit
from enginehouse.measure.eager import open_eager
from enginehouse.measure.record import Latency
from enginehouse.measure.timing import time_alternating
from enginehouse.prepare.record import Pack
from enginehouse.prepare.shards import open_pictures
from enginehouse.processor import count_cores
from enginehouse.train.record import TrainedModel

LIBRARIES = ("numpy", "safetensors", "torch")


class MeasureConfig(Config):
    """How latency is taken."""

    batch: int = Field(1, ge=1, le=4096, description="Pictures per call.")
    rounds: int = Field(15, ge=3, le=1000, description="Alternating rounds; the median counts.")
    threads: int = Field(0, ge=0, le=256, description="Threads per side; 0: all physical cores.")


def measure(
    engine: Engine,
    reference: Engine,
    model: TrainedModel,
    pack: Pack,
    device: Device,
    config: MeasureConfig,
    here: Workspace,
) -> Latency:
    """Time three ways to the same probabilities: same pictures, same threads, in turn.

    Each call takes uint8 pictures in host memory and gives probabilities there.

    Args:
        engine: the engine that is delivered.
        reference: its fp32 twin, of the same target otherwise.
        model: the weights, for PyTorch eager fp32 on the engine's kind of device.
        pack: its test pictures are the input.
        device: what the backend's `describe_run_device` says of the engine's target, here and now.
        config: batch, rounds, threads.
        here: workspace.

    Raises:
        EngineMismatch: engines, pack and device do not belong together.
        RecipeError: the batch lies outside the engines' profile.
        DataError: the test split is empty.
    """
    for item in (engine, reference):
        check_fit(item, pack, device)
        _check_batch(item, config.batch)
    pictures = _read_pictures(pack, config.batch, here)
    threads = config.threads or count_cores()
    here.report("measure", 0, config.rounds)
    with contextlib.ExitStack() as stack:
        sides: dict[str, Callable[[], object]] = {}
        for item in (engine, reference):
            session = open_engine(here.paths(item), item.target, item.sidecar, threads)
            stack.callback(session.close)
            name = f"{item.target.backend} {item.target.precision}"
            # The loop's variable must be bound now, not when the side is called.
            sides[name] = lambda run=session.run: run(pictures)  # type: ignore[misc]
        place = "cpu" if engine.target.device == "cpu" else "cuda"
        weights = here.path(model, "weights.safetensors")
        eager = stack.enter_context(open_eager(model, weights, place, threads))
        sides["pytorch eager fp32"] = lambda: eager(pictures)
        times = time_alternating(sides, config.rounds)
    here.report("measured", config.rounds, config.rounds)
    rows = [
        {"name": name, "milliseconds": ms, "pictures_per_second": config.batch * 1e3 / ms}
        for name, ms in ((name, median(values)) for name, values in times.items())
    ]
    return Latency(
        notes={
            "rows": rows,
            "batch": config.batch,
            "threads": threads,
            "rounds": config.rounds,
            "device": device.describe(),
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
        }
    )


def _check_batch(engine: Engine, batch: int) -> None:
    profile = engine.sidecar.batch
    if not profile.min <= batch <= profile.max:
        raise RecipeError(
            f"measure.batch is {batch}; target {engine.target.name!r} takes {profile.min} to "
            f"{profile.max} pictures.",
            "Choose a batch within the target's profile.",
        )


def _read_pictures(pack: Pack, batch: int, here: Workspace) -> Pictures:
    """The first `batch` pictures of the test split, from the start again when it has fewer."""
    if not pack.counts["test"]:
        raise DataError("The test split holds no pictures.", "Add data, or enlarge that split.")
    rows = np.arange(batch) % pack.counts["test"]
    return open_pictures(pack, "test", here)[rows]
