"""`make up`: Prefect, MLflow and workers on this machine, until Ctrl-C.

All listen on loopback only. Every child runs under a guard, so none is left over, also when this
process is killed.
"""

from __future__ import annotations

import fcntl
import os
import platform
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from enginehouse.errors import EnginehouseError
from enginehouse.project import Project
from flows.deploy import create_pools, deploy, end_orphans
from flows.environment import (
    Running,
    Services,
    announce_running,
    artifact_root,
    child_environment,
    find_running,
    local_mlflow,
    open_lock,
    prepare_environment,
    withdraw_running,
)
from flows.recipes import FLOW_NAME
from flows.services import HOST, PYTHON, Service, bind, log_path, start_prefect_server

LOCK_PATIENCE = 1.0  # seconds; who asks whether we live holds the lock for an instant
WORKER_LIMIT = 2  # flow runs at once: a promotion need not wait for a training
NEXT_PORTS = 20
# The V2 form shows unions as fields, where the V1 form shows raw JSON.
FORM = "{ui}/v2/deployments/deployment/{id}/run"


def up(project: Project, prefect_port: int, mlflow_port: int) -> int:
    """Serve until told to end; returns the exit code.

    A service whose address the environment names is used where it is, and not started.

    Raises:
        EnginehouseError: it runs already; or a service did not start, or ended by itself.
    """
    crew: list[Service] = []
    with _only_one(project), _signals_as_interrupts():
        try:
            print("Starting; the first time takes half a minute.", flush=True)
            _start(project, crew, prefect_port, mlflow_port)
            while True:
                for service in crew:
                    if service.ended():
                        raise service.failure()
                time.sleep(0.3)
        except KeyboardInterrupt:
            print("Ending ...", flush=True)
        finally:
            withdraw_running(project)
            for service in reversed(crew):  # workers first: they report to the server
                service.stop()
    return 0


def _start(project: Project, crew: list[Service], prefect_port: int, mlflow_port: int) -> None:
    services = prepare_environment(project)
    own_prefect = services.prefect.origin == "local"
    if own_prefect:
        listener = _bind_near(prefect_port, "Prefect")
        server, os.environ["PREFECT_API_URL"] = start_prefect_server(
            project, listener, child_environment()
        )
        crew.append(server)
    if services.mlflow.origin == "local":
        with _bind_near(mlflow_port, "MLflow") as listener:
            port = listener.getsockname()[1]
        os.environ["MLFLOW_TRACKING_URI"] = f"http://{HOST}:{port}"
        crew.append(_start_mlflow(project, port))
    for service in crew:
        service.wait_healthy()
    if own_prefect:
        end_orphans()
    create_pools()
    pools = ("cpu", "gpu") if _has_gpu() else ("cpu",)
    crew += [_start_worker(project, pool) for pool in pools]
    deployments = deploy(project)
    prefect, mlflow = os.environ["PREFECT_API_URL"], os.environ["MLFLOW_TRACKING_URI"]
    announce_running(project, Running(os.getpid(), prefect, mlflow))
    print(_describe(project, services, deployments, pools), flush=True)


def _start_mlflow(project: Project, port: int) -> Service:
    command = [*PYTHON, "mlflow", "server", "--host", HOST, "--port", str(port), "--workers", "1"]
    stores = [
        *("--backend-store-uri", local_mlflow(project)),
        # Clients write artifacts as plain files, where a run without a server puts them too.
        *("--default-artifact-root", artifact_root(project), "--no-serve-artifacts"),
    ]
    environment = child_environment(MLFLOW_SERVER_ENABLE_JOB_EXECUTION="false")
    del environment["MLFLOW_TRACKING_URI"]
    return Service.start(
        "The MLflow server",
        [*command, *stores],
        log_path(project, "mlflow-server"),
        environment,
        f"http://{HOST}:{port}/health",
    )


def _start_worker(project: Project, pool: str) -> Service:
    name = f"{platform.node()}-{pool}"
    command = [*PYTHON, "prefect", "--no-prompt", "worker", "start", "--pool", pool]
    options = ["--type", "process", "--name", name, "--limit", str(WORKER_LIMIT)]
    return Service.start(
        f"The worker of pool {pool}",
        [*command, *options],
        log_path(project, f"worker-{pool}"),
        child_environment(PREFECT_WORKER_QUERY_SECONDS="2"),
        folder=project.root,
    )


def _has_gpu() -> bool:
    if not any(Path(device).exists() for device in ("/dev/nvidiactl", "/dev/dxg")):
        return False  # spares importing torch
    check = "import sys, torch; sys.exit(not torch.cuda.is_available())"
    return subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


def _bind_near(port: int, name: str) -> socket.socket:
    for candidate in (port, *range(port + 1, port + NEXT_PORTS), 0):
        try:
            listener = bind(candidate)
        except OSError:
            continue
        if candidate != port:
            taken = listener.getsockname()[1]
            print(f"Port {port} is taken; {name} listens on {taken} instead.", flush=True)
        return listener
    raise EnginehouseError(
        f"No port for {name}: {port} to {port + NEXT_PORTS - 1} and all others are taken.",
        f"Free one, or name one with --{name.lower()}-port.",
    )


def _describe(
    project: Project, services: Services, deployments: dict[str, str], pools: Sequence[str]
) -> str:
    from prefect.settings import get_current_settings

    given = {
        name: "" if address.origin == "local" else f"  ({address.origin})"
        for name, address in (("prefect", services.prefect), ("mlflow", services.mlflow))
    }
    ui = get_current_settings().ui_url or os.environ["PREFECT_API_URL"].removesuffix("/api")
    form = "{ui}/deployments/deployment/{id}" if given["prefect"] else FORM
    lines = [
        "Enginehouse is up.",
        f"  Prefect  {ui}  runs, schedules, logs{given['prefect']}",
        f"  MLflow   {os.environ['MLFLOW_TRACKING_URI']}  models, engines{given['mlflow']}",
        f"  Workers  of pool {' and '.join(pools)}; logs in {project.state / 'logs'}",
        "  Forms to retrain by hand:",
    ]
    for name, id_ in deployments.items():
        flow, _, recipe = name.partition("/")
        if flow == FLOW_NAME:
            lines.append(f"    {recipe:8} {form.format(ui=ui, id=id_)}")
    return "\n".join([*lines, "Ctrl-C ends all."])


@contextmanager
def _only_one(project: Project) -> Iterator[None]:
    with open_lock(project) as lock:
        deadline = time.monotonic() + LOCK_PATIENCE
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise _runs_already(project) from None
                time.sleep(0.05)
        withdraw_running(project)  # what a killed one left
        yield


def _runs_already(project: Project) -> EnginehouseError:
    running = find_running(project)
    where = (
        f"as process {running.pid}, Prefect at {running.prefect}, MLflow at {running.mlflow}"
        if running
        else "and is just starting"
    )
    return EnginehouseError(
        f"`make up` runs on this project already, {where}.",
        "Use that one, or end it with Ctrl-C in its terminal first.",
    )


@contextmanager
def _signals_as_interrupts() -> Iterator[None]:
    """Let SIGTERM and a closed terminal end us as Ctrl-C does."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {n: signal.signal(n, interrupt) for n in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
