"""What a quantizer is: the names in the modules under `quantizers/`.

A quantizer makes a trained network smaller in three steps, each in a stage of its own: it works
out a state from pictures (`quantize`), builds the network that is exported from that state
(`restore`), and may rewrite the exported graph (`rewrite`). All of them give one ONNX master that
every backend takes. Knows no quantizer by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from enginehouse.artifact import Config, Workspace
from enginehouse.engine import Pictures, Precision
from enginehouse.problem import Targets

if TYPE_CHECKING:
    import torch
    from onnx import ModelProto

    from enginehouse.prepare.record import Pack
    from enginehouse.train.record import TrainedModel

State = dict[str, "torch.Tensor"]  # tensors by name, on the CPU, none sharing memory


@dataclass(frozen=True)
class Material:
    """What a quantizer works with.

    Attributes:
        net: the trained network, in evaluation mode, on the CPU; from float32 [n, 3, size, size]
            to logits. It may be changed.
        model: its record. pack: what it was trained on.
        calibration: the pinned training pictures, as they are served: normalised batches,
            float32 [n, 3, size, size]. Each call walks through the same ones.
        num_pictures: how many those are. Where PRECISION is not int8, there are none.
        validation: so many validation pictures, class-balanced, or all where there are fewer:
            normalised, float32 [n, 3, size, size], and what is true of them, [n, classes].
        seed: of whatever is drawn.
        here: its `report`, `stopping` and `resumable`.
    """

    net: torch.nn.Module
    model: TrainedModel
    pack: Pack
    calibration: Callable[[], Iterator[torch.Tensor]]
    num_pictures: int
    validation: Callable[[int], tuple[torch.Tensor, Targets]]
    seed: int
    here: Workspace


@dataclass(frozen=True)
class Quantized:
    """What a quantizer worked out.

    Attributes:
        state: for `restore`.
        kept_float: names of the layers that are left in float, in the order of the network.
        notes: for people; JSON. `sensitivity` and `search` are shown in the report.
    """

    state: State
    kept_float: tuple[str, ...] = ()
    notes: dict[str, Any] = field(default_factory=dict)


class Quantizer(Protocol):
    """The names in a module under `quantizers/`."""

    LIBRARIES: tuple[str, ...]  # distributions whose versions its results depend on
    PRECISION: Precision  # of the graph that it comes to
    Options: type[Config]  # its settings, bounded and described

    def quantize(self, material: Material, options: Any) -> Quantized:
        """Work out the state.

        Raises:
            QuantizationError: the network cannot be quantized, or the pictures do not do.
            Interrupted: it was asked to stop; a rerun goes on.
        """

    def restore(
        self, net: torch.nn.Module, state: State, kept_float: tuple[str, ...], size: int
    ) -> torch.nn.Module:
        """The network to export, from normalised pictures to logits, in evaluation mode.

        Args:
            net: the architecture, in evaluation mode, on the CPU; its weights are replaced.
            state, kept_float: what `quantize` returned.
            size: side of the pictures in pixels.

        Raises:
            QuantizationError: the state is not one of this architecture and these libraries.
        """

    def rewrite(self, proto: ModelProto, pictures: Pictures, options: Any) -> ModelProto:
        """The exported graph in its precision; the same one where `restore` did all.

        Args:
            proto: what torch exported: uint8 pictures in, probabilities out.
            pictures: uint8 [n, 3, size, size], real ones, to see ranges by.
            options: its `Options`, as in `quantize`.

        Raises:
            ExportError: this graph cannot be rewritten, so the candidate is out.
            QuantizationError: the options do not fit the graph, or a library is missing.
        """
