"""The stages of a network, from the first that sees the picture to the class head."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginehouse.architecture.head import find_head
from enginehouse.architecture.probe import list_children, trace_calls

if TYPE_CHECKING:
    import torch

    Named = tuple[str, torch.nn.Module]

NEARLY_ALL = 0.9  # of the weights


def number_stages(net: torch.nn.Module) -> dict[str, int]:
    """The stage of each parameter, by name: 0 is the first, the highest is the head.

    Stages are the network's children in the order in which they are called. A child that nearly
    all of the network lies in (`features`, a transformer's `encoder.layers`) counts as the
    children that it has. Norms belong to what is before them, and what belongs to no child
    (class tokens, positions) to the first stage.

    Raises:
        RecipeError: the network could not be looked into.
    """
    head = find_head(net)
    stages, head_stage = _split(net, head)
    order = {call.name: place for place, call in reversed(list(enumerate(trace_calls(net))))}

    def first_called(stage: Named) -> int:
        inside = [place for name, place in order.items() if _is_in(name, stage[0])]
        return min(inside, default=len(order))

    numbers: dict[str, int] = {}
    number = -1
    for name, module in sorted(stages, key=first_called):
        number += 0 if number >= 0 and _is_norm(module) else 1
        numbers[name] = number
    numbers[head_stage] = number + 1
    return {
        parameter: next((n for name, n in numbers.items() if _is_in(parameter, name)), 0)
        for parameter, _ in net.named_parameters()
    }


def _split(net: torch.nn.Module, head: str) -> tuple[list[Named], str]:
    """The stages before the head, and the child that the head lies in."""
    children = _with_weights(list(list_children(net)))
    head_stage = next(name for name, _ in children if _is_in(head, name))
    stages = [child for child in children if child[0] != head_stage]
    while opened := _find_opened(stages):
        place = stages.index(opened)
        inside = [(f"{opened[0]}.{name}", module) for name, module in list_children(opened[1])]
        stages[place : place + 1] = _with_weights(inside)
    return stages, head_stage


def _find_opened(stages: list[Named]) -> Named | None:
    """The stage that is no stage, but most of the network."""
    total = sum(_count(module) for _, module in stages)
    deep = [stage for stage in stages if any(map(_count, stage[1].children()))]
    large = [stage for stage in deep if _count(stage[1]) > NEARLY_ALL * total]
    return next(iter(deep if len(deep) == 1 else large), None)


def _with_weights(stages: list[Named]) -> list[Named]:
    return [stage for stage in stages if _count(stage[1])]


def _count(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _is_norm(module: torch.nn.Module) -> bool:
    """Scales and offsets, and no matrix."""
    return all(parameter.ndim == 1 for parameter in module.parameters())


def _is_in(name: str, outer: str) -> bool:
    return name == outer or name.startswith(f"{outer}.")
