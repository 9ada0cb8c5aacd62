"""`make up` for real: servers and a worker in subprocesses, asked over HTTP."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Checkout
from tests.test_services import list_processes, wait_until_gone

FAR = "2999-01-01T00:00:00Z"  # so that no worker starts what is created here
READY = "Ctrl-C ends all."
CHROMIUM = shutil.which("chromium")


def ask(url: str, body: dict[str, Any] | None = None) -> Any:
    """The JSON (or text) that a GET, or a POST with a body, gives."""
    data = json.dumps(body).encode() if body is not None else None
    headers = {"Content-Type": "application/json", "Accept": "text/html, */*"}
    request = urllib.request.Request(url, data, headers)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for _ in range(20):
        try:
            with opener.open(request, timeout=30) as answer:
                text = answer.read().decode()
            return json.loads(text) if text.startswith(("{", "[")) else text
        except urllib.error.HTTPError as error:
            if error.code != 503:  # Prefect's word for a database that is busy just now
                raise
            time.sleep(0.3)
    raise AssertionError(f"{url} stays busy")


def find_port() -> int:
    """A port that is free now."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port


def start_up(checkout: Checkout, prefect_port: int) -> subprocess.Popen[str]:
    """Start `enginehouse up`."""
    ports = ["--prefect-port", str(prefect_port), "--mlflow-port", str(find_port())]
    return checkout.start("-m", "flows.cli", "up", *ports)


def read_until_ready(up: subprocess.Popen[str]) -> str:
    """What it prints until it says that all is up."""
    assert up.stdout is not None
    lines = []
    for line in up.stdout:
        lines.append(line)
        if READY in line:
            return "".join(lines)
    raise AssertionError("".join(lines) + (up.stderr.read() if up.stderr else ""))


@pytest.fixture(scope="module")
def house(
    make_checkout: Callable[[Path], Checkout], tmp_path_factory: pytest.TempPathFactory
) -> Checkout:
    return make_checkout(tmp_path_factory.mktemp("up") / "house")


@pytest.fixture(scope="module")
def running(house: Checkout) -> Iterator[tuple[subprocess.Popen[str], str, dict[str, str]]]:
    """A living `up` whose wanted Prefect port was taken: its process, its words, its addresses."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        up = start_up(house, port)
        words = read_until_ready(up)
    assert f"Port {port} is taken; Prefect listens on" in words
    yield up, words, json.loads((house.state / "up.json").read_text())
    up.kill()
    up.communicate()


def test_both_servers_answer(running: tuple[Any, str, dict[str, str]]) -> None:
    _, words, at = running
    assert ask(f"{at['prefect']}/health") is not None
    assert ask(f"{at['mlflow']}/health") == "OK"
    assert at["prefect"].removesuffix("/api") in words
    assert at["mlflow"] in words
    for address in (at["prefect"], at["mlflow"]):
        assert address.startswith("http://127.0.0.1:")


def test_the_form_has_a_page(running: tuple[Any, str, dict[str, str]]) -> None:
    _, words, _ = running
    form = next(word for word in words.split() if "/v2/deployments/" in word)
    assert "<html" in ask(form)


def test_deployments_and_pools_are_there(running: tuple[Any, str, dict[str, str]]) -> None:
    api = running[2]["prefect"]
    deployment = ask(f"{api}/deployments/name/retrain/tiny")
    assert deployment["entrypoint"] == "flows.retrain.retrain"
    assert deployment["parameters"]["recipe"]["name"] == "tiny"
    limits = {
        pool["name"]: pool["concurrency_limit"] for pool in ask(f"{api}/work_pools/filter", {})
    }
    assert limits == {"cpu": None, "gpu": 1}
    deadline = time.monotonic() + 30
    while ask(f"{api}/work_pools/cpu")["status"] != "READY":  # its worker has reported
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_a_run_can_be_asked_for_over_rest(running: tuple[Any, str, dict[str, str]]) -> None:
    api = running[2]["prefect"]
    create = (
        f"{api}/deployments/{ask(f'{api}/deployments/name/retrain/tiny')['id']}/create_flow_run"
    )
    later = {"type": "SCHEDULED", "state_details": {"scheduled_time": FAR}}
    run = ask(create, {"state": later, "idempotency_key": "a delivery"})
    assert run["parameters"]["recipe"]["name"] == "tiny"
    assert ask(create, {"state": later, "idempotency_key": "a delivery"})["id"] == run["id"]
    recipe = run["parameters"]["recipe"]
    with pytest.raises(urllib.error.HTTPError):
        ask(
            create, {"state": later, "parameters": {"recipe": {**recipe, "prepare": {"size": "x"}}}}
        )


def wait_for_run(api: str, run: str) -> dict[str, Any]:
    """A flow run once it is over."""
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        found: dict[str, Any] = ask(f"{api}/flow_runs/{run}")
        if found["state_type"] in ("COMPLETED", "FAILED", "CRASHED", "CANCELLED"):
            return found
        time.sleep(0.5)
    raise AssertionError(f"flow run {run} is still {found['state_type']}")


def press_run(words: str) -> None:
    """Open the deployment's form in a browser and send it as it stands."""
    from playwright.sync_api import sync_playwright

    form = next(word for word in words.split() if "/v2/deployments/" in word)
    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        page = browser.new_page()
        page.goto(form)
        page.get_by_role("button", name="Submit").click()
        page.wait_for_url("**tab=Runs**", timeout=60_000)
        browser.close()


def test_form_as_it_stands_goes_all_the_way(
    house: Checkout, running: tuple[subprocess.Popen[str], str, dict[str, str]]
) -> None:
    """From the form (REST where there is no browser) to a champion that MLflow serves."""
    api, mlflow = running[2]["prefect"], running[2]["mlflow"]
    deployment = ask(f"{api}/deployments/name/retrain/tiny")["id"]
    if CHROMIUM:
        press_run(running[1])
        body = {"deployments": {"id": {"any_": [deployment]}}, "sort": "START_TIME_DESC"}
        runs = ask(f"{api}/flow_runs/filter", body)
        run = next(
            run
            for run in runs
            if "scheduled_time" not in run["state"]["state_details"]
            or run["expected_start_time"] < FAR
        )
    else:
        run = ask(f"{api}/deployments/{deployment}/create_flow_run", {})
    done = wait_for_run(api, run["id"])
    assert done["state_type"] == "COMPLETED", done["state"]["message"]
    assert done["state_name"] == "Champion"
    model = ask(f"{mlflow}/api/2.0/mlflow/registered-models/get?name=tiny.openvino")
    assert model["registered_model"]["aliases"] == [{"alias": "champion", "version": "1"}]
    keys = {artifact["key"] for artifact in ask(f"{api}/artifacts/filter", {})}
    assert {"summary", "gates", "stages"} <= keys


def test_artifacts_are_plain_files(
    house: Checkout, running: tuple[Any, str, dict[str, str]]
) -> None:
    mlflow = f"{running[2]['mlflow']}/api/2.0/mlflow/experiments"
    made = ask(f"{mlflow}/create", {"name": "an experiment"})["experiment_id"]
    place = ask(f"{mlflow}/get?experiment_id={made}")["experiment"]["artifact_location"]
    assert place == f"{(house.state / 'mlartifacts').as_uri()}/{made}"


def test_a_second_up_is_refused(house: Checkout, running: tuple[Any, str, dict[str, str]]) -> None:
    done = house.enginehouse("up")
    assert done.returncode == 1
    assert f"runs on this project already, as process {running[0].pid}" in done.stderr
    assert "Traceback" not in done.stderr


def test_doctor_finds_it(house: Checkout, running: tuple[Any, str, dict[str, str]]) -> None:
    words = house.enginehouse("doctor").stdout
    assert f"{running[2]['prefect']} (make up) answers" in words
    assert f"{running[2]['mlflow']} (make up) answers" in words


def test_ctrl_c_ends_all(house: Checkout, running: tuple[Any, str, dict[str, str]]) -> None:
    up = running[0]
    up.send_signal(signal.SIGINT)
    out, err = up.communicate(timeout=60)
    assert (up.returncode, out, err) == (0, "Ending ...\n", "")
    assert list_processes(f"ENGINEHOUSE_STATE={house.state}") == []
    assert not (house.state / "up.json").exists()


def find_process(house: Checkout, word: str) -> int:
    """The process of the house with a word in its command, once there is one."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                command = (folder / "cmdline").read_bytes().split(b"\0")
                environment = (folder / "environ").read_bytes()
            except OSError:
                continue
            mine = f"ENGINEHOUSE_STATE={house.state}\0".encode() in environment
            if mine and word.encode() in command and not command[3].endswith(b"guard.py"):
                return int(folder.name)
        time.sleep(0.05)
    raise AssertionError(f"no process with {word}")


def test_a_dead_service_ends_all_with_its_last_words(house: Checkout) -> None:
    up = start_up(house, find_port())
    os.kill(find_process(house, "flows.prefect_server"), signal.SIGKILL)
    _, err = up.communicate(timeout=60)
    assert up.returncode == 1
    assert err.startswith("Error: The Prefect server ended with exit code 137.")
    assert list_processes(f"ENGINEHOUSE_STATE={house.state}") == []


def test_nothing_outlives_a_killed_up(house: Checkout) -> None:
    up = start_up(house, find_port())
    find_process(house, "mlflow.server.fastapi_app:app")  # a grandchild
    up.kill()
    up.communicate()
    assert wait_until_gone(f"ENGINEHOUSE_STATE={house.state}") == []
