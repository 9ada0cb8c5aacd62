"""Export: a network becomes one ONNX file, pictures in, probabilities out."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from enginehouse.artifact import Config, Record
from enginehouse.engine import Contract, Precision


class ExportConfig(Config):
    """How the ONNX file is written and checked."""

    opset: int = Field(20, ge=18, le=20, description="ONNX operator set.")
    num_parity_pictures: int = Field(
        32, ge=1, le=1024, description="Validation pictures compared between torch and ONNX."
    )
    max_difference: float = Field(
        0.02, gt=0, le=1, description="Largest allowed difference of any probability."
    )


class OnnxModel(Record):
    """`model.onnx`: uint8 in, softmax out, dynamic batch. Notes: `parity`.

    Attributes:
        data: digest of the data version it was trained on (also in the ONNX metadata).
    """

    kind: ClassVar[str] = "onnx"

    contract: Contract
    precision: Precision
    data: str
