"""Does the ONNX file compute what torch computes? Asked of real pictures, on the CPU."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from enginehouse.choices import load_choice
from enginehouse.engine import Contract, Pictures, Probabilities

if TYPE_CHECKING:
    import torch

BATCH = 8


def compare(
    served: torch.nn.Module, onnx: Path, contract: Contract, pictures: Pictures
) -> dict[str, float]:
    """Run both on the same pictures.

    Args:
        served: from uint8 pictures to probabilities, on the CPU.
        onnx: the exported file.
        contract: problem, and names of input and output.
        pictures: uint8 [n, 3, size, size].

    Returns:
        `max_difference` of any probability; `mean_difference`, the mean over pictures of the
        largest one in each; `flips` (pictures whose answer differs); `num_pictures`. A value that
        is not finite counts as an infinite difference.
    """
    import torch

    session = _open_session(onnx)
    expected, found = [], []
    with torch.inference_mode():
        for start in range(0, len(pictures), BATCH):
            part = np.array(pictures[start : start + BATCH])
            expected.append(served(torch.from_numpy(part)).numpy())
            found.append(session.run([contract.output_name], {contract.input_name: part})[0])
    want: Probabilities = np.concatenate(expected)
    have: Probabilities = np.concatenate(found)
    decide = load_choice("problems", contract.problem).decide
    # NaN on either side must not pass a comparison that NaN answers with False.
    difference = np.nan_to_num(np.abs(want - have), nan=np.inf).max(axis=1)
    return {
        "max_difference": float(difference.max()),
        "mean_difference": float(difference.mean()),
        "flips": int((decide(want) != decide(have)).any(axis=1).sum()),
        "num_pictures": len(pictures),
    }


def _open_session(onnx: Path) -> Any:
    """ONNX Runtime that takes the graph literally: no fusing, so Q/DQ are computed as written."""
    import onnxruntime
    import torch

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(onnx), options, providers=["CPUExecutionProvider"])
