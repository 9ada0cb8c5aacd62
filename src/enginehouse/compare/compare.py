"""Compare: what an engine says of real pictures, held against the ONNX file it was built from."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from enginehouse.artifact import Workspace
from enginehouse.build.record import Engine
from enginehouse.compare.locate import Search
from enginehouse.compare.record import CompareConfig, Parity, Step
from enginehouse.compare.reference import run_literally
from enginehouse.compare.step import (
    compare_answers,
    count_flips,
    describe_step,
    measure_differences,
    pick_pictures,
)
from enginehouse.engine import Device, Pictures, Probabilities, open_engine, run_in_batches
from enginehouse.errors import EngineError, EngineMismatch
from enginehouse.evaluate.fit import check_fit
from enginehouse.export.record import ONNX, OnnxModel
from enginehouse.prepare.record import Pack

if TYPE_CHECKING:
    from onnx import ModelProto

LIBRARIES = ("numpy", "onnx", "onnxruntime")
STEP = "ONNX -> engine"
REMEDY = (
    "Choose another backend or a higher precision for this target; if the figures are fine for "
    "you, raise compare.max_mean_difference or compare.max_flips."
)


def compare(
    engine: Engine,
    onnx: OnnxModel,
    pack: Pack,
    device: Device,
    config: CompareConfig,
    here: Workspace,
) -> Parity:
    """Run validation pictures through both: the last step of the parity chain.

    The ONNX file is computed as it is written, by ONNX Runtime without its optimizations.

    Args:
        engine: what is judged.
        onnx: what it was built from.
        pack: of the engine's classes and preparation.
        device: what the backend's `describe_run_device` says of the engine's target, here and now.
        config: how many pictures, and how far the engine may be off.
        here: workspace.

    Raises:
        EngineMismatch: the engine was built from another ONNX file, or does not belong to pack
            and device.
        EngineError: it is off by more than the config allows; names the first node that diverges.
        DataError: the validation split is empty.
    """
    import onnx as onnx_library

    check_fit(engine, pack, device)
    _check_origin(engine, onnx)
    pictures = pick_pictures(pack, config.num_pictures, here)
    model = onnx_library.load(here.path(onnx, ONNX))
    here.report("compare with ONNX", 0, len(pictures))
    wanted = run_literally(model, onnx.contract, pictures)
    found = _run_engine(engine, model, wanted, pictures, here)
    step = compare_answers(STEP, wanted, found, pack.problem)
    if _is_too_far(step, config):
        where = _locate(engine, model, measure_differences(wanted, found), pictures, here)
        raise EngineError(f"{_describe_failure(engine, step, config)} {where}", REMEDY)
    here.report("compared with ONNX", len(pictures), len(pictures))
    return Parity(step=step)


def _check_origin(engine: Engine, onnx: OnnxModel) -> None:
    wanted, found = onnx.files[ONNX].sha256, engine.sidecar.onnx_sha256
    if wanted != found:
        raise EngineMismatch(
            f"The engine was built from the ONNX file {found[:12]}; it was to be compared with "
            f"{wanted[:12]}.",
            "Compare it with the file that it was built from.",
        )


def _run_engine(
    engine: Engine, model: ModelProto, wanted: Probabilities, pictures: Pictures, here: Workspace
) -> Probabilities:
    session = open_engine(here.paths(engine), engine.target, engine.sidecar)
    with contextlib.closing(session):
        try:
            return run_in_batches(session, pictures, engine.sidecar.batch)
        except EngineError as error:
            failure = error
    where = _locate(engine, model, np.ones(len(wanted), np.float32), pictures, here)
    raise EngineError(f"{STEP}: {failure.message} {where}", REMEDY) from failure


def _is_too_far(step: Step, config: CompareConfig) -> bool:
    return step.mean_difference > config.max_mean_difference or step.flips > count_flips(
        config.max_flips, step.num_pictures
    )


def _describe_failure(engine: Engine, step: Step, config: CompareConfig) -> str:
    return (
        f"{STEP}: {describe_step(step)} between the {engine.sidecar.backend} engine and its "
        f"{engine.sidecar.precision} ONNX file; allowed are {config.max_mean_difference:.3g} on "
        f"average and {count_flips(config.max_flips, step.num_pictures)} answers."
    )


def _locate(
    engine: Engine,
    model: ModelProto,
    differences: NDArray[np.float32],
    pictures: Pictures,
    here: Workspace,
) -> str:
    """Where in the graph it begins, asked of the pictures that show it most."""
    order = np.argsort(-differences, kind="stable")
    return Search(engine, model, pictures[order], here).describe(differences[order])
