"""Export: a network becomes one ONNX file, pictures in, probabilities out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from enginehouse.artifact import Config, Workspace
from enginehouse.choices import load_choice
from enginehouse.engine import Contract, Pictures, Precision
from enginehouse.errors import ExportError
from enginehouse.export.canonical import make_canonical
from enginehouse.export.checks import check_graph, check_symmetric
from enginehouse.export.graph import onnx_from_torch, wrap_network
from enginehouse.export.parity import compare
from enginehouse.export.record import OnnxModel
from enginehouse.ingest.record import DataVersion
from enginehouse.prepare.record import Pack
from enginehouse.prepare.shards import open_pictures
from enginehouse.quantize.record import STATE, QuantizedModel
from enginehouse.train.network import build_network, load_network
from enginehouse.train.record import TrainedModel

if TYPE_CHECKING:
    import torch

LIBRARIES = ("numpy", "onnx", "onnx-ir", "onnxruntime", "onnxscript", "safetensors", "torch")
ONNX = "model.onnx"
FP32: Precision = "fp32"
INT8: Precision = "int8"


class ExportConfig(Config):
    """How the ONNX file is written and checked."""

    opset: int = Field(20, ge=18, le=20, description="ONNX operator set.")
    num_parity_pictures: int = Field(
        32, ge=1, le=1024, description="Validation pictures compared between torch and ONNX."
    )
    max_difference: float = Field(
        0.02,
        gt=0,
        le=1,
        description="Largest allowed difference between torch and ONNX: of any probability at "
        "fp32; at int8 on average over the pictures.",
    )


def export(
    model: TrainedModel | QuantizedModel,
    pack: Pack,
    data: DataVersion,
    config: ExportConfig,
    here: Workspace,
) -> OnnxModel:
    """Write `model.onnx`: from pixels to probabilities, dynamic batch, metadata inside.

    Input: uint8 [batch, 3, size, size], RGB. Output: float32 [batch, classes], probabilities by
    the rules of the problem. The bytes depend on the arguments only, and hold no path. The
    metadata are `classes`, `contract`, `data` (digest of the data version) and `precision`.

    Args:
        model: trained weights (fp32), or calibrated ones (int8, as explicit Q/DQ).
        pack: its validation pictures are used for the parity check.
        data: the data version to write into the file.
        config: opset and tolerance.
        here: workspace.

    Raises:
        ExportError: the network cannot be exported, the graph is not what was promised, or torch
            and ONNX Runtime differ by more than `config.max_difference`.
        QuantizationError, StoreError: the stored state does not fit the libraries installed now.
    """
    here.report("trace", 0, 2)
    if isinstance(model, QuantizedModel):
        net, precision = _restore_network(model, here), INT8
    else:
        net, precision = load_network(model, here), FP32
    served = wrap_network(net, model)
    contract = Contract(problem=model.problem, preparation=model.preparation, classes=model.classes)
    metadata = {
        "classes": json.dumps(contract.classes),
        "contract": contract.model_dump_json(),
        "data": data.digest,
        "precision": precision,
    }
    proto = make_canonical(onnx_from_torch(served, contract, config.opset), metadata)
    check_graph(proto, contract)
    if precision == INT8:
        check_symmetric(proto)
    (here.scratch / ONNX).write_bytes(proto.SerializeToString(deterministic=True))

    pictures = _pick_pictures(pack, config.num_parity_pictures, here)
    here.report("compare with torch", 1, 2)
    parity = compare(served, here.scratch / ONNX, contract, pictures)
    _check_parity(parity, precision, config.max_difference)
    return OnnxModel(
        files=here.seal([ONNX]),
        notes={"parity": parity},
        contract=contract,
        precision=precision,
        data=data.digest,
    )


def _restore_network(model: QuantizedModel, here: Workspace) -> torch.nn.Module:
    import torch
    from safetensors.torch import load_file

    with torch.random.fork_rng(devices=[]):
        net = build_network(model.model, len(model.classes)).eval()
    quantizer = load_choice("quantizers", model.config.quantizer)
    restored: torch.nn.Module = quantizer.restore(
        net, load_file(here.path(model, STATE)), model.size
    )
    return restored


def _pick_pictures(pack: Pack, wanted: int, here: Workspace) -> Pictures:
    """Validation pictures, evenly spread over the split."""
    pictures = open_pictures(pack, "val", here)
    if not len(pictures):
        raise ExportError(
            "The validation split holds no pictures to compare torch and ONNX on.",
            "Add data, or give that split a larger share in the recipe.",
        )
    rows = np.linspace(0, len(pictures) - 1, min(wanted, len(pictures))).round().astype(int)
    return pictures[rows]


def _check_parity(parity: dict[str, float], precision: Precision, limit: float) -> None:
    """At int8 the mean counts: a value on the edge between two steps may round either way.

    torch differs from itself there, by several hundredths in a few pictures, when only the batch
    size changes. A wrong graph differs in most pictures.
    """
    found = parity["mean_difference" if precision == INT8 else "max_difference"]
    if found > limit:
        raise ExportError(
            f"The {precision} ONNX file differs from torch by up to "
            f"{parity['max_difference']:.3g} in a probability ({parity['mean_difference']:.3g} on "
            f"average over {parity['num_pictures']} pictures, {parity['flips']} answers differ); "
            f"allowed is {limit:.3g}.",
            "Try another export.opset; if the numbers are fine for you, raise "
            "export.max_difference.",
        )
