"""What export leaves behind."""

from __future__ import annotations

from typing import ClassVar

from enginehouse.artifact import Record
from enginehouse.engine import Contract, Precision

ONNX = "model.onnx"


class OnnxModel(Record):
    """`model.onnx`: uint8 in, probabilities out, dynamic batch.

    Notes: `parity`, the steps of the parity chain up to here (a list of `Step`s as JSON).

    Attributes:
        data: digest of the data version it was trained on (also in the ONNX metadata).
    """

    kind: ClassVar[str] = "onnx"
    schema_number: ClassVar[int] = 2

    contract: Contract
    precision: Precision
    data: str
