"""The GPU script with tiny sizes: every section runs, and nothing is claimed without a GPU."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ROOT / "bench/gpu_check.sh", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )


@pytest.mark.skipif(torch.cuda.is_available(), reason="with a GPU the figures are measured")
def test_every_section_runs_on_a_cpu(tmp_path: Path) -> None:
    done = run("--tiny", OUT=str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads((tmp_path / "gpu_check.json").read_text())["sections"]
    assert set(results) == {"speed", "memory", "oom", "resume", "ddp", "compile"}
    assert results["resume"]["loss_difference"] == 0  # on a CPU, bit for bit
    assert results["resume"]["resumed_after"] == 2
    assert results["ddp"]["devices"] == 2
    figures = [line for line in done.stdout.splitlines() if line.startswith("figure ")]
    assert len(figures) == 7
    assert all(line.endswith(" unmeasured: no GPU") for line in figures)
    assert (tmp_path / "gpu_check.txt").read_text() == done.stdout


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    """A Python that knows none of the packages."""
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\nexec /usr/bin/env python3 -I -S "$@"\n')
    python.chmod(0o755)
    done = run("--tiny", PYTHON=str(python))
    assert done.returncode == 2
    assert "Missing in" in done.stderr
    assert "torchmetrics" in done.stderr


@pytest.mark.skipif(torch.cuda.is_available(), reason="here is a GPU")
def test_without_a_gpu_nothing_is_measured_in_full(tmp_path: Path) -> None:
    done = run(OUT=str(tmp_path))
    assert done.returncode == 2
    assert "No CUDA device can be used here" in done.stdout
    assert not list(tmp_path.iterdir())
