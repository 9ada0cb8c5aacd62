"""A real MLflow server on loopback, with a database of its own, for tests over HTTP."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from flows.services import Service, bind
from tests.conftest import clean_environment


@contextlib.contextmanager
def serve_mlflow(folder: Path) -> Iterator[str]:
    """Its address, while it runs."""
    with bind(0) as listener:
        port = listener.getsockname()[1]
    command = [
        *(sys.executable, "-P", "-m", "mlflow", "server", "--host", "127.0.0.1"),
        *("--port", str(port), "--workers", "1", "--no-serve-artifacts"),
        *("--backend-store-uri", f"sqlite:///{folder / 'mlflow.db'}"),
        *("--default-artifact-root", (folder / "artifacts").as_uri()),
    ]
    environment = {**clean_environment(), "MLFLOW_DISABLE_TELEMETRY": "true"}
    url = f"http://127.0.0.1:{port}"
    service = Service.start("MLflow", command, folder / "log", environment, f"{url}/health")
    try:
        service.wait_healthy()
        yield url
    finally:
        service.stop()
