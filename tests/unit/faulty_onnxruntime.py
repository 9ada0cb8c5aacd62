"""ONNX Runtime with the faults of `faulty_openvino`; stands in for `backends/`."""

from __future__ import annotations

from pathlib import Path

from enginehouse.artifact import Report
from enginehouse.backends import onnxruntime_backend as right
from enginehouse.engine import Contract, Target
from tests.unit.faulty_openvino import damage_file

LIBRARY, EXTRA, LIBRARIES, PRECISIONS = (
    *(right.LIBRARY, right.EXTRA),
    *(right.LIBRARIES, right.PRECISIONS),
)
find_missing = right.find_missing
describe_build_device = right.describe_build_device
describe_run_device = right.describe_run_device
load = right.load


def build(
    onnx: Path, target: Target, contract: Contract, folder: Path, report: Report
) -> dict[str, str]:
    """What ONNX Runtime makes of the graph with its fault."""
    path = damage_file(onnx, target, folder.parent)
    return right.build(path, target, contract, folder, report)
