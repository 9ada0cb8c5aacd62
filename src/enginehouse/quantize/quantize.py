"""Quantize: a trained network becomes, in one way, what is exported in a smaller precision."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from enginehouse.artifact import Record, Workspace
from enginehouse.choices import load_choice
from enginehouse.errors import QuantizationError
from enginehouse.prepare.record import Pack
from enginehouse.problem import Targets
from enginehouse.quantize.calibration import Pinned, check_classes, choose_rows
from enginehouse.quantize.record import STATE, QuantizeConfig, QuantizedModel
from enginehouse.quantizer import Material, Quantizer
from enginehouse.train.network import load_network, normalise
from enginehouse.train.record import Normalised, TrainedModel
from enginehouse.train.splits import read_split

if TYPE_CHECKING:
    import torch

LIBRARIES = ("numpy", "onnx", "pandas", "pyarrow", "safetensors", "torch")
BATCH = 16  # what fits memory; no result depends on it


def quantize(
    model: TrainedModel, pack: Pack, config: QuantizeConfig, here: Workspace
) -> QuantizedModel:
    """Work out what one quantizer needs, for INT8 on training pictures as they are served.

    Args:
        model: trained weights; its mean and std normalise the pictures.
        pack: what it was trained on.
        config: quantizer, its settings, and the choice of pictures.
        here: workspace.

    Raises:
        QuantizationError: too few pictures, a class is missing, model and pack do not belong
            together, or the network cannot be quantized.
        Interrupted: it was asked to stop.
    """
    from safetensors.torch import save_file

    _check_fit(model, pack)
    quantizer = cast(Quantizer, load_choice("quantizers", config.quantizer))
    # Casts and plain weights have no ranges to look for, so any training split does for them.
    pinned = _pin_pictures(pack, config, here) if quantizer.PRECISION == "int8" else None

    def calibration() -> Iterator[torch.Tensor]:
        for batch in pinned.walk(BATCH) if pinned else ():
            yield normalise(batch, model.mean, model.std)

    def validation(num_pictures: int) -> tuple[torch.Tensor, Targets]:
        split = read_split(pack, "val", here)
        rows = choose_rows(split.labels, min(num_pictures, len(split)), config.seed)
        pictures, targets = split.pick(rows)
        return normalise(pictures, model.mean, model.std), targets.numpy()

    material = Material(
        net=load_network(model, here),
        model=model,
        pack=pack,
        calibration=calibration,
        num_pictures=len(pinned) if pinned else 0,
        validation=validation,
        seed=config.seed,
        here=here,
    )
    quantized = quantizer.quantize(material, quantizer.Options.model_validate(config.options))
    state = {name: value.contiguous() for name, value in quantized.state.items()}
    save_file(state, here.scratch / STATE)
    return QuantizedModel(
        files=here.seal([STATE]),
        notes={**(_describe(pinned, pack, config) if pinned else {}), **quantized.notes},
        quantizer=config.quantizer,
        options=config.options,
        calibration=pinned.digest() if pinned else "",
        kept_float=quantized.kept_float,
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


def _pin_pictures(pack: Pack, config: QuantizeConfig, here: Workspace) -> Pinned:
    split = read_split(pack, "train", here)
    check_classes(split.count_classes(), pack.classes)
    return Pinned(split, choose_rows(split.labels, config.num_pictures, config.seed))


def _describe(pinned: Pinned, pack: Pack, config: QuantizeConfig) -> dict[str, Any]:
    counts: list[int] = (
        (pinned.split.targets[pinned.rows] > 0.5).sum(axis=0, dtype=np.int64).tolist()
    )
    return {
        "calibration": {
            "wanted": config.num_pictures,
            "used": len(pinned),
            "per_class": dict(zip(pack.classes, counts, strict=True)),
        }
    }
