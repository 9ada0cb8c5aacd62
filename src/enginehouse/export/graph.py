"""A torch network becomes an ONNX graph that holds everything from pixels to probabilities."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginehouse.engine import Contract
from enginehouse.errors import ExportError, first_line
from enginehouse.quiet import quiet
from enginehouse.train.network import normalise, to_probabilities
from enginehouse.train.record import Normalised

if TYPE_CHECKING:
    import torch
    from onnx import ModelProto
    from torch.export import ExportedProgram


def wrap_network(net: torch.nn.Module, model: Normalised) -> torch.nn.Module:
    """A module from uint8 [n, 3, size, size], RGB, to probabilities, float32 [n, classes].

    Args:
        net: in evaluation mode; from normalised pictures to logits.
        model: with its mean, std, problem and temperature.
    """
    import torch

    class ServedNetwork(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net
            # Not .eval(): a captured graph is in evaluation mode for good and refuses to be told.
            self.training = False

        def forward(self, pictures: torch.Tensor) -> torch.Tensor:
            logits: torch.Tensor = self.net(normalise(pictures, model.mean, model.std))
            return to_probabilities(logits, model)

    return ServedNetwork()


def onnx_from_torch(
    served: torch.nn.Module, contract: Contract, opset: int
) -> tuple[ModelProto, ExportedProgram]:
    """Export with torch's own exporter, batch dynamic, weights inside.

    Args:
        served: what `wrap_network` returned.
        contract: names of input and output, size.
        opset: ONNX operator set.

    Returns:
        The graph, and the torch program it was written from. Where a value is in both, it has the
        same name in both, but for the output.

    Raises:
        ExportError: the network holds something that cannot be exported.
    """
    import torch

    example = torch.zeros(2, 3, contract.size, contract.size, dtype=torch.uint8)
    batch = torch.export.Dim("batch", min=1)
    with quiet(), torch.no_grad():
        try:
            program = torch.onnx.export(
                served,
                (example,),
                dynamo=True,
                opset_version=opset,
                input_names=[contract.input_name],
                output_names=[contract.output_name],
                dynamic_shapes=({0: batch},),
                external_data=False,
            )
        except Exception as error:  # torch raises dozens of types here, all meaning the same
            raise ExportError(
                f"torch cannot export this network to ONNX opset {opset}: {first_line(error)}",
                "Choose another architecture, or another export.opset.",
            ) from error
    assert program is not None and program.exported_program is not None
    return program.model_proto, program.exported_program
