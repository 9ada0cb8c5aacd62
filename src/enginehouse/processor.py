"""Facts about the processor here: what results and latencies on it may depend on."""

from __future__ import annotations

import os
import platform
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")  # Linux's description of the processors

# Instruction sets for which the CPU libraries keep kernels of their own: two processors of one
# name can differ in them (a virtual machine may hide some).
_KERNEL_FLAGS = (
    "avx2",
    "avx_vnni",
    "avx512f",
    "avx512_vnni",
    "avx512_bf16",
    "avx512_fp16",
    "amx_bf16",
    "amx_int8",
)


def describe_cpu(cpuinfo: Path = CPUINFO) -> str:
    """Model name and the instruction sets that count, as `AMD EPYC (avx2 avx512f)`."""
    facts = _read_blocks(cpuinfo)[0]
    flags = set(facts.get("flags", "").split())
    known = " ".join(flag for flag in _KERNEL_FLAGS if flag in flags)
    return f"{facts.get('model name') or platform.machine()} ({known or 'no vector sets'})"


def has_vnni(cpuinfo: Path = CPUINFO) -> bool:
    """Whether the processor adds INT8 products in 32 bits in one instruction."""
    flags = _read_blocks(cpuinfo)[0].get("flags", "").split()
    return "avx512_vnni" in flags or "avx_vnni" in flags


def has_bf16(cpuinfo: Path = CPUINFO) -> bool:
    """Whether the processor multiplies bf16 numbers in instructions of its own."""
    flags = _read_blocks(cpuinfo)[0].get("flags", "").split()
    return "avx512_bf16" in flags or "amx_bf16" in flags


def count_cores(cpuinfo: Path = CPUINFO) -> int:
    """Physical cores that this process may use; two hardware threads of a core count once."""
    allowed = {str(number) for number in os.sched_getaffinity(0)}
    return len(
        {
            (block.get("physical id", ""), block.get("core id") or block["processor"])
            for block in _read_blocks(cpuinfo)
            if block["processor"] in allowed
        }
    )


def _read_blocks(cpuinfo: Path) -> list[dict[str, str]]:
    """One dict of `name: value` lines per processor."""
    blocks = []
    for text in cpuinfo.read_text().strip().split("\n\n"):
        lines = (line.partition(":") for line in text.splitlines())
        blocks.append({name.strip(): value.strip() for name, _, value in lines})
    return blocks
