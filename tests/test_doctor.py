"""What `doctor` finds, and when it says that something is wrong."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from enginehouse.project import Project
from flows.doctor import Finding, diagnose, print_findings
from tests.conftest import ROOT, clean_environment

DEAD = "http://name:secret@127.0.0.1:9"  # nothing listens on the discard port


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """The checkout with an empty state, in a process environment that is restored afterwards."""
    with mock.patch.dict(os.environ, clean_environment(), clear=True):
        yield Project(ROOT, tmp_path / "state")


def find(findings: list[Finding]) -> dict[str, Finding]:
    return {finding.name: finding for finding in findings}


def test_this_checkout_can_run_the_base_pipeline(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    findings = diagnose(project)
    assert print_findings(findings) == 0
    named = ["Python", "Platform", "Packages", "torch", "CUDA", "Driver", "OpenVINO"]
    named += ["ONNX Runtime", "TensorRT", "TensorRT-RTX", "timm", "ModelOpt", "Shared memory"]
    named += ["Disk"]
    assert [finding.name for finding in findings] == [*named, "DVC remote", "Prefect", "MLflow"]
    lines = capsys.readouterr().out.splitlines()
    assert all(re.match(r"(ok|missing) +\w|  +-> ", line) for line in lines)


def test_servers_that_do_not_answer_are_wrong(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    os.environ |= {"PREFECT_API_URL": f"{DEAD}/api", "MLFLOW_TRACKING_URI": DEAD}
    findings = diagnose(project)
    assert print_findings(findings) == 1
    for name in ("Prefect", "MLflow"):
        assert find(findings)[name].status == "wrong"
        assert find(findings)[name].fix
    assert "secret" not in capsys.readouterr().out


def test_packages_of_another_checkout_are_wrong(project: Project, tmp_path: Path) -> None:
    found = find(diagnose(Project(tmp_path, project.state)))["Packages"]
    assert found.status == "wrong"
    assert str(ROOT) in found.says
