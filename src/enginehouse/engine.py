"""The words that engines are spoken of in: target, device, sidecar, and what a backend offers.

A backend is a module under `backends/` with the functions of the `Backend` protocol. This file
knows no backend by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Protocol, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from enginehouse.artifact import Config, Record, Report
from enginehouse.choices import Choice, load_choice
from enginehouse.errors import EngineError, EngineMismatch
from enginehouse.preparation import Preparation

Pictures = NDArray[np.uint8]
Probabilities = NDArray[np.float32]
Precision = Literal["fp32", "fp16", "bf16", "int8"]
STEPS: dict[Precision, int] = {"fp32": 0, "fp16": 1, "bf16": 1, "int8": 2}  # how small each is


class BatchProfile(Config):
    """The batch sizes an engine accepts, and the one it is tuned for."""

    min: int = Field(1, ge=1, le=4096, description="Smallest batch the engine must accept.")
    opt: int = Field(8, ge=1, le=4096, description="Batch size the engine is tuned for.")
    max: int = Field(32, ge=1, le=4096, description="Largest batch; larger ones are split.")

    @model_validator(mode="after")
    def _check_order(self) -> BatchProfile:
        if not self.min <= self.opt <= self.max:
            raise ValueError(f"batch profile needs min <= opt <= max, got {self}")
        return self


class Target(Config):
    """One engine to deliver: backend, device class, precision, batch profile."""

    name: str = Field(
        "openvino",
        pattern=r"^[a-z0-9][a-z0-9_-]{0,39}$",
        description="Short name; the engine is registered as <recipe>.<name>.",
    )
    backend: Annotated[str, Choice("backends")] = Field(
        "openvino", description="What builds and runs the engine."
    )
    device: str = Field(
        "cpu",
        pattern=r"^(cpu|gpu|sm[0-9]{2,3}(\+sm[0-9]{2,3})*)$",
        description="Device class: cpu, gpu (the one in the worker), or capabilities as sm86+sm89.",
    )
    precision: Precision = Field(
        "int8",
        description="Smallest precision that may ship; a larger one does where this one loses too "
        "much or gains nothing.",
    )
    batch: BatchProfile = Field(BatchProfile(), description="Batch sizes the engine accepts.")
    # Not `required`: Prefect's server drops a property of that name from every form.
    optional: bool = Field(
        False, description="Promotion does not wait for this engine; by default it does."
    )

    @property
    def required(self) -> bool:
        """Whether promotion waits until this engine is built and verified."""
        return not self.optional

    def admits(self, precision: Precision) -> bool:
        """Whether a graph of this precision may ship: the target's own, or a larger one."""
        return precision == self.precision or STEPS[precision] < STEPS[self.precision]


class Device(Record):
    """Facts about a device that a result depends on. It has no bytes.

    Attributes:
        device_class: `cpu`, `gpu` or `sm86` style capabilities.
        model: the name the maker gave it; empty where the result does not depend on it.
        capability: compute capability of a GPU (`8.9`), empty for a CPU.
        driver: version of the GPU driver, empty for a CPU.
        libraries: distribution name to version.
    """

    kind: ClassVar[str] = "device"

    device_class: str
    model: str = ""
    capability: str = ""
    driver: str = ""
    libraries: dict[str, str] = {}

    def describe(self) -> str:
        """The facts in one line, for people."""
        facts = [
            self.model,
            self.capability and f"capability {self.capability}",
            self.driver and f"driver {self.driver}",
            *(f"{name} {version}" for name, version in sorted(self.libraries.items())),
        ]
        return ", ".join([self.device_class, *(fact for fact in facts if fact)])


class Contract(Config):
    """What goes into an engine and what comes out; written into the ONNX metadata.

    Input: uint8 [batch, 3, size, size], RGB. Output: float32 [batch, classes], probabilities.

    Attributes:
        problem: what a label, and so what a probability is.
        preparation: how a decoded picture becomes such inputs, one or many.
        classes: in the order of the output.
    """

    input_name: str = "pictures"
    output_name: str = "probabilities"
    problem: str = "single_label"
    preparation: Preparation
    classes: tuple[str, ...]

    @property
    def size(self) -> int:
        """Side of the square input in pixels."""
        return self.preparation.size


class Sidecar(Config):
    """What an engine was built for; compared with the device before anything is deserialised."""

    backend: str
    library: str
    library_version: str
    device: dict[str, Any]
    precision: Precision
    batch: BatchProfile
    contract: Contract
    onnx_sha256: str
    flags: dict[str, str] = {}


class Session(Protocol):
    """A loaded engine."""

    def run(self, pictures: Pictures) -> Probabilities:
        """float32 [n, classes] of uint8 [n, 3, size, size]; n lies within the batch profile."""

    def close(self) -> None:
        """Give back what the engine holds."""


class Backend(Protocol):
    """The functions of a module under `backends/`."""

    LIBRARY: str  # distribution whose version ties an engine
    EXTRA: str  # pip extra that brings it, or ""
    LIBRARIES: tuple[str, ...]  # distributions whose versions its results depend on
    PRECISIONS: dict[Precision, str]  # of the graphs that it builds; how it computes each

    def find_missing(self) -> str | None:
        """Why this backend cannot be imported here (one sentence), or None."""

    def describe_build_device(self, target: Target) -> Device:
        """The device facts that a build for this target depends on.

        Raises:
            Unavailable: this machine cannot build for it; the message says what is missing.
        """

    def describe_run_device(self, target: Target) -> Device:
        """The facts of the local device that would run this target's engine.

        Raises:
            Unavailable: no such device or library here.
        """

    def build(
        self, onnx: Path, target: Target, contract: Contract, folder: Path, report: Report
    ) -> dict[str, str]:
        """Write the engine's files into `folder`; returns the flags it was built with.

        Raises:
            EngineError: the graph cannot be built; names node and operator where known.
        """

    def load(self, files: Mapping[str, Path], sidecar: Sidecar, threads: int) -> Session:
        """Load an engine whose sidecar was already checked. `threads` 0: as the library likes."""


def load_backend(name: str) -> Backend:
    """The backend of that name. Raises RecipeError when there is none."""
    return cast(Backend, load_choice("backends", name))


def open_engine(
    files: Mapping[str, Path], target: Target, sidecar: Sidecar, threads: int = 0
) -> Session:
    """Load an engine on the local device, after checking that it was built for it.

    Args:
        files: name to path, as the backend wrote them.
        target: what the engine was delivered for.
        sidecar: what it was built for.
        threads: CPU threads; 0 leaves the choice to the library.

    Raises:
        Unavailable: this machine lacks the device or the library.
        EngineMismatch: it was built for another device or library version.
        EngineError: the library cannot load it.
    """
    backend = load_backend(sidecar.backend)
    check_sidecar(sidecar, backend.describe_run_device(target), backend.LIBRARY)
    return backend.load(files, sidecar, threads)


def check_sidecar(sidecar: Sidecar, local: Device, library: str) -> None:
    """Refuse an engine that was built for another device or library version.

    Facts that the build did not depend on are empty in the sidecar and are not compared.

    Raises:
        EngineMismatch: says what the engine wants and what is here.
    """
    found = local.libraries.get(library, "none")
    if sidecar.library_version != found:
        raise EngineMismatch(
            f"The engine was built with {library} {sidecar.library_version}; here is {found}.",
            f"Build it again here, or install {library}=={sidecar.library_version}.",
        )
    maker = str(sidecar.device.get("model", ""))
    if maker and local.model != maker:
        raise EngineMismatch(
            f"The engine was built for {maker}; this device is {local.model or 'unknown'}.",
            "Build an engine for this device, or run on the device the engine was built for.",
        )
    wanted = str(sidecar.device.get("capability", ""))
    if wanted and local.capability not in wanted.split("+"):
        raise EngineMismatch(
            f"The engine was built for compute capability {wanted.replace('+', ' or ')}; "
            f"this device ({local.model or local.device_class}) has {local.capability or 'none'}.",
            "Build an engine for this device, or run on the device the engine was built for.",
        )


def run_in_batches(session: Session, pictures: Pictures, batch: BatchProfile) -> Probabilities:
    """Run any number of pictures through an engine, split and padded to its profile.

    Returns:
        float32 [len(pictures), classes].

    Raises:
        EngineError: the pictures are not uint8 [n, 3, size, size], or the output is not finite.
    """
    if pictures.dtype != np.uint8 or pictures.ndim != 4:
        raise EngineError(
            f"The engine takes uint8 [n, 3, size, size]; got {pictures.dtype} {pictures.shape}.",
            "Read pictures with enginehouse.prepared_picture.load_picture.",
        )
    parts = []
    for start in range(0, len(pictures), batch.max):
        chunk = pictures[start : start + batch.max]
        short = batch.min - len(chunk)
        if short > 0:
            chunk = np.concatenate([chunk, np.repeat(chunk[-1:], short, axis=0)])
        out = session.run(np.ascontiguousarray(chunk))
        parts.append(out[: len(out) - max(short, 0)].copy())
    result = np.concatenate(parts) if parts else np.zeros((0, 0), np.float32)
    if not np.isfinite(result).all():
        raise EngineError(
            "The engine gave probabilities that are not finite numbers.",
            "Rebuild the engine; if it stays, look at the parity figures of the export.",
        )
    return result
