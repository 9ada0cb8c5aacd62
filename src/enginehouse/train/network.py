"""The network as every stage sees it: built by name, loaded from a record, fed one way.

Knows nothing of how it is trained.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from enginehouse.artifact import Workspace
from enginehouse.choices import load_choice
from enginehouse.errors import StoreError, first_line
from enginehouse.train.record import HeadConfig, ModelConfig, Normalised, TrainedModel

if TYPE_CHECKING:
    import torch

WEIGHTS = "weights.safetensors"


def build_network(model: ModelConfig, num_classes: int) -> torch.nn.Module:
    """A network with random weights, drawn from torch's current seed, in training mode.

    Raises:
        RecipeError: no such family or architecture, or one that cannot be changed as wished.
    """
    net = build_architecture(model, num_classes)
    change_architecture(net, model)
    return net


def build_architecture(model: ModelConfig, num_classes: int) -> torch.nn.Module:
    """The architecture as its family has it: what weights from elsewhere fit.

    Raises:
        RecipeError: no such family or architecture.
    """
    net: torch.nn.Module = load_choice("models", model.family).build_model(model.name, num_classes)
    return net


def change_architecture(net: torch.nn.Module, model: ModelConfig) -> None:
    """Change a network in place as the recipe wants it; what is not changed keeps its weights.

    Raises:
        RecipeError: the architecture has no place for it; names one that has.
    """
    from enginehouse.architecture.attention import add_attention
    from enginehouse.architecture.dilation import dilate
    from enginehouse.architecture.head import replace_head
    from enginehouse.architecture.norm import replace_batchnorm
    from enginehouse.architecture.stem import keep_resolution

    if model.small_input:
        keep_resolution(net)
    if model.output_stride != 32:
        dilate(net, model.output_stride)
    if model.norm == "group":
        replace_batchnorm(net)
    if model.attention != "none":
        add_attention(net, model.attention)
    if model.head != HeadConfig():
        replace_head(net, model.head.dropout, model.head.hidden)


def load_network(model: TrainedModel, here: Workspace) -> torch.nn.Module:
    """The trained network on the CPU, in evaluation mode.

    Returns:
        A module from float32 [n, 3, size, size], normalised, to logits [n, classes].

    Raises:
        StoreError: the weights are gone, changed, or do not fit this version's architecture.
    """
    import torch
    from safetensors.torch import load_file

    with torch.random.fork_rng(devices=[]):
        net = build_network(model.model, len(model.classes))
    try:
        net.load_state_dict(load_file(here.path(model, WEIGHTS)))
    except RuntimeError as error:
        raise StoreError(
            f"The weights do not fit {model.model.name} as it is built here: {first_line(error)}",
            "Train again with the libraries that are installed now.",
        ) from error
    return net.eval()


def to_probabilities(logits: torch.Tensor, model: Normalised) -> torch.Tensor:
    """What the network says, [n, classes], from its logits, by the rules of its problem.

    The exported graph and every comparison with it call this one.
    """
    activate = load_choice("problems", model.problem).activate
    probabilities: torch.Tensor = activate(logits / model.temperature)
    return probabilities


def normalise(pictures: torch.Tensor, mean: Sequence[float], std: Sequence[float]) -> torch.Tensor:
    """What enters the network: (x / 255 - mean) / std, in float32.

    Training, calibration and the exported graph all call this one.

    Args:
        pictures: [n, 3, size, size], RGB on the 0..255 scale, uint8 or float32.
        mean, std: per channel, on the 0..1 scale.
    """
    import torch

    scale, offset = _find_scale(mean, std)
    device = pictures.device
    return pictures.float() * torch.tensor(scale, device=device).view(3, 1, 1) - torch.tensor(
        offset, device=device
    ).view(3, 1, 1)


class Normaliser:
    """`normalise` for one batch after another: bit for bit the same, in a third of the time.

    Args:
        mean, std: as for `normalise`.
        device: where the pictures are.
    """

    def __init__(self, mean: Sequence[float], std: Sequence[float], device: torch.device) -> None:
        import torch

        self.scale, self.offset = (
            torch.tensor(values, device=device) for values in _find_scale(mean, std)
        )

    def __call__(self, pictures: torch.Tensor) -> torch.Tensor:
        """What enters the network, in the memory format of the pictures.

        Args:
            pictures: as for `normalise`; float32 ones are overwritten.
        """
        import torch

        inputs = pictures.float()
        side = inputs.shape[3]
        if inputs.is_contiguous(memory_format=torch.channels_last):
            # By lines of the picture: in lines of three numbers each, all else would be overhead.
            lines = inputs.permute(0, 2, 3, 1).view(-1, side * 3)
            lines.mul_(self.scale.repeat(side)).sub_(self.offset.repeat(side))
        else:
            inputs.mul_(self.scale.view(3, 1, 1)).sub_(self.offset.view(3, 1, 1))
        return inputs


def _find_scale(mean: Sequence[float], std: Sequence[float]) -> tuple[list[float], list[float]]:
    """What 0..255 is multiplied by, and what is then taken off, per channel."""
    return [1 / (255 * value) for value in std], [m / s for m, s in zip(mean, std, strict=True)]
