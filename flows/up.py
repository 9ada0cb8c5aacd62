"""`make up`: Prefect, MLflow and workers on this machine, until Ctrl-C."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType

from enginehouse.errors import EnginehouseError
from enginehouse.project import Project
from flows.deploy import deploy
from flows.environment import (
    QUIET,
    Running,
    Services,
    announce_running,
    find_running,
    open_lock,
    prepare_environment,
    withdraw_running,
)
from flows.recipes import list_recipes
from flows.services import HOST, PYTHON, Service, bind, log_path, start_prefect_server

LOCK_PATIENCE = 1.0  # seconds; others hold the lock for an instant to see whether we live
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def up(project: Project, prefect_port: int, mlflow_port: int) -> int:
    """Serve until told to end; returns the exit code.

    A service whose address the environment names is used where it is, not started.

    Raises:
        EnginehouseError: it runs already, or a service did not start or ended by itself.
    """
    with only_one(project), ending_signals(), ExitStack() as stack:
        services = prepare_environment(project)
        print("Starting (the first time takes half a minute) ...", flush=True)
        torch = start_looking_for_gpu()
        try:
            started = start_servers(project, services, prefect_port, mlflow_port, stack)
            announce_running(project, started)
            deployments = deploy(project)
            for pool in ["cpu", "gpu"] if torch.wait() == 0 else ["cpu"]:
                stack.enter_context(running(start_worker(project, pool)))
            print(describe(project, started, services, deployments), flush=True)
            watch(stack)
        except KeyboardInterrupt:
            print("Ending ...", flush=True)
    return 0
