"""What ties an engine to its device, and how any number of pictures goes through it."""

from __future__ import annotations

import numpy as np
import pytest

from enginehouse.engine import (
    BatchProfile,
    Device,
    Pictures,
    Probabilities,
    Sidecar,
    check_sidecar,
    run_in_batches,
)
from enginehouse.errors import EngineError, EngineMismatch
from tests.unit.tiny_engines import CONTRACT, TARGET, make_pictures

LOCAL = Device(
    device_class="gpu", model="RTX", capability="8.9", driver="580", libraries={"tensorrt": "11.4"}
)


def make_sidecar(version: str = "11.4", **device: str) -> Sidecar:
    return Sidecar(
        backend="tensorrt",
        library="tensorrt",
        library_version=version,
        device=device,
        precision="fp32",
        batch=TARGET.batch,
        contract=CONTRACT,
        onnx_sha256="",
    )


@pytest.mark.parametrize(
    "device",
    [
        {},
        {"model": "", "capability": ""},
        {"capability": "8.6+8.9"},
        {"model": "RTX", "capability": "8.9", "driver": "570"},
    ],
)
def test_engine_for_this_device_is_let_through(device: dict[str, str]) -> None:
    check_sidecar(make_sidecar(**device), LOCAL, "tensorrt")


@pytest.mark.parametrize(
    ("sidecar", "words"),
    [
        (make_sidecar("10.9"), r"tensorrt 10\.9; here is 11\.4"),
        (make_sidecar(model="H200"), "built for H200; this device is RTX"),
        (make_sidecar(capability="8.6+9.0"), r"8\.6 or 9\.0; this device \(RTX\) has 8\.9"),
    ],
)
def test_engine_for_another_device_or_version_is_refused(sidecar: Sidecar, words: str) -> None:
    with pytest.raises(EngineMismatch, match=words):
        check_sidecar(sidecar, LOCAL, "tensorrt")


class Recorder:
    """A session that answers with each picture's first pixel and remembers the batch sizes."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def run(self, pictures: Pictures) -> Probabilities:
        self.sizes.append(len(pictures))
        return pictures[:, :1, 0, 0].astype(np.float32)

    def close(self) -> None:
        """Nothing is held."""


@pytest.mark.parametrize(
    ("count", "sizes"), [(0, []), (1, [2]), (2, [2]), (4, [4]), (5, [4, 2]), (8, [4, 4])]
)
def test_pictures_are_split_and_padded_to_the_profile(count: int, sizes: list[int]) -> None:
    session, pictures = Recorder(), make_pictures([0] * count)
    answers = run_in_batches(session, pictures, BatchProfile(min=2, opt=2, max=4))
    assert session.sizes == sizes
    assert answers.reshape(-1).tolist() == pictures[:, 0, 0, 0].tolist()


def test_numbers_that_are_not_finite_are_refused() -> None:
    class Broken(Recorder):
        def run(self, pictures: Pictures) -> Probabilities:
            return np.full((len(pictures), 2), np.nan, np.float32)

    with pytest.raises(EngineError, match="not finite"):
        run_in_batches(Broken(), make_pictures([0]), BatchProfile())
