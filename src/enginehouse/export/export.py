"""Export: a network becomes one ONNX file, pictures in, probabilities out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, cast

from pydantic import Field

from enginehouse.artifact import Config, Record, Workspace
from enginehouse.choices import load_choice
from enginehouse.compare.step import pick_pictures
from enginehouse.engine import Contract, Pictures
from enginehouse.errors import ExportError
from enginehouse.export.canonical import make_canonical, plan_names
from enginehouse.export.chain import Forms, check_chain
from enginehouse.export.checks import (
    check_graph,
    check_per_channel,
    check_precision,
    check_symmetric,
)
from enginehouse.export.graph import onnx_from_torch, wrap_network
from enginehouse.export.record import ONNX, OnnxModel
from enginehouse.ingest.record import DataVersion
from enginehouse.prepare.record import Pack
from enginehouse.quantize.record import STATE, QuantizedModel
from enginehouse.quantizer import Quantizer
from enginehouse.train.network import build_network, load_network
from enginehouse.train.record import Normalised, TrainedModel

if TYPE_CHECKING:
    import torch

LIBRARIES = ("numpy", "onnx", "onnx-ir", "onnxruntime", "onnxscript", "safetensors", "torch")


class ExportConfig(Config):
    """How the ONNX file is written and checked."""

    opset: int = Field(
        20, ge=18, le=20, description="ONNX operator set; casts to bf16 raise it to 22."
    )
    num_parity_pictures: int = Field(
        32, ge=1, le=1024, description="Validation pictures compared between torch and ONNX."
    )
    max_difference: float = Field(
        0.02,
        gt=0,
        le=1,
        description="Largest allowed difference between torch and ONNX: of any probability at "
        "fp32; in smaller precisions on average over the pictures.",
    )
    max_flips: float = Field(
        0.2,
        ge=0,
        le=1,
        description="Largest share of these pictures whose answer a step may change; above 0, one "
        "always may. It only catches a collapse: what a precision costs is judged on the engines.",
    )


def export(
    model: QuantizedModel,
    trained: TrainedModel,
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
        model: what a quantizer made of the trained network; int8 becomes explicit Q/DQ.
        trained: that network.
        pack: its validation pictures are used for the parity check.
        data: the data version to write into the file.
        config: opset and tolerances.
        here: workspace.

    Raises:
        ExportError: the network cannot be exported, the graph is not what was promised, `model`
            was made of another network, or a step of the parity chain fails; names the step, the
            figures and the first node that diverges.
        QuantizationError, StoreError: the stored state does not fit the libraries installed now,
            or the quantizer's options do not fit the graph.
        DataError: the validation split is empty.
    """
    _check_belonging(model, trained)
    here.report("trace", 0, 2)
    pictures = pick_pictures(pack, config.num_parity_pictures, here)
    forms = _write_graph(model, trained, pictures, data, config.opset, here)
    check_graph(forms.graph, forms.contract)
    check_precision(forms.graph, forms.precision)
    if forms.precision == "int8":
        check_symmetric(forms.graph)
        check_per_channel(forms.graph)
    (here.scratch / ONNX).write_bytes(forms.graph.SerializeToString(deterministic=True))
    here.report("compare with torch", 1, 2)
    steps = check_chain(forms, pictures, config.max_difference, config.max_flips)
    return OnnxModel(
        files=here.seal([ONNX]),
        notes={"parity": [step.model_dump() for step in steps]},
        contract=forms.contract,
        precision=forms.precision,
        data=data.digest,
    )


def _check_belonging(model: QuantizedModel, trained: TrainedModel) -> None:
    for field in sorted(Normalised.model_fields.keys() - Record.model_fields.keys()):
        wanted, found = getattr(trained, field), getattr(model, field)
        if wanted != found:
            raise ExportError(
                f"The trained network has {field} {wanted}; what {model.quantizer} made is of one "
                f"with {found}.",
                "Export what was quantized from this network, or quantize it again.",
            )


def _write_graph(
    model: QuantizedModel,
    trained: TrainedModel,
    pictures: Pictures,
    data: DataVersion,
    opset: int,
    here: Workspace,
) -> Forms:
    quantizer = cast(Quantizer, load_choice("quantizers", model.quantizer))
    rounded = _restore_network(model, quantizer, here)
    contract = Contract(problem=model.problem, preparation=model.preparation, classes=model.classes)
    proto, program = onnx_from_torch(wrap_network(rounded, model), contract, opset)
    proto = quantizer.rewrite(proto, pictures, quantizer.Options.model_validate(model.options))
    metadata = {
        "classes": json.dumps(contract.classes),
        "contract": contract.model_dump_json(),
        "data": data.digest,
        "precision": quantizer.PRECISION,
    }
    return Forms(
        plain=load_network(trained, here),
        rounded=rounded,
        model=model,
        program=program,
        graph=make_canonical(proto, metadata),
        names=plan_names(proto),
        contract=contract,
        precision=quantizer.PRECISION,
    )


def _restore_network(
    model: QuantizedModel, quantizer: Quantizer, here: Workspace
) -> torch.nn.Module:
    import torch
    from safetensors.torch import load_file

    with torch.random.fork_rng(devices=[]):
        net = build_network(model.model, len(model.classes)).eval()
    state = load_file(here.path(model, STATE))
    return quantizer.restore(net, state, model.kept_float, model.size)
