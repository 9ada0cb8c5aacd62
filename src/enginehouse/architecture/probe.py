"""Look into a network: which module is called when, and what goes in and comes out.

The look costs nothing: the network runs on torch's meta device, which knows shapes and no numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from enginehouse.architecture.head import find_head
from enginehouse.errors import RecipeError, first_line

if TYPE_CHECKING:
    import torch

SIZE = 224  # pixels; what every family is made for, and a multiple of every usual stride


@dataclass(frozen=True)
class Call:
    """One call of one module.

    Attributes:
        name: where the module stands in the network.
        taken: shape of the first tensor that went in; empty if none did.
        given: shape of what came out; empty if that was no single tensor.
    """

    name: str
    module: torch.nn.Module
    taken: tuple[int, ...]
    given: tuple[int, ...]


def trace_calls(net: torch.nn.Module) -> list[Call]:
    """The calls of all modules on a picture of 224 px, in the order in which they end.

    The network is left as it was; no random number is drawn.

    Raises:
        RecipeError: it does not take such a picture.
    """
    import torch
    from torch.func import functional_call

    calls: list[Call] = []
    modes = {module: module.training for module in net.modules()}
    tensors = [*net.named_parameters(), *net.named_buffers()]
    bare = {name: tensor.to("meta") for name, tensor in tensors}
    hooks = [module.register_forward_hook(_note(calls, name)) for name, module in _list(net)]
    try:
        with torch.no_grad():
            functional_call(net.eval(), bare, (torch.empty(1, 3, SIZE, SIZE, device="meta"),))
    except Exception as error:  # whatever a network does with a picture that it does not take
        raise RecipeError(
            f"model: {type(net).__name__} could not be looked into with a picture of {SIZE} px: "
            f"{first_line(error)}",
            "Leave model.attention, model.output_stride and finetune.layer_decay as they are, or "
            "choose another architecture.",
        ) from error
    finally:
        for hook in hooks:
            hook.remove()
        for module, mode in modes.items():
            module.training = mode
    return calls


def find_last_map(net: torch.nn.Module) -> Call:
    """The last stage of a convolutional network: where its last feature map comes out.

    That is the last of the network's children whose output is a map larger than 1x1 and that is
    no pooling. What comes after it may only sum it up.

    Raises:
        RecipeError: the network has none (a transformer works on tokens).
    """
    head = find_head(net)
    stages = dict(list_children(net))
    found: Call | None = None
    for call in trace_calls(net):
        if call.name not in stages or head == call.name or head.startswith(f"{call.name}."):
            continue
        if _is_map(call.given) and "Pool" not in type(call.module).__name__:
            found = call
        elif len(call.given) > 2 and call.given[-1] > 1 and list(call.module.parameters()):
            found = None  # tokens: the map before them was not the last word
    if found is None:
        raise RecipeError(
            f"model: {type(net).__name__} has no last convolutional stage.",
            "Choose a convolutional architecture (ResNet, EfficientNet, MobileNet, ConvNeXt), or "
            "leave model.attention and model.output_stride as they are.",
        )
    return found


def list_children(net: torch.nn.Module, prefix: str = "") -> Iterator[tuple[str, torch.nn.Module]]:
    """The modules that a network is made of at its top, those of lists one by one."""
    import torch

    for name, child in net.named_children():
        if isinstance(child, torch.nn.ModuleList):
            yield from list_children(child, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", child


def _list(net: torch.nn.Module) -> list[tuple[str, torch.nn.Module]]:
    return [(name, module) for name, module in net.named_modules() if name]


def _note(calls: list[Call], name: str) -> Any:
    def hook(module: torch.nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        taken = next((tuple(each.shape) for each in inputs if hasattr(each, "shape")), ())
        calls.append(Call(name, module, taken, tuple(getattr(output, "shape", ()))))

    return hook


def _is_map(shape: tuple[int, ...]) -> bool:
    """Channels before a square of more than one cell; transformers put the channels last."""
    return len(shape) == 4 and shape[2] == shape[3] > 1
