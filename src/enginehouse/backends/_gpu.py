"""Facts about the NVIDIA GPU here: what the TensorRT backends ask before they build or load."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass

from enginehouse.errors import Unavailable


@dataclass(frozen=True)
class Gpu:
    """The GPU that this process would use.

    Attributes:
        model: the maker's name, as `NVIDIA RTX A2000`.
        capability: compute capability, as `8.6`.
        driver: version of the driver.
    """

    model: str
    capability: str
    driver: str


def find_gpu(wanted_by: str) -> Gpu:
    """The current CUDA device of this process (CUDA_VISIBLE_DEVICES is honoured).

    Args:
        wanted_by: what needs it, for the message.

    Raises:
        Unavailable: there is none, or its driver does not answer.
    """
    driver = _read_driver(wanted_by)
    import torch

    if not torch.cuda.is_available():
        raise Unavailable(
            f"{wanted_by} needs an NVIDIA GPU; the driver {driver} is here, but PyTorch "
            f"{torch.__version__} sees no device.",
            "Check CUDA_VISIBLE_DEVICES, and that this PyTorch was built for CUDA.",
        )
    facts = torch.cuda.get_device_properties(torch.cuda.current_device())
    return Gpu(facts.name, f"{facts.major}.{facts.minor}", driver)


def _read_driver(wanted_by: str) -> str:
    """The driver's version; asked first, for it costs no import where there is no GPU."""
    remedy = "Run it on a worker that has one, with the driver and its nvidia-smi installed."
    tool = shutil.which("nvidia-smi")
    if tool is None:
        raise Unavailable(f"{wanted_by} needs an NVIDIA GPU; none is here.", remedy)
    answer = subprocess.run(
        [tool, "--query-gpu=driver_version", "--format=csv,noheader"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    lines = answer.stdout.split()
    if answer.returncode != 0 or not lines:
        said = (answer.stdout + answer.stderr).strip() or f"exit code {answer.returncode}"
        raise Unavailable(
            f"{wanted_by} needs an NVIDIA GPU; nvidia-smi says: {' '.join(said.split())}", remedy
        )
    return lines[0]
