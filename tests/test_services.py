"""Servers that end with who started them, and where a process finds Prefect and MLflow."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest

from enginehouse.errors import EnginehouseError
from enginehouse.project import Project
from flows import TELEMETRY_OFF
from flows.environment import Address, find_running, local_mlflow, prepare_environment
from flows.services import GUARD, Service
from tests.conftest import ROOT, clean_environment

RUN = """
import logging, sys
from enginehouse.project import find_project
from flows.environment import prepare_environment
from flows.services import temporary_prefect_server

project = find_project()
prepare_environment(project)
with temporary_prefect_server(project) as server:
    from prefect import flow, task

    @task
    def double(number):
        logging.getLogger("enginehouse.progress").info("doubling %d", number)
        return 2 * number

    @flow
    def doubled():
        return [double.submit(number).result() for number in range(3)]

    server.wait()
    print(doubled(), flush=True)
    sys.stdin.readline()
"""


def start_run(state: Path) -> subprocess.Popen[str]:
    """A process that runs a flow on a server of its own, then waits for a line of input."""
    return subprocess.Popen(
        [sys.executable, "-c", RUN],
        cwd=ROOT,
        env={**clean_environment(), "ENGINEHOUSE_STATE": str(state)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def list_processes(mark: str) -> list[str]:
    """Command lines of living processes with a word in their command or environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            text = (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
            alive = b") Z " not in (folder / "stat").read_bytes()
        except OSError:
            continue
        if alive and mark.encode() in text and int(folder.name) != os.getpid():
            found.append((folder / "cmdline").read_text().replace("\0", " "))
    return found


def wait_until_gone(mark: str, seconds: float = 5) -> list[str]:
    """What is left of the processes with a mark after some seconds at most."""
    deadline = time.monotonic() + seconds
    while (left := list_processes(mark)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


@pytest.fixture(scope="module")
def two_first_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The state that two runs left which both found none and started at once."""
    state = tmp_path_factory.mktemp("first") / "state"
    runs = [start_run(state), start_run(state)]
    for run in runs:
        out, err = run.communicate("\n", timeout=180)
        assert (run.returncode, out, err) == (0, "[0, 2, 4]\n", "")
    return state


def test_two_first_runs_at_once_share_one_database(two_first_runs: Path) -> None:
    with sqlite3.connect(two_first_runs / "prefect" / "prefect.db") as database:
        flows = database.execute("select state_name from flow_run").fetchall()
        tasks = database.execute("select state_name from task_run").fetchall()
        logs = database.execute("select count(*) from log where message like 'doubling%'")
        assert flows == [("Completed",)] * 2
        assert tasks == [("Completed",)] * 6
        assert logs.fetchone() == (6,)
    assert wait_until_gone(str(two_first_runs)) == []


def test_the_server_dies_with_a_killed_run(two_first_runs: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    shutil.copytree(two_first_runs, state)
    run = start_run(state)
    assert run.stdout is not None
    assert run.stdout.readline() == "[0, 2, 4]\n"
    assert any("flows.prefect_server" in line for line in list_processes(str(state)))
    run.kill()
    run.communicate()
    assert wait_until_gone(str(state)) == []


def test_a_run_that_is_killed_while_the_server_starts_leaves_nothing(tmp_path: Path) -> None:
    run = start_run(tmp_path / "state")
    while not any("prefect_server" in line for line in list_processes(str(tmp_path))):
        time.sleep(0.05)
    run.kill()
    run.communicate()
    assert wait_until_gone(str(tmp_path)) == []


FAMILY = "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {inner!r}], " + (
    "start_new_session=True); print('ready', flush=True); time.sleep(100)"
)
CHILD = "import time; time.sleep(100)  # {mark}"


@contextmanager
def guarded(mark: str, parent: int) -> Iterator[subprocess.Popen[str]]:
    """A guard around a command that has a child in another session."""
    command = [sys.executable, "-c", FAMILY.format(inner=CHILD.format(mark=mark))]
    with subprocess.Popen(
        [sys.executable, "-I", "-S", str(GUARD), str(parent), *command],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as guard:
        yield guard


def test_a_guard_that_is_asked_ends_the_whole_family(tmp_path: Path) -> None:
    with guarded(str(tmp_path), os.getpid()) as guard:
        assert guard.stdout is not None
        assert guard.stdout.readline() == "ready\n"
        guard.terminate()
    assert guard.returncode == 128 + signal.SIGTERM
    assert list_processes(str(tmp_path)) == []


def test_a_guard_whose_parent_is_gone_ends_the_whole_family(tmp_path: Path) -> None:
    stranger = subprocess.Popen(["true"])
    stranger.wait()
    with guarded(str(tmp_path), stranger.pid):  # as if that one had started it
        pass
    assert list_processes(str(tmp_path)) == []


def test_a_command_dies_with_a_killed_guard(tmp_path: Path) -> None:
    log = tmp_path / "log"
    service = Service.start("It", ["sh", "-c", f"sleep 100; : {tmp_path}"], log, os.environ)
    while len(list_processes(str(tmp_path))) < 2:
        time.sleep(0.02)
    service.kill()
    assert wait_until_gone(f": {tmp_path}") == []


def test_a_service_that_ends_says_how(tmp_path: Path) -> None:
    service = Service.start(
        *("It", ["sh", "-c", "echo out of luck; exit 7"], tmp_path / "log", os.environ),
        health="http://127.0.0.1:9/health",
    )
    with pytest.raises(EnginehouseError, match=r"(?s)It ended with exit code 7.*out of luck"):
        service.wait_healthy()


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """A project with an empty state, in a process environment that is restored afterwards."""
    with mock.patch.dict(os.environ, clean_environment(), clear=True):
        yield Project(ROOT, tmp_path / "state")


def test_without_any_server_everything_is_local(project: Project) -> None:
    for _ in range(2):  # a second call must not take the first one's values for the user's
        services = prepare_environment(project)
        assert services.prefect == Address("", "local")
        assert services.mlflow == Address(local_mlflow(project), "local")
    assert os.environ["PREFECT_HOME"] == str(project.state / "prefect")
    assert "PREFECT_API_URL" not in os.environ


def test_what_the_user_set_wins(project: Project) -> None:
    os.environ |= {"PREFECT_API_URL": "http://here/api", "MLFLOW_HTTP_REQUEST_TIMEOUT": "300"}
    services = prepare_environment(project)
    assert services.prefect == Address("http://here/api", "environment")
    assert os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"] == "300"


def test_a_proxy_is_not_asked_for_loopback(project: Project) -> None:
    os.environ |= {"HTTPS_PROXY": "http://proxy:1", "HTTP_PROXY": "http://proxy:1"}
    os.environ["NO_PROXY"] = "intranet"
    prepare_environment(project)
    assert os.environ["no_proxy"] == os.environ["NO_PROXY"] == "intranet,127.0.0.1,localhost"


def test_what_a_killed_up_left_is_not_believed(project: Project) -> None:
    project.state.mkdir()
    left = {"pid": os.getpid(), "prefect": "http://gone/api", "mlflow": "http://gone"}
    (project.state / "up.json").write_text(json.dumps(left))
    (project.state / "up.lock").touch()
    assert find_running(project) is None


def read_environment_after_import(**given: str) -> dict[str, str]:
    """os.environ of a fresh process that imports `flows`."""
    environment = {k: v for k, v in clean_environment().items() if k not in TELEMETRY_OFF}
    done = subprocess.run(
        [sys.executable, "-c", "import json, os, flows; print(json.dumps(dict(os.environ)))"],
        env={**environment, **given},
        check=True,
        capture_output=True,
        text=True,
    )
    found: dict[str, str] = json.loads(done.stdout)
    return found


def test_importing_flows_switches_telemetry_off() -> None:
    assert TELEMETRY_OFF.items() <= read_environment_after_import().items()


def test_importing_flows_keeps_what_the_user_set() -> None:
    found = read_environment_after_import(MLFLOW_DISABLE_TELEMETRY="mine")
    assert found["MLFLOW_DISABLE_TELEMETRY"] == "mine"


def test_openvino_is_imported_without_its_telemetry() -> None:
    code = "import sys, flows, openvino; print(sys.modules['openvino_telemetry'], openvino.Core)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.startswith("None ")
