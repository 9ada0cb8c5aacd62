"""Measure: latency of all candidates' engines for one target and of PyTorch eager, in one run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from statistics import median

import numpy as np
from pydantic import JsonValue

from enginehouse.artifact import Workspace
from enginehouse.build.record import Engine
from enginehouse.engine import Device, Pictures, open_engine
from enginehouse.errors import DataError, RecipeError
from enginehouse.evaluate.fit import check_fit
from enginehouse.measure.eager import open_eager
from enginehouse.measure.record import EAGER, Latency, MeasureConfig
from enginehouse.measure.timing import time_alternating
from enginehouse.prepare.record import Pack
from enginehouse.prepare.shards import open_pictures
from enginehouse.processor import count_cores
from enginehouse.train.record import TrainedModel

LIBRARIES = ("numpy", "safetensors", "torch")


def measure(
    model: TrainedModel,
    pack: Pack,
    device: Device,
    config: MeasureConfig,
    here: Workspace,
    **engines: Engine,
) -> Latency:
    """Time all ways to the same probabilities: same pictures, same threads, in turn.

    Each call takes uint8 pictures in host memory and gives probabilities there.

    Args:
        model: the weights, for PyTorch eager fp32 on the engines' kind of device.
        pack: its validation pictures are the input.
        device: what the backend's `describe_run_device` says of the engines' target, here and now.
        config: batch, rounds, threads.
        here: workspace.
        **engines: those of all candidates for one target, by candidate.

    Raises:
        EngineMismatch: engines, pack and device do not belong together.
        RecipeError: the batch lies outside the engines' profile.
        DataError: the validation split is empty.
    """
    assert engines, "nothing to time"
    for engine in engines.values():
        check_fit(engine, pack, device)
        _check_batch(engine, config.batch)
    pictures = _read_pictures(pack, config.batch, here)
    threads = config.threads or count_cores()
    here.report("measure", 0, config.rounds)
    with _open_sides(engines, model, pictures, threads, here) as sides:
        times = time_alternating(sides, config.rounds)
    here.report("measured", config.rounds, config.rounds)
    return Latency(
        engines={name: engine.identity for name, engine in engines.items()},
        device=device.identity,
        config=config,
        notes={
            "rows": [_make_row(name, values, config.batch) for name, values in times.items()],
            "batch": config.batch,
            "threads": threads,
            "rounds": config.rounds,
            "device": device.describe(),
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
        },
    )


@contextlib.contextmanager
def _open_sides(
    engines: Mapping[str, Engine],
    model: TrainedModel,
    pictures: Pictures,
    threads: int,
    here: Workspace,
) -> Iterator[dict[str, Callable[[], object]]]:
    """Name to a call on the pictures: the engines in their order, then PyTorch eager."""
    with contextlib.ExitStack() as stack:
        sides: dict[str, Callable[[], object]] = {}
        for name, engine in engines.items():
            session = open_engine(here.paths(engine), engine.target, engine.sidecar, threads)
            stack.callback(session.close)
            sides[name] = partial(session.run, pictures)
        device = next(iter(engines.values())).target.device
        weights = here.path(model, "weights.safetensors")
        place = "cpu" if device == "cpu" else "cuda"
        eager = stack.enter_context(open_eager(model, weights, place, threads))
        yield {**sides, EAGER: partial(eager, pictures)}


def _make_row(name: str, times: Sequence[float], batch: int) -> dict[str, JsonValue]:
    """A side's name and times, in milliseconds per call."""
    middle = median(times)
    return {
        "name": name,
        "milliseconds": middle,
        "p90": float(np.quantile(times, 0.9)),
        "pictures_per_second": batch * 1e3 / middle,
    }


def _check_batch(engine: Engine, batch: int) -> None:
    profile = engine.sidecar.batch
    if not profile.min <= batch <= profile.max:
        raise RecipeError(
            f"measure.batch is {batch}; target {engine.target.name!r} takes {profile.min} to "
            f"{profile.max} pictures.",
            "Choose a batch within the target's profile.",
        )


def _read_pictures(pack: Pack, batch: int, here: Workspace) -> Pictures:
    """The first `batch` pictures of validation, from the start again when it has fewer."""
    if not pack.counts["val"]:
        raise DataError(
            "The validation split holds no pictures.", "Add data, or enlarge that split."
        )
    rows = np.arange(batch) % pack.counts["val"]
    return open_pictures(pack, "val", here)[rows]
