"""Files of weights, read without running what is in them. Knows no network."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from enginehouse.errors import RecipeError
from enginehouse.family import Weights

WRAPPERS = ("state_dict", "model")  # what training scripts keep weights under
PREFIXES = ("module.", "_orig_mod.")  # what DataParallel and torch.compile put before each name


def find_format(path: Path, source: str) -> Literal["safetensors", "torch"]:
    """What kind of file of weights it is, by its first bytes.

    Args:
        source: how people know the file.

    Raises:
        RecipeError: it is none.
    """
    with path.open("rb") as stream:
        start = stream.read(9)
    size = int.from_bytes(start[:8], "little")  # of the header; its first byte may be any
    if start[8:] == b"{" and size <= path.stat().st_size:
        return "safetensors"
    if start[:4] == b"PK\x03\x04" or start[:1] == b"\x80":
        return "torch"
    raise RecipeError(
        f"weights: {source} is no file of weights (or only a part of one): it begins with "
        f"{start!r}.",
        "Name a .safetensors file, or a state dict saved by torch.save.",
    )


def read_weights(path: Path, source: str) -> Weights:
    """The tensors of a safetensors file or a torch state dict, by name, on the CPU.

    A state dict may lie under `state_dict` or `model`, and its names may begin with `module.`.

    Raises:
        RecipeError: damaged, or holding anything but tensors; code in it is never run.
    """
    import torch
    from safetensors.torch import load_file

    try:
        if find_format(path, source) == "safetensors":
            content: Any = load_file(path)
        else:
            content = torch.load(path, map_location="cpu", weights_only=True)
    except RecipeError:
        raise
    except Exception as error:  # bytes that are no pickle make the reader fail in any way
        reason = _say_reason(error)
        if "GLOBAL" in reason:
            raise RecipeError(
                f"weights: {source} holds Python objects, which may run code when they are "
                f"loaded: {reason}.",
                "Save its state_dict() alone, best as .safetensors.",
            ) from error
        raise RecipeError(
            f"weights: {source} is damaged, or no state dict: {reason}.",
            "Get the file again, or save it as .safetensors.",
        ) from error
    return _take_tensors(content, source)


def _take_tensors(content: Any, source: str) -> Weights:
    import torch

    for wrapper in WRAPPERS:
        if isinstance(content, Mapping) and isinstance(content.get(wrapper), Mapping):
            content = content[wrapper]
    if not isinstance(content, Mapping) or not content:
        raise RecipeError(
            f"weights: {source} holds a {type(content).__name__}, wanted tensors by name.",
            "Save the state_dict() of a network.",
        )
    weights = {str(name): value for name, value in content.items()}
    for name, value in weights.items():
        if not isinstance(value, torch.Tensor):
            raise RecipeError(
                f"weights: {name} in {source} is a {type(value).__name__}, wanted tensors only.",
                "Save the state_dict() of a network, or put it under 'state_dict'.",
            )
        if value.is_floating_point() and not value.isfinite().all():
            raise RecipeError(
                f"weights: {name} in {source} has values that are no finite numbers.",
                "Use the weights of an earlier checkpoint.",
            )
    for prefix in PREFIXES:
        if all(name.startswith(prefix) for name in weights):
            weights = {name.removeprefix(prefix): value for name, value in weights.items()}
    return weights


def _say_reason(error: Exception) -> str:
    """What is wrong with a file, without torch's long advice."""
    for line in reversed(str(error).splitlines()):
        reason = line.strip().removeprefix("WeightsUnpickler error: ")
        if reason and not reason.startswith(("Check the documentation", "Please file")):
            return reason.partition(". ")[0].rstrip(".")[:200]
    return type(error).__name__
