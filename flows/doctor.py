"""`enginehouse doctor`: what this machine can build and run, each line with its fix."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from enginehouse.choices import list_choices, load_choice
from enginehouse.code_digest import library_version
from enginehouse.project import Project
from flows.environment import Address, prepare_environment
from flows.services import PYTHON
from tasks._dvc import SAMPLE_REMOTE

PACKAGES = ("flows", "tasks", "enginehouse")
BASE_BACKENDS = ("openvino", "onnxruntime")
TITLES = {
    "openvino": "OpenVINO",
    "onnxruntime": "ONNX Runtime",
    "tensorrt": "TensorRT",
    "tensorrt_rtx": "TensorRT-RTX",
}
LITTLE_ROOM = 2**30  # bytes; each new version of a model line takes some 100 MiB
LITTLE_SHARED = 2**30  # bytes; a container has 64 MiB unless told otherwise
LINK = 5.0  # seconds to wait for an answer
REINSTALL = "make clean, then make run: the environment is made anew"


@dataclass(frozen=True)
class Finding:
    """One line of the report.

    Attributes:
        status: `wrong` only where the base pipeline cannot do without; `missing` is a choice.
        fix: what to do about it; empty when nothing has to be.
    """

    name: str
    status: Literal["ok", "missing", "wrong"]
    says: str
    fix: str = ""


def diagnose(project: Project) -> list[Finding]:
    """Look at everything a run may need; changes nothing."""
    services = prepare_environment(project)
    return [
        _check_python(),
        _check_platform(),
        _check_packages(project),
        *_check_torch(),
        *_check_backends(),
        _check_timm(),
        _check_modelopt(),
        _check_shared_memory(),
        _check_room(project),
        _check_remote(project),
        _check_prefect(services.prefect),
        _check_mlflow(services.mlflow),
    ]


def print_findings(findings: Iterable[Finding]) -> int:
    """Print a line per finding; returns 1 if anything is wrong, else 0."""
    code = 0
    for finding in findings:
        print(f"{finding.status:8} {finding.name:14} {finding.says}")
        if finding.fix:
            print(f"{'':23} -> {finding.fix}")
        code |= finding.status == "wrong"
    return code


def _check_python() -> Finding:
    return Finding("Python", "ok", f"{platform.python_version()}, {sys.executable}")


def _check_platform() -> Finding:
    found = f"{platform.system()} {platform.machine()}, {os.cpu_count()} logical processors"
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        return Finding("Platform", "wrong", found, "use a Linux x86-64 machine")
    return Finding("Platform", "ok", found)


def _check_packages(project: Project) -> Finding:
    outside = []
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is None or not Path(spec.origin or "").is_relative_to(project.root):
            outside.append(f"{name} ({spec.origin if spec else 'not found'})")
    if outside:
        says = f"not those of the checkout {project.root}: {', '.join(outside)}"
        return Finding("Packages", "wrong", says, REINSTALL)
    return Finding("Packages", "ok", f"{', '.join(PACKAGES)} resolve inside {project.root}")


def _check_torch() -> Iterator[Finding]:
    try:
        import torch
    except (ImportError, OSError) as error:
        yield Finding("torch", "wrong", f"cannot be imported: {error}", REINSTALL)
        return
    yield Finding("torch", "ok", f"{torch.__version__}, {torch.get_num_threads()} threads")
    if not torch.cuda.is_available():
        yield Finding("CUDA", "missing", "no CUDA device; engines for CPUs need none")
    else:
        count = torch.cuda.device_count()
        cards = [torch.cuda.get_device_properties(index) for index in range(count)]
        says = ", ".join(f"{card.name} (sm{card.major}{card.minor})" for card in cards)
        yield Finding("CUDA", "ok", f"{torch.version.cuda}: {says}")
    driver = Path("/sys/module/nvidia/version")
    if driver.is_file():
        yield Finding("Driver", "ok", f"NVIDIA {driver.read_text().strip()}")
    else:
        fix = "with an NVIDIA card: install the driver that your distribution offers"
        yield Finding("Driver", "missing", "no NVIDIA driver is loaded", fix)


def _check_backends() -> Iterator[Finding]:
    for name in list_choices("backends"):
        backend = load_choice("backends", name)
        needed = name in BASE_BACKENDS
        if reason := backend.find_missing():
            extra = f".venv/bin/pip install -c requirements.lock -e '.[{backend.EXTRA}]'"
            fix = REINSTALL if needed else extra
            yield Finding(TITLES[name], "wrong" if needed else "missing", reason, fix)
        else:
            yield Finding(TITLES[name], "ok", library_version(backend.LIBRARY))


def _check_timm() -> Finding:
    version = library_version("timm")
    if version == "none":
        fix = ".venv/bin/pip install -c requirements.lock -e '.[timm]'"
        return Finding("timm", "missing", "not installed; torchvision's models need none", fix)
    return Finding("timm", "ok", f"{version}, more architectures to name in train.model")


def _check_modelopt() -> Finding:
    version = library_version("nvidia-modelopt")
    if version == "none":
        fix = ".venv/bin/pip install -c requirements.lock -e '.[modelopt]'"
        return Finding("ModelOpt", "missing", "not installed; INT8 needs none", fix)
    return Finding("ModelOpt", "ok", f"{version}, for the candidates fp16 and bf16")


def _check_shared_memory() -> Finding:
    try:
        room = shutil.disk_usage("/dev/shm").total
    except FileNotFoundError:
        room = 0
    says = f"/dev/shm holds {room / 2**20:.0f} MiB"
    if room < LITTLE_SHARED:
        return Finding("Shared memory", "missing", says, "in a container: --shm-size=1g")
    return Finding("Shared memory", "ok", says)


def _check_room(project: Project) -> Finding:
    store = project.open_store().root
    free = shutil.disk_usage(store).free
    says = f"{free / 2**30:.1f} GiB free for {store}"
    if free < LITTLE_ROOM:
        fix = "free some, or set ENGINEHOUSE_STORE to a folder on a larger disk"
        return Finding("Disk", "wrong", says, fix)
    return Finding("Disk", "ok", says)


def _check_remote(project: Project) -> Finding:
    listed = subprocess.run(
        [*PYTHON, "dvc", "remote", "list"],
        cwd=project.root,
        capture_output=True,
        text=True,
        check=False,
    )
    own = "dvc remote add -d --force mine s3://bucket/folder (or a folder's path)"
    if listed.returncode != 0:
        says = (listed.stderr.strip().splitlines() or ["dvc cannot read its configuration"])[0]
        return Finding("DVC remote", "wrong", says, "git checkout .dvc/config")
    for line in listed.stdout.splitlines():
        if line.endswith("(default)"):
            name, url = line.removesuffix("(default)").strip().split(None, 1)
            if Path(url) == project.root / ".dvc" / SAMPLE_REMOTE:
                says = f"{name}: inside the repository, for the sample only"
                return Finding("DVC remote", "ok", says, f"for your own data: {own}")
            return Finding("DVC remote", "ok", f"{name}: {_hide_login(url)}")
    return Finding("DVC remote", "missing", "no default remote", own)


def _check_prefect(address: Address) -> Finding:
    if not address.url:
        return Finding("Prefect", "ok", "no server is set; each run brings its own")
    return _ask("Prefect", address, f"{address.url}/health", "PREFECT_API_URL")


def _check_mlflow(address: Address) -> Finding:
    if address.url.startswith(("http://", "https://")):
        return _ask("MLflow", address, f"{address.url}/health", "MLFLOW_TRACKING_URI")
    return Finding("MLflow", "ok", f"{_hide_login(address.url)} ({address.origin})")


def _ask(name: str, address: Address, url: str, variable: str) -> Finding:
    shown = f"{_hide_login(address.url)} ({address.origin})"
    try:
        urllib.request.urlopen(url, timeout=LINK).close()
    except urllib.error.HTTPError as error:  # it answers, if only to ask who we are
        return Finding(name, "ok", f"{shown} answers with {error.code}")
    except OSError as error:
        fix = f"bring it back, or set {variable} to another, or unset it"
        return Finding(name, "wrong", f"{shown} does not answer: {error}", fix)
    return Finding(name, "ok", f"{shown} answers")


def _hide_login(url: str) -> str:
    scheme, mark, rest = url.partition("://")
    return f"{scheme}{mark}{rest.rpartition('@')[2]}"
