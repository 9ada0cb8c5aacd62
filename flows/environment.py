"""Where Prefect and MLflow are, and what the libraries must find in os.environ beforehand.

Imports neither: it has to run before they are imported, for they read their settings then. A
variable that the user set always wins.
"""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Literal

from enginehouse.project import Project

Origin = Literal["environment", "make up", "local"]

# Records still reach Prefect's API; only its own words on a terminal are cut.
QUIET = {"PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL"}
MLFLOW = {
    "MLFLOW_LOGGING_LEVEL": "ERROR",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    # A server that is away is found in seconds, not in MLflow's four minutes.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
}
PREFECT = {
    "PREFECT_SERVER_EPHEMERAL_ENABLED": "false",  # its own would outlive a killed run
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
    "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
}


@dataclass(frozen=True)
class Address:
    """Where a service is, and who said so; no `url` means it has to be started first."""

    url: str
    origin: Origin


@dataclass(frozen=True)
class Services:
    """Where Prefect and MLflow are for this process."""

    prefect: Address
    mlflow: Address


@dataclass(frozen=True)
class Running:
    """What a living `make up` offers: its process, and its two addresses."""

    pid: int
    prefect: str
    mlflow: str


def prepare_environment(project: Project) -> Services:
    """Set what the user has not: addresses, telemetry off, quiet terminal, short patience.

    Call it before Prefect, MLflow, DVC or Great Expectations are imported.
    """
    project.state.mkdir(parents=True, exist_ok=True)
    running = find_running(project)
    services = Services(
        _find("PREFECT_API_URL", running.prefect if running else "", ""),
        _find("MLFLOW_TRACKING_URI", running.mlflow if running else "", local_mlflow(project)),
    )
    defaults = {
        **QUIET,
        **MLFLOW,
        **PREFECT,
        "PREFECT_HOME": str(project.state / "prefect"),
        "PREFECT_API_URL": services.prefect.url,
        "MLFLOW_TRACKING_URI": services.mlflow.url,
    }
    for name, value in defaults.items():
        if value and not os.environ.get(name):
            os.environ[name] = value
    _keep_loopback_direct()
    return services


def _keep_loopback_direct() -> None:
    """A proxy for the world is none for our own services."""
    kept = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    proxies = ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")
    if kept != "*" and "127.0.0.1" not in kept and any(map(os.environ.get, proxies)):
        both = ",".join(filter(None, [kept, "127.0.0.1", "localhost"]))
        os.environ["no_proxy"] = os.environ["NO_PROXY"] = both


def _find(variable: str, up: str, local: str) -> Address:
    url = os.environ.get(variable)
    if url and url not in (up, local):  # else it is what an earlier call has set
        return Address(url, "environment")
    return Address(up, "make up") if up else Address(local, "local")


def child_environment(**more: str) -> dict[str, str]:
    """What a service gets: this process's environment, but with all its words in its log."""
    kept = {name: value for name, value in os.environ.items() if name not in QUIET}
    return {**kept, "PYTHONUNBUFFERED": "1", **more}


def local_mlflow(project: Project) -> str:
    """The tracking URI of the local database, for when no server runs."""
    return f"sqlite:///{project.state / 'mlflow.db'}"


def artifact_root(project: Project) -> str:
    """Where a server of ours lets clients put artifacts: beside the database."""
    return (project.state / "mlartifacts").as_uri()


def find_running(project: Project) -> Running | None:
    """The `make up` of this project, if its process lives: it holds the lock until it dies."""
    try:
        with lock_path(project).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: askers never collide
        return None
    except FileNotFoundError:
        return None
    except BlockingIOError:
        pass
    try:
        return Running(**json.loads(_running_path(project).read_text(encoding="utf-8")))
    except FileNotFoundError:  # it is just starting or ending
        return None


def announce_running(project: Project, running: Running) -> None:
    """Tell other processes what runs here; only the holder of the lock may."""
    path = _running_path(project)
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(asdict(running)), encoding="utf-8")
    draft.replace(path)


def withdraw_running(project: Project) -> None:
    """Take back what was announced, also by one that was killed."""
    _running_path(project).unlink(missing_ok=True)


def open_lock(project: Project) -> IO[bytes]:
    """The file whose exclusive flock is held by the one `make up` of a project."""
    project.state.mkdir(parents=True, exist_ok=True)
    return lock_path(project).open("ab")


def lock_path(project: Project) -> Path:
    """Where that file lies."""
    return project.state / "up.lock"


def _running_path(project: Project) -> Path:
    return project.state / "up.json"
