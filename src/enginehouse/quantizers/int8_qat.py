"""INT8 by training on: the calibrated network goes on learning with rounding in its graph.

It begins with the ranges that calibration found, as `int8_ptq` does, and learns for a few
epochs from pictures as they are served and from the answers of the network in fp32, so that it
gets used to being rounded. What comes out is a state of the same kind: captured in evaluation mode,
BatchNorm folded, symmetric, zero point 0.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from enginehouse.engine import Pictures, Precision
from enginehouse.quantizer import Material, Quantized
from enginehouse.quantizers._calibrate import calibrate, make_scheme, restore
from enginehouse.quantizers._graph import capture, prepare
from enginehouse.quantizers._qat_graph import fold, list_folded, make_learning
from enginehouse.quantizers._qat_options import Options
from enginehouse.quantizers._qat_training import train_on

if TYPE_CHECKING:
    from onnx import ModelProto

__all__ = ["LIBRARIES", "PRECISION", "Options", "quantize", "restore", "rewrite"]

LIBRARIES = (
    "numpy",
    "onnx",
    "pandas",
    "pyarrow",
    "safetensors",
    "torch",
    "torchao",
    "torchvision",
)
PRECISION: Precision = "int8"


def quantize(material: Material, options: Options) -> Quantized:
    """Calibrate, then train on with rounding; keep the epoch that does best on validation.

    What was calibrated is epoch 0, which is kept where no epoch does better. Biases are not
    corrected as `int8_ptq` does it: they learn.

    Runs on the GPU when there is one. On one CPU, the same number of threads gives the same bytes,
    also when it was killed in between and run again.

    Raises:
        QuantizationError: the network cannot be captured, or an activation is not finite.
        NonFiniteLoss: the loss became NaN or infinite.
        Interrupted: it was asked to stop; a rerun goes on.
    """
    teacher = copy.deepcopy(material.net)
    captured = capture(material.net, material.model.size)
    folded = list_folded(captured)
    calibrated = prepare(captured, make_scheme())
    calibrate(calibrated, material.calibration, material.num_pictures, material.here)
    learning = make_learning(teacher, calibrated, folded)
    lesson = train_on(learning, teacher, material, options)
    learning.load_state_dict(lesson.best)
    notes = {
        "history": lesson.progress.history,
        "best_epoch": lesson.progress.best_epoch,
        "resumed": lesson.progress.resumed,
        "warnings": lesson.progress.warnings,
    }
    return Quantized(fold(calibrated, learning, folded), notes=notes)


def rewrite(proto: ModelProto, pictures: Pictures, options: Options) -> ModelProto:
    """The exported graph as it is: `restore` put the Q/DQ in."""
    return proto
