"""Where training runs, in which number format, and how it repeats bit by bit."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from pydantic import Field, model_validator

from enginehouse.artifact import Config
from enginehouse.errors import TrainingError

if TYPE_CHECKING:
    import torch

PrecisionWish = Literal["auto", "fp32", "bf16", "fp16"]


class SpeedConfig(Config):
    """How the device is used. None of it changes what is learnt, but for rounding."""

    channels_last: bool = Field(
        True, description="Channels innermost in memory: what fast convolutions want."
    )
    tf32: bool = Field(True, description="fp32 products in TF32 on GPUs that have it.")
    cudnn_benchmark: bool = Field(
        False, description="cuDNN tries its algorithms out; not with deterministic."
    )
    deterministic: bool = Field(True, description="The same bytes again from the same inputs.")
    compile: bool = Field(
        False, description="torch.compile; minutes at first, then faster steps on a GPU."
    )
    gradient_checkpointing: bool = Field(
        False, description="Compute activations twice instead of keeping them: less memory."
    )

    @model_validator(mode="after")
    def _check(self) -> SpeedConfig:
        if self.cudnn_benchmark and self.deterministic:
            raise ValueError(
                "cudnn_benchmark picks algorithms by timing, so a run does not repeat: set "
                "deterministic: false with it, or leave cudnn_benchmark out"
            )
        if self.compile and self.gradient_checkpointing:
            raise ValueError(
                "compile decides by itself what is computed twice: choose it or "
                "gradient_checkpointing"
            )
        return self


def choose_device() -> torch.device:
    """The GPU when there is one, else the CPU."""
    import torch

    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def describe_device(device: torch.device) -> str:
    """The device's name for people."""
    import torch

    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"CPU, {torch.get_num_threads()} threads"


def choose_dtype(wish: PrecisionWish, device: torch.device) -> torch.dtype:
    """The format that matrix products run in; `auto` takes bf16 where the device has it.

    Raises:
        TrainingError: the device cannot do what is wished.
    """
    import torch

    if wish == "auto":
        return torch.bfloat16 if _has_bf16(device) else torch.float32
    if wish == "fp16" and device.type != "cuda":
        raise TrainingError(
            "precision fp16 wants a CUDA device; here is only the CPU.",
            "Set train.precision to auto, bf16 or fp32.",
        )
    if wish == "bf16" and device.type == "cuda" and not _has_bf16(device):
        raise TrainingError(
            f"precision bf16 wants a GPU with bf16; {describe_device(device)} has none.",
            "Set train.precision to auto, fp16 or fp32.",
        )
    return {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[wish]


def _has_bf16(device: torch.device) -> bool:
    import torch

    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    # Without these instructions bf16 on a CPU is emulated, and slower than fp32.
    found = torch.cpu.get_capabilities()
    return bool(found.get("avx512_bf16") or found.get("amx_bf16"))


@contextlib.contextmanager
def reproducible(seed: int, device: torch.device, speed: SpeedConfig) -> Iterator[None]:
    """Seed torch, and choose kernels as the recipe wants them; both end with the block.

    On a CPU the same threads give the same bits. On CUDA a few kernels (max pool backward) have
    no deterministic form; they stay in use, so that runs there may differ in the last bits.
    """
    import torch
    from torch.utils import deterministic

    gpus = [torch.cuda.current_device()] if device.type == "cuda" else []
    enabled = torch.are_deterministic_algorithms_enabled()
    only_warns = torch.is_deterministic_algorithms_warn_only_enabled()
    benchmark = torch.backends.cudnn.benchmark
    products = (torch.backends.cuda.matmul, torch.backends.cudnn.conv)  # type: ignore[attr-defined]
    formats = [each.fp32_precision for each in products]
    filling = deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    with torch.random.fork_rng(devices=gpus), warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*does not have a deterministic implementation.*")
        warnings.filterwarnings("ignore", ".*Deterministic behavior was enabled.*")
        try:
            torch.use_deterministic_algorithms(speed.deterministic, warn_only=device.type == "cuda")
            torch.backends.cudnn.benchmark = speed.cudnn_benchmark
            for each in products:
                each.fp32_precision = "tf32" if speed.tf32 else "ieee"
            # Filling fresh memory finds bugs in kernels; it costs time in every step.
            deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
            torch.manual_seed(seed)
            yield
        finally:
            torch.use_deterministic_algorithms(enabled, warn_only=only_warns)
            torch.backends.cudnn.benchmark = benchmark
            for each, before in zip(products, formats, strict=True):
                each.fp32_precision = before
            deterministic.fill_uninitialized_memory = filling  # type: ignore[attr-defined]
