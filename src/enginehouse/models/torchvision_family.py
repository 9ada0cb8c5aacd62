"""Any classification architecture of torchvision by name, and the weights offered for it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from enginehouse.choices import suggest
from enginehouse.errors import RecipeError
from enginehouse.family import DefaultWeights, Weights
from enginehouse.models._download import download, find_cache

if TYPE_CHECKING:
    import torch

LIBRARIES = ("torch", "torchvision")

# These two add auxiliary classifiers by default, and warn unless told how to initialise.
_PLAIN_HEAD = {
    "googlenet": {"aux_logits": False, "init_weights": True},
    "inception_v3": {"aux_logits": False, "init_weights": True},
}
# Their weights want inputs with this mean and deviation; torchvision converts them in the network.
_HALF = (0.5, 0.5, 0.5)
_AUXILIARY = ("aux1.", "aux2.", "AuxLogits.")
# Before names could hold no dots, DenseNet's layers were called norm.1, conv.2, ...
_OLD_DENSENET = re.compile(r"(denselayer\d+\.(?:norm|conv))\.([12]\.)")


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


def find_default(name: str) -> DefaultWeights:
    """The weights that torchvision offers (`DEFAULT` of its enum), in torch's own cache.

    Raises:
        RecipeError: there are none, or they could not be downloaded.
    """
    from torchvision import models

    check_name(name)
    offered = getattr(models.get_model_weights(name), "DEFAULT", None)
    if offered is None:
        raise RecipeError(
            f"weights: torchvision offers none for {name}.",
            "Set weights: none, or a file of your own.",
        )
    wanted = offered.transforms()
    mean, std = (_HALF, _HALF) if name in _PLAIN_HEAD else (wanted.mean, wanted.std)
    path = download(offered.url, find_cache() / offered.url.rpartition("/")[2])
    return DefaultWeights(path, offered.url, tuple(mean), tuple(std))


def adapt_weights(name: str, weights: Weights) -> Weights:
    """Today's names for DenseNet's layers, and no auxiliary classifiers."""
    kept = {key: value for key, value in weights.items() if not key.startswith(_AUXILIARY)}
    return {_OLD_DENSENET.sub(r"\1\2", key): value for key, value in kept.items()}
