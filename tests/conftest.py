"""Shared parts of the tests: a tiny data set, a copied checkout, runs in subprocesses."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock
from PIL import Image

from enginehouse.ingest.ingest import IngestConfig
from enginehouse.project import Project
from flows.cli import main
from flows.environment import PREFECT
from flows.services import bind, start_prefect_server
from flows.source import tell_source
from tests import warm
from tests.judge import Judged

# Two test processes share two cores; with more threads they would only wait for each other.
os.environ["OMP_NUM_THREADS"] = "1"

ROOT = Path(__file__).parents[1]
SHARED_DATA = ROOT.parent / "shared" / "data"
WALK = str(ROOT / "tests" / "walk.py")

RECIPES = """
deployments:
  - name: tiny
    entrypoint: flows.retrain.retrain
    parameters:
      recipe:
        name: tiny
        data: {path: data/tiny}
        ingest: {group_pattern: '(?:^|/)(p\\w\\d+)_'}
        validation: {min_rows: 20}
        prepare: {size: 32}
        train:
          model: {family: tiny, name: tiny_cnn}
          epochs: 3
          batch_size: 16
        quantize:
          num_pictures: 16
          candidates: [{quantizer: int8_ptq, options: {sensitivity_pictures: 0}}]
        export: {num_parity_pictures: 8, max_difference: 0.2, max_flips: 0.5}
        compare: {max_mean_difference: 0.2, max_flips: 0.5}
        evaluate: {good_class: good}
        measure: {rounds: 3}
        choose:  # neither the noise of three rounds nor that of a dozen pictures decides
          min_speedup: 0
          margin_escapes: 1
          margin_overkill: 1
          margin_errors: 1
          max_lost_defects: 1
          pictures_per_loss: 1
        gates: {min_macro_f1: 0.2, max_drop: 0.8, max_escape_rate: 1}
    work_pool: {name: cpu}
"""


def draw_pictures(folder: Path, per_class: int = 20) -> Path:
    """Three classes of 40 px pictures that a tiny net tells apart; two pictures per part."""
    rng = np.random.default_rng(3)
    rows, columns = np.mgrid[:40, :40]
    for label in ("good", "line", "spot"):
        (folder / label).mkdir(parents=True)
        for number in range(per_class):
            picture = rng.normal(120, 12, (40, 40, 3))
            x, y = rng.integers(10, 30, 2)
            if label == "line":
                picture[abs(columns - x) < 2] += 90
            if label == "spot":
                picture[(columns - x) ** 2 + (rows - y) ** 2 < 25] -= 90
            image = Image.fromarray(picture.clip(0, 255).astype(np.uint8))
            image.save(folder / label / f"p{label[0]}{number // 2:02}_{number}.png")
    return folder


@dataclass(frozen=True)
class Checkout:
    """A copy of the code with one tiny recipe, its own data, state and store.

    Attributes:
        environment: what its subprocesses get on top of a clean environment.
    """

    root: Path
    environment: dict[str, str]

    @property
    def state(self) -> Path:
        return Path(self.environment["ENGINEHOUSE_STATE"])

    @property
    def store(self) -> Path:
        return Path(self.environment.get("ENGINEHOUSE_STORE", self.state / "store"))

    @property
    def data(self) -> Path:
        return self.root / "data" / "tiny"

    def start(self, *command: str, cwd: Path | None = None) -> subprocess.Popen[str]:
        """Start `python ...` in the checkout's environment, its output to pipes."""
        return subprocess.Popen(
            [sys.executable, "-P", *command],
            cwd=cwd or self.root,
            env=clean_environment() | self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *command: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run `python ...` to its end, in a process that need not import slow libraries."""
        environment = clean_environment() | self.environment
        return warm.start().run(command, cwd or self.root, environment)

    def run_cold(self, *command: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run `python ...` to its end, in a process as a user's."""
        process = self.start(*command, cwd=cwd)
        out, err = process.communicate(timeout=300)
        return subprocess.CompletedProcess(command, process.returncode, out, err)

    def walk(self, cwd: Path | None = None) -> dict[str, int]:
        """Walk the road as plain calls; the stages that were executed, by place."""
        mark = self.mark()
        done = self.run(WALK, cwd=cwd)
        assert done.returncode == 0, done.stderr[-3000:]
        return self.executed(mark)

    def having(self, **environment: str) -> Checkout:
        """The same one, with more in the environment of its subprocesses."""
        return Checkout(self.root, {**self.environment, **environment})

    def move(self, root: Path) -> Checkout:
        """A copy, store and all, in another folder."""
        shutil.copytree(self.root, root, symlinks=True)
        old, new = str(self.root), str(root)
        return Checkout(root, {k: v.replace(old, new) for k, v in self.environment.items()})

    def enginehouse(self, *arguments: str, **options: Path) -> subprocess.CompletedProcess[str]:
        """Run the command line."""
        return self.run("-m", "flows.cli", *arguments, **options)

    def mark(self) -> int:
        """The journal's length now."""
        journal = self.store / "journal.jsonl"
        return len(journal.read_text().splitlines()) if journal.exists() else 0

    def executed(self, mark: int = 0) -> dict[str, int]:
        """Place to number of executions, counted from the journal since a mark."""
        lines = (self.store / "journal.jsonl").read_text().splitlines()[mark:]
        return dict(Counter(json.loads(line)["slot"].partition("/")[2] for line in lines))

    def reasons(self) -> dict[str, str]:
        """Place to the reason of the last run."""
        stages = json.loads((self.store / "memory" / "runs" / "tiny.json").read_text())
        return {stage["place"]: stage["reason"] for stage in stages}


def clean_environment() -> dict[str, str]:
    """This process's environment without addresses and settings of services."""
    prefixes = ("PREFECT_", "MLFLOW_", "ENGINEHOUSE_", "DVC_", "PYTHONPATH")
    return {k: v for k, v in os.environ.items() if not k.startswith(prefixes)}


@pytest.fixture(scope="session")
def tiny_pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return draw_pictures(tmp_path_factory.mktemp("pictures") / "tiny")


@pytest.fixture(scope="session")
def make_checkout(tiny_pictures: Path) -> Callable[[Path], Checkout]:
    """Copy the code into a folder, with the tiny recipe and the tiny pictures."""

    def make(root: Path) -> Checkout:
        skip = shutil.ignore_patterns("__pycache__")
        for name in ("src", "flows", "tasks"):
            shutil.copytree(ROOT / name, root / name, ignore=skip)
        shutil.copy(ROOT / "pyproject.toml", root)
        (root / "prefect.yaml").write_text(RECIPES)
        shutil.copytree(tiny_pictures, root / "data" / "tiny")
        return describe_checkout(root)

    return make


def describe_checkout(root: Path) -> Checkout:
    """The checkout that lies in a folder."""
    return Checkout(
        root,
        {
            "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}",
            "ENGINEHOUSE_STATE": str(root / ".enginehouse"),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
    )


@pytest.fixture(scope="session")
def walked(
    make_checkout: Callable[[Path], Checkout], tmp_path_factory: pytest.TempPathFactory
) -> Checkout:
    """A checkout whose road was walked once. Never change it: copy it with `checkout`."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:  # all test processes share one
        folder = folder.parent
    with FileLock(folder / "walked.lock"):
        root = folder / "walked/house"
        if root.exists():
            return describe_checkout(root)
        made = make_checkout(root)
        done = made.run_cold(WALK)
        assert done.returncode == 0, done.stderr[-3000:]
        assert set(made.executed().values()) == {1}
        return made


@pytest.fixture(scope="session")
def prefect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of Prefect's API, for runs whose subject it is not: each would start its own."""
    state = tmp_path_factory.mktemp("prefect")
    environment = {
        **clean_environment(),
        **PREFECT,
        "PREFECT_HOME": str(state / "prefect"),
        "PREFECT_SERVER_UI_ENABLED": "false",
        "PREFECT__SERVER_EPHEMERAL": "1",
    }
    service, url = start_prefect_server(Project(ROOT, state), bind(0), environment)
    try:
        service.wait_healthy()
        yield url
    finally:
        service.stop()


@pytest.fixture(scope="session")
def mlflow_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a real MLflow server on loopback, with a database of its own."""
    from tests.mlflow_server import serve_mlflow

    with serve_mlflow(tmp_path_factory.mktemp("mlflow")) as url:
        yield url


@pytest.fixture(scope="session")
def check_state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """State and store of all checks that run in this process: what one decoded, others need not."""
    return tmp_path_factory.mktemp("check_state")


@pytest.fixture
def in_check_state(check_state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that this process runs leave the checkout's own state alone."""
    monkeypatch.setenv("ENGINEHOUSE_STATE", str(check_state))
    monkeypatch.delenv("ENGINEHOUSE_STORE", raising=False)


@pytest.fixture
def judge(in_check_state: None, capsys: pytest.CaptureFixture[str]) -> Callable[..., Judged]:
    """Run `check --json` in this process."""

    def run(source: Path, *options: str) -> Judged:
        capsys.readouterr()
        code = main(["--project", str(ROOT), "check", str(source), "--json", *options])
        return Judged(code, json.loads(capsys.readouterr().out))

    return run


@pytest.fixture
def glance(check_state: Path) -> Callable[[Path], Judged]:
    """What `check` says before Great Expectations has its turn, which takes most of the time."""
    project = Project(ROOT, check_state)

    def run(source: Path) -> Judged:
        verdict, _ = tell_source(project, source, IngestConfig())
        return Judged(1 if verdict["errors"] else 0, verdict)

    return run


@pytest.fixture
def checkout(walked: Checkout, tmp_path: Path) -> Checkout:
    """A copy of the walked checkout, store and all, in another folder."""
    return walked.move(tmp_path / "house")
