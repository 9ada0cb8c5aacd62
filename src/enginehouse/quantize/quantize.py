"""Quantize: calibrate a trained network so that it can be exported with explicit Q/DQ."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from enginehouse.artifact import Record, Workspace
from enginehouse.choices import load_choice
from enginehouse.errors import QuantizationError
from enginehouse.prepare.record import Pack
from enginehouse.quantize.calibration import check_classes, choose_rows
from enginehouse.quantize.record import STATE, QuantizeConfig, QuantizedModel
from enginehouse.train.network import load_network, normalise
from enginehouse.train.record import Normalised, TrainedModel
from enginehouse.train.splits import Split, read_split

if TYPE_CHECKING:
    import torch

LIBRARIES = ("numpy", "pandas", "pyarrow", "safetensors", "torch")
# Fixed, not configured: histograms depend on how pictures are batched.
BATCH = 16


def quantize(
    model: TrainedModel, pack: Pack, config: QuantizeConfig, here: Workspace
) -> QuantizedModel:
    """Calibrate on training pictures, exactly as they are served: never augmented.

    Args:
        model: trained weights; its mean and std normalise the pictures.
        pack: what it was trained on.
        config: quantizer, and the choice of pictures.
        here: workspace.

    Raises:
        QuantizationError: too few pictures, a class is missing, model and pack do not belong
            together, or the network cannot be quantized.
    """
    from safetensors.torch import save_file

    _check_fit(model, pack)
    split = read_split(pack, "train", here)
    check_classes(split.count_classes(), pack.classes)
    rows = choose_rows(split.labels, config.num_pictures, config.seed)
    net = load_network(model, here)
    quantizer = load_choice("quantizers", config.quantizer)

    def report(message: str, done: int = 0, total: int = 0, **metrics: float) -> None:
        here.report(message, done, len(rows), **metrics)

    state = quantizer.calibrate(net, _iter_batches(split, rows, model), report)
    save_file(state, here.scratch / STATE)
    counts = (split.targets[rows] > 0.5).sum(axis=0)
    return QuantizedModel(
        files=here.seal([STATE]),
        notes={
            "calibration": {
                "wanted": config.num_pictures,
                "used": len(rows),
                "per_class": dict(zip(pack.classes, counts.tolist(), strict=True)),
            }
        },
        config=config,
        **{
            name: getattr(model, name)
            for name in Normalised.model_fields
            if name not in Record.model_fields
        },
    )


def _check_fit(model: TrainedModel, pack: Pack) -> None:
    for field in ("problem", "classes", "preparation", "mean", "std"):
        wanted, found = getattr(model, field), getattr(pack, field)
        if wanted != found:
            raise QuantizationError(
                f"The model was trained with {field} {wanted}; the calibration pack has {found}.",
                "Calibrate on the pack that the model was trained on.",
            )


def _iter_batches(
    split: Split, rows: NDArray[np.int64], model: TrainedModel
) -> Iterator[torch.Tensor]:
    for start in range(0, len(rows), BATCH):
        pictures, _ = split.pick(rows[start : start + BATCH])
        yield normalise(pictures, model.mean, model.std)
