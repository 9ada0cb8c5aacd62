"""Any torchvision classification architecture by name, randomly initialised, nothing downloaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginehouse.choices import suggest
from enginehouse.errors import RecipeError

if TYPE_CHECKING:
    import torch

LIBRARIES = ("torch", "torchvision")

# These two add auxiliary classifiers by default, and warn unless told how to initialise.
_PLAIN_HEAD = {
    "googlenet": {"aux_logits": False, "init_weights": True},
    "inception_v3": {"aux_logits": False, "init_weights": True},
}


def list_names() -> list[str]:
    """Every classification architecture of the installed torchvision, sorted."""
    from torchvision import models

    return sorted(models.list_models(module=models))


def check_name(name: str) -> None:
    """Check that the architecture exists.

    Raises:
        RecipeError: it does not; names the nearest ones.
    """
    names = list_names()
    if name not in names:
        raise RecipeError(
            f"model.name: torchvision has no classification architecture named {name!r}"
            f"{suggest(name, names)}.",
            f"Use one of its {len(names)}, for example resnet18, mobilenet_v3_small or "
            "convnext_tiny.",
        )


def build_model(name: str, num_classes: int) -> torch.nn.Module:
    """Build an architecture with a head for `num_classes`, in training mode.

    The weights are random, drawn from torch's current seed.

    Returns:
        A module from float32 [n, 3, size, size] (normalised) to logits [n, num_classes].

    Raises:
        RecipeError: no such architecture.
    """
    from torchvision import models

    check_name(name)
    net: torch.nn.Module = models.get_model(
        name, weights=None, num_classes=num_classes, **_PLAIN_HEAD.get(name, {})
    )
    return net
