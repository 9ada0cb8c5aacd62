"""What the backends that run on the processor share: their device records."""

from __future__ import annotations

from importlib import metadata

from enginehouse.engine import Device, Target
from enginehouse.errors import RecipeError, Unavailable
from enginehouse.processor import describe_cpu


def describe_device(target: Target, library: str, *, with_model: bool) -> Device:
    """The record of this machine's processor.

    Args:
        target: its device must be `cpu`.
        library: distribution that builds and runs the engine.
        with_model: whether the result depends on the processor's model.

    Raises:
        RecipeError: the target names another device.
        Unavailable: the library is not installed.
    """
    if target.device != "cpu":
        raise RecipeError(
            f"Target {target.name!r}: backend {target.backend} runs on cpu, the target's device "
            f"is {target.device}.",
            "Set its device to cpu, or choose the backend tensorrt or tensorrt_rtx.",
        )
    try:
        version = metadata.version(library)
    except metadata.PackageNotFoundError as error:
        raise Unavailable(f"{library} is not installed here.", f"pip install {library}") from error
    return Device(
        device_class="cpu",
        model=describe_cpu() if with_model else "",
        libraries={library: version},
    )


def find_missing(library: str) -> str | None:
    """Why a distribution cannot be used (one sentence), or None."""
    try:
        metadata.version(library)
    except metadata.PackageNotFoundError:
        return f"{library} is not installed here."
    return None
