"""Weights to start from, put into a network: of its plain architecture, or as it was changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from enginehouse.artifact import Workspace
from enginehouse.choices import load_choice
from enginehouse.errors import RecipeError
from enginehouse.family import Weights
from enginehouse.prepare.record import Pack
from enginehouse.train.network import build_architecture, change_architecture
from enginehouse.train.record import HeadConfig, ModelConfig, Pretrained
from enginehouse.train.weights import read_weights

if TYPE_CHECKING:
    import torch

FILE = "weights"  # the file's name in a `Pretrained` record
NAMED = 5  # tensors in an error; the rest is counted


def take_normalisation(pack: Pack, pretrained: Pretrained | None) -> Pack:
    """The pack with the mean and deviation that the weights were trained with, where known."""
    if pretrained is None or pretrained.mean is None:
        return pack
    return pack.model_copy(update={"mean": pretrained.mean, "std": pretrained.std})


def begin_network(
    model: ModelConfig,
    pack: Pack,
    pretrained: Pretrained,
    here: Workspace,
    warn: Callable[[str], None],
) -> torch.nn.Module:
    """A network for the pack's classes that starts from a record's weights, as `start_network`.

    Raises:
        RecipeError: the file is no weights, or those of another architecture.
        StoreError: the bytes are gone or changed.
    """
    source = str(pretrained.notes.get("source", "the file of weights"))
    weights = read_weights(here.path(pretrained, FILE), source)
    return start_network(model, len(pack.classes), weights, source, warn)


def start_network(
    model: ModelConfig,
    num_classes: int,
    weights: Weights,
    source: str,
    warn: Callable[[str], None],
) -> torch.nn.Module:
    """A network that starts from weights, in training mode on the CPU.

    They may be those of the plain architecture, which are loaded before it is changed, or those
    of a network that was changed in the same way. Only the class head may differ from what is in
    the file; it stays random then.

    Args:
        weights: as read from a file.
        source: how people know the file.
        warn: told what stays random.

    Raises:
        RecipeError: the weights are of another architecture; names the first tensors.
    """
    weights = load_choice("models", model.family).adapt_weights(model.name, weights)
    net = build_architecture(model, num_classes)
    is_plain = not (plain_misfits := find_misfits(net, weights))
    if is_plain and model.head != HeadConfig():
        is_plain = not _has_changed_head(net, weights)
    filled = _fill(net, weights) if is_plain else []
    change_architecture(net, model)
    if not is_plain:
        if misfits := find_misfits(net, weights):
            fewest = min(misfits, plain_misfits or misfits, key=len)
            raise RecipeError(
                f"weights: {source} does not fit {model.name}: {_name_some(fewest)}.",
                f"Use weights of {model.name}, or name in train.model the architecture (and its "
                "changes) that they belong to.",
            )
        filled = _fill(net, weights)
    ids = {id(value) for value in filled}
    fresh = [name for name, value in net.named_parameters() if id(value) not in ids]
    if fresh:
        warn(f"weights: random stays what {source} has no fitting values for: {_name_some(fresh)}")
    if is_plain and model.norm == "group":
        warn("weights: model.norm group drops the statistics that the weights were trained with")
    return net


def find_misfits(net: torch.nn.Module, weights: Weights) -> list[str]:
    """Where tensors are not those of a network, its class head left out, in words."""
    own, head = net.state_dict(), _find_head(net)
    misfits = []
    for name, value in own.items():
        if _is_in(name, head):
            continue
        if name not in weights:
            if not name.endswith("num_batches_tracked"):  # older files have none
                misfits.append(f"{name} is missing")
        elif weights[name].shape != value.shape:
            misfits.append(f"{name} is {_say(weights[name])}, wanted {_say(value)}")
    extra = [name for name in weights if name not in own and not _is_in(name, head)]
    return misfits + [f"{name} has no place" for name in extra]


def _fill(net: torch.nn.Module, weights: Weights) -> list[torch.Tensor]:
    """Copy into the network what fits, the head whole or not at all; returns what was filled."""
    own, head = net.state_dict(), _find_head(net)
    fits = {n: v for n, v in weights.items() if n in own and own[n].shape == v.shape}
    if any(_is_in(name, head) and name not in fits for name in own):
        fits = {name: value for name, value in fits.items() if not _is_in(name, head)}
    net.load_state_dict(fits, strict=False)
    return [value for name, value in net.named_parameters() if name in fits]


def _has_changed_head(net: torch.nn.Module, weights: Weights) -> bool:
    """Whether the weights have a head like that of a network with `model.head`."""
    own, head = net.state_dict(), _find_head(net)
    return any(_is_in(name, head) and name not in own for name in weights)


def _find_head(net: torch.nn.Module) -> str:
    """Where the head begins: a changed one is a Sequential around the layer of logits."""
    from enginehouse.architecture.head import find_head

    return find_head(net).removesuffix(".logits")


def _name_some(items: list[str]) -> str:
    more = [f"and {len(items) - NAMED} more"] if len(items) > NAMED else []
    return ", ".join(items[:NAMED] + more)


def _say(tensor: torch.Tensor) -> str:
    return "x".join(map(str, tensor.shape)) or "a number"


def _is_in(name: str, outer: str) -> bool:
    return name == outer or name.startswith(f"{outer}.")
