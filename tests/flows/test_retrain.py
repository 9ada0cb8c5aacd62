"""The whole road through the command line, on real parts, without any server running."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.conftest import WALK, Checkout
from tests.test_services import list_processes

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient


def ask_mlflow(checkout: Checkout) -> MlflowClient:
    """A client of the registry that a checkout's runs write to."""
    from mlflow.tracking import MlflowClient

    local = f"sqlite:///{checkout.state / 'mlflow.db'}"
    uri = checkout.environment.get("MLFLOW_TRACKING_URI", local)
    return MlflowClient(tracking_uri=uri, registry_uri=uri)


def read_registry(checkout: Checkout) -> Any:
    """Every registered model with its aliases and the tags of its versions."""
    client = ask_mlflow(checkout)
    return {
        model.name: {
            "aliases": {alias: int(number) for alias, number in model.aliases.items()},
            "versions": {
                str(version.version): dict(version.tags)
                for version in client.search_model_versions(f"name='{model.name}'")
            },
        }
        for model in client.search_registered_models()
    }


def list_data_reports(checkout: Checkout) -> list[set[str]]:
    """What lies beside each data report in MLflow."""
    client = ask_mlflow(checkout)
    experiments = [each.experiment_id for each in client.search_experiments()]
    runs = client.search_runs(experiments, "tags.`enginehouse.kind` = 'data'")
    return [
        {each.path for each in client.list_artifacts(run.info.run_id, "data_report")}
        for run in runs
    ]


def find_artifacts(server: str, key: str) -> list[str]:
    """What the pages of a Prefect server's flow runs show under a key."""
    body = json.dumps({"artifacts": {"key": {"any_": [key]}}}).encode()
    request = urllib.request.Request(
        f"{server}/artifacts/filter", body, {"Content-Type": "application/json"}
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=60) as answer:
        return [str(each["data"]) for each in json.load(answer)]


def read_artifacts(checkout: Checkout) -> dict[str, str]:
    """The artifacts that flow runs left in Prefect: key to what the page shows."""
    (database,) = checkout.state.rglob("prefect.db")
    with contextlib.closing(sqlite3.connect(database)) as connection:
        rows = connection.execute("SELECT key, data FROM artifact WHERE key IS NOT NULL")
        return dict(rows.fetchall())


@pytest.fixture(scope="module")
def first_run(
    walked: Checkout, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Checkout, subprocess.CompletedProcess[str]]:
    """A checkout whose recipe went through the command line; its stages were cached already."""
    made = walked.move(tmp_path_factory.mktemp("released") / "house")
    return made, made.run_cold("-m", "flows.cli", "run", "--recipe", "tiny")


@pytest.fixture
def released(
    first_run: tuple[Checkout, subprocess.CompletedProcess[str]], tmp_path: Path
) -> Checkout:
    """A copy of the released checkout, registry and all."""
    original, _ = first_run
    return original.move(tmp_path / "released")


@pytest.fixture
def running(released: Checkout, prefect_server: str) -> Checkout:
    """The same one, whose runs need not start Prefect's server."""
    return released.having(PREFECT_API_URL=prefect_server)


def test_output_is_short_and_clean(
    first_run: tuple[Checkout, subprocess.CompletedProcess[str]],
) -> None:
    _, done = first_run
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) <= 40
    for word in ("Warning", "WARN", "Traceback", "locked"):
        assert word not in done.stdout
    for word in ("data", "quality", "latency", "registered", "report", "predict", "make up"):
        assert word in done.stdout


def test_registry_holds_model_and_engine(
    first_run: tuple[Checkout, subprocess.CompletedProcess[str]],
) -> None:
    checkout, _ = first_run
    registry = read_registry(checkout)
    assert set(registry) == {"tiny", "tiny.openvino"}
    assert registry["tiny"]["aliases"] == {"champion": 1, "candidate": 1}
    assert registry["tiny.openvino"]["aliases"] == {"champion": 1}
    tags = registry["tiny"]["versions"]["1"]
    for name in (
        "recipe",
        "recipe_digest",
        "data_digest",
        "data_status",
        "git_commit",
        "git_dirty",
    ):
        assert tags[f"enginehouse.{name}"]
    engine = registry["tiny.openvino"]["versions"]["1"]
    assert engine["enginehouse.verified"] == "yes"
    assert engine["enginehouse.release"] == tags["enginehouse.release"]
    assert json.loads(engine["enginehouse.scorecard"])["kind"] == "scorecard"
    point = json.loads(engine["enginehouse.operating_point"])
    assert point["good"] == "good"
    (beside,) = checkout.state.glob("mlartifacts/**/operating_point.json")
    assert json.loads(beside.read_text()) == point


def test_data_report_is_linked_in_prefect_and_kept_in_mlflow(
    first_run: tuple[Checkout, subprocess.CompletedProcess[str]],
) -> None:
    checkout, _ = first_run
    (page,) = checkout.state.glob("reports/tiny/data-*/data.html")
    artifacts = read_artifacts(checkout)
    assert page.as_uri() in artifacts["data-report"]
    assert "Data accepted" in artifacts["data"]
    (files,) = list_data_reports(checkout)
    assert {"data_report/data.html", "data_report/data_docs"} <= files
    (beside,) = checkout.state.glob("reports/tiny/*/report.html")
    assert (beside.parent / "data.html").read_text() == page.read_text()


def test_second_run_says_nothing_changed(released: Checkout) -> None:
    before, mark = read_registry(released), released.mark()
    done = released.enginehouse("run", "--recipe", "tiny")
    assert done.returncode == 0, done.stderr
    count = len(json.loads((released.store / "memory/runs/tiny.json").read_text()))
    assert done.stdout.startswith(f"nothing changed, {count}/{count} cached, champion v1")
    assert released.executed(mark) == {}
    assert read_registry(released) == before


def test_emptied_registry_is_filled_without_rebuilding(
    released: Checkout, running: Checkout
) -> None:
    (released.state / "mlflow.db").unlink()
    shutil.rmtree(released.state / "mlartifacts")
    mark = released.mark()
    done = running.enginehouse("run", "--recipe", "tiny")
    assert done.returncode == 0, done.stderr
    assert released.executed(mark) == {}
    assert read_registry(released)["tiny.openvino"]["aliases"] == {"champion": 1}


def test_another_prefect_home_shares_the_store(
    released: Checkout, make_checkout: Callable[[Path], Checkout], tmp_path: Path
) -> None:
    other = make_checkout(tmp_path / "other")
    other.environment["ENGINEHOUSE_STORE"] = str(released.store)
    mark = other.mark()
    done = other.enginehouse("run", "--recipe", "tiny")
    assert done.returncode == 0, done.stderr
    assert other.executed(mark) == {}
    assert (other.state / "prefect").is_dir()


def test_two_runs_at_once_make_one_version(checkout: Checkout, prefect_server: str) -> None:
    """Nothing is left to compute (see test_cache.py), so both want to register at once."""
    mark, twice = checkout.mark(), checkout.having(PREFECT_API_URL=prefect_server)
    runs = [twice.start("-m", "flows.cli", "run", "--recipe", "tiny") for _ in range(2)]
    for run in runs:
        out, err = run.communicate(timeout=400)
        assert run.returncode == 0, out + err
    assert checkout.executed(mark) == {}
    registry = read_registry(checkout)
    assert registry["tiny.openvino"]["aliases"]["champion"] in (1, 2)
    releases = [v["enginehouse.release"] for v in registry["tiny"]["versions"].values()]
    assert len(releases) == len(set(releases)) == 1


def test_kill_inside_a_stage_then_rerun(released: Checkout, running: Checkout) -> None:
    shutil.rmtree(released.store / "index" / "train")
    mark = released.mark()
    run = released.start("-m", "flows.cli", "run", "--recipe", "tiny")
    while "train" not in released.executed(mark):
        assert run.poll() is None
    os.kill(run.pid, signal.SIGKILL)  # the process alone, as the kernel's memory killer would
    run.communicate()
    done = running.enginehouse("run", "--recipe", "tiny")
    assert done.returncode == 0, done.stdout + done.stderr
    assert released.executed(mark) == {"train": 2}
    assert list_processes(f"ENGINEHOUSE_STATE={released.state}") == []


def test_registry_away_keeps_everything(released: Checkout, running: Checkout) -> None:
    (released.root / "prefect.yaml").write_text(
        (released.root / "prefect.yaml").read_text().replace("epochs: 3", "epochs: 2")
    )
    away = running.having(MLFLOW_TRACKING_URI="http://127.0.0.1:9")
    done = away.enginehouse("run", "--recipe", "tiny")
    assert done.returncode == 1
    assert "127.0.0.1:9" in done.stderr
    assert "enginehouse run" in done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    mark = released.mark()
    again = running.enginehouse("run", "--recipe", "tiny")
    assert again.returncode in (0, 4), again.stderr
    assert released.executed(mark) == {}
    assert set(read_registry(released)["tiny"]["versions"]) == {"1", "2"}


def test_required_engine_of_another_device_waits(released: Checkout, running: Checkout) -> None:
    recipes = released.root / "prefect.yaml"
    target = "        targets: [{name: trt, backend: tensorrt, device: gpu}, {name: openvino}]\n"
    recipes.write_text(recipes.read_text().replace("        gates:", f"{target}        gates:"))
    done = running.enginehouse("run", "--recipe", "tiny")
    assert done.returncode == 3, done.stdout + done.stderr
    assert "trt" in done.stdout
    assert "promote/gpu" in done.stdout
    registry = read_registry(released)
    assert "tiny.trt" not in registry
    assert registry["tiny.openvino"]["aliases"] == {"champion": 1}  # one release moves as one


def test_gate_rejects(released: Checkout, running: Checkout) -> None:
    recipes = released.root / "prefect.yaml"
    text = recipes.read_text().replace("min_macro_f1: 0.2", "min_macro_f1: 1.0")
    recipes.write_text(text.replace("epochs: 3", "epochs: 1"))
    before = read_registry(released)
    done = running.enginehouse("run", "--recipe", "tiny")
    assert done.returncode == 4, done.stdout + done.stderr
    assert "quality floor" in done.stdout
    after = read_registry(released)
    assert after["tiny.openvino"]["aliases"] == before["tiny.openvino"]["aliases"]
    assert after["tiny"]["aliases"] == before["tiny"]["aliases"]
    assert after["tiny"]["versions"]["2"]["enginehouse.verdict"] == "rejected"


def test_predict_and_explain(released: Checkout) -> None:
    pictures = [str(sorted(released.data.glob(f"{label}/*"))[0]) for label in ("good", "spot")]
    done = released.enginehouse("predict", "--recipe", "tiny", "--json", *pictures)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    for row in rows:
        assert sum(row["probabilities"].values()) == pytest.approx(1, abs=1e-3)
        assert row["alarm"] == pytest.approx(1 - row["probabilities"]["good"], abs=1e-3)
        assert row["verdict"] in ("good", "recheck", "reject")
    bad = released.enginehouse("predict", "--recipe", "tiny", str(released.root / "prefect.yaml"))
    assert bad.returncode == 1
    assert "not an image" in bad.stdout
    explained = released.enginehouse("explain", "--recipe", "tiny")
    assert "train" in explained.stdout
    assert "cached" in explained.stdout


def test_registered_model_loads_without_the_checkout(released: Checkout, tmp_path: Path) -> None:
    script = """
import sys, mlflow, numpy as np
for name in ("models:/tiny@champion", "models:/tiny.openvino@champion"):
    model = mlflow.pyfunc.load_model(name)
    arrays = model.predict(np.zeros((5, 3, 32, 32), np.uint8))
    pictures = model.predict(np.zeros((2, 50, 70, 3), np.uint8))
    assert arrays.shape == (5, 3) and pictures.shape == (2, 3), (arrays.shape, pictures.shape)
    assert abs(arrays.sum(axis=1) - 1).max() < 1e-3
    assert "enginehouse" in sys.modules
    print(sys.modules["enginehouse"].__file__)
"""
    environment = {"MLFLOW_TRACKING_URI": f"sqlite:///{released.state / 'mlflow.db'}"}
    alone = Checkout(tmp_path, environment)
    # -S -P: neither site-packages' editable finder nor the working directory lend the code
    import site

    environment["PYTHONPATH"] = os.pathsep.join(site.getsitepackages())
    done = alone.run_cold("-S", "-c", script)
    assert done.returncode == 0, done.stderr[-2000:]
    assert str(Path(sys.prefix)) not in done.stdout
    assert str(Path(__file__).parents[2] / "src") not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--data", "no/such/folder"], "no/such/folder"),
        (["--data", "{empty}"], "empty"),
        (["--recipe", "tinny"], "did you mean 'tiny'"),
    ],
)
def test_wrong_input_is_one_clear_error(
    checkout: Checkout, tmp_path: Path, arguments: list[str], expected: str
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    words = [word.format(empty=empty) for word in arguments]
    recipe = [] if "--recipe" in words else ["--recipe", "tiny"]
    mark = checkout.mark()
    done = checkout.enginehouse("run", *recipe, *words)
    assert done.returncode == 1
    assert expected in done.stderr
    assert done.stderr.startswith("Error: ")
    assert "Traceback" not in done.stderr
    assert checkout.executed(mark) == {}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("name: tiny_cnn", "name: tiny_cn", "did you mean 'tiny_cnn'"),
        ("epochs: 3", "epoch: 3", "did you mean 'epochs'"),
        ("size: 32", "size: 33", "prepare.size"),
    ],
)
def test_wrong_recipe_is_one_clear_error(
    checkout: Checkout, old: str, new: str, expected: str
) -> None:
    recipes = checkout.root / "prefect.yaml"
    recipes.write_text(recipes.read_text().replace(old, new))
    mark = checkout.mark()
    done = checkout.enginehouse("run", "--recipe", "tiny")
    assert done.returncode == 1
    assert expected in done.stderr
    assert "Traceback" not in done.stderr
    assert checkout.executed(mark) == {}


def _one_class(data: Path) -> None:
    shutil.rmtree(data / "line")
    shutil.rmtree(data / "spot")


def _one_picture_in_a_class(data: Path) -> None:
    for path in sorted(data.glob("spot/*"))[1:]:
        path.unlink()


def _nothing_readable(data: Path) -> None:
    for path in data.glob("*/*"):
        path.write_bytes(b"no picture")


def _pictures_under_two_labels(data: Path) -> None:
    for path in sorted(data.glob("line/*"))[:3]:
        shutil.copy(path, data / "spot" / f"twin_{path.name}")


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (_one_class, "too few classes"),
        (_one_picture_in_a_class, "spot has 1"),
        (_nothing_readable, "not an image"),
        (_pictures_under_two_labels, "too large a share of unusable files"),
    ],
)
def test_unusable_data_stops_the_run(
    checkout: Checkout, spoil: Callable[[Path], None], expected: str
) -> None:
    spoil(checkout.data)
    mark = checkout.mark()
    done = checkout.run(WALK)
    assert done.returncode == 1
    assert expected in done.stderr
    assert set(checkout.executed(mark)) <= {"ingest", "validate"}


def test_unusable_data_through_the_command_line(checkout: Checkout, prefect_server: str) -> None:
    _one_picture_in_a_class(checkout.data)
    running = checkout.having(PREFECT_API_URL=prefect_server)
    done = running.enginehouse("run", "--recipe", "tiny")
    assert done.returncode == 1
    assert "spot has 1" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert len(done.stderr.splitlines()) < 10
    page = done.stderr.split("Data report: file://")[1].strip()
    assert "spot has 1" in Path(page).read_text()
    assert any(page in link for link in find_artifacts(prefect_server, "data-report"))
    assert any("spot has 1" in text for text in find_artifacts(prefect_server, "data"))
    (files,) = list_data_reports(checkout)
    assert "data_report/data.html" in files
