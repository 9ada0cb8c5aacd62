"""Promotion against a real MLflow server over HTTP: the engines' aliases follow the wish."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from enginehouse.artifact import Workspace
from enginehouse.errors import RegistryError
from enginehouse.store import Store
from flows.reconcile import reconcile
from flows.road import plainly
from tasks._stage import RunContext
from tasks.registry import Registry
from tests.conftest import Checkout


@pytest.fixture(scope="module")
def served(
    walked: Checkout,
    mlflow_server: str,
    prefect_server: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Checkout:
    """Two releases in the server's registry: v1, then v2, which is champion."""
    moved = walked.move(tmp_path_factory.mktemp("served") / "house")
    checkout = moved.having(MLFLOW_TRACKING_URI=mlflow_server)
    running = checkout.having(PREFECT_API_URL=prefect_server)
    done = running.enginehouse("run", "--recipe", "tiny")
    assert done.returncode == 0, done.stdout + done.stderr
    recipes = checkout.root / "prefect.yaml"
    text = recipes.read_text().replace("max_drop: 0.8", "max_drop: 0.8, champion_margin: 1.0")
    recipes.write_text(text.replace("epochs: 3", "epochs: 2"))
    done = running.enginehouse("run", "--recipe", "tiny", "--profile")
    assert done.returncode == 0, done.stdout + done.stderr
    return checkout


@pytest.fixture
def registry(served: Checkout, mlflow_server: str, monkeypatch: pytest.MonkeyPatch) -> Registry:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", mlflow_server)
    import mlflow

    mlflow.set_tracking_uri(mlflow_server)
    return Registry(served.state)


def follow(served: Checkout, registry: Registry) -> str:
    """Reconcile once; the resulting word."""
    store = Store(served.store)
    with tempfile.TemporaryDirectory() as scratch:
        step = plainly(RunContext(store, "tiny", {}))
        return reconcile("tiny", registry, Workspace(store, Path(scratch)), step).word


def test_the_second_release_serves_and_the_first_is_kept(registry: Registry) -> None:
    assert registry.aliases("tiny")["champion"] == 2
    assert registry.aliases("tiny.openvino") == {"champion": 2, "previous": 1}


def test_a_version_names_the_run_of_its_training(registry: Registry) -> None:
    from mlflow.tracking import MlflowClient

    second, first = registry.versions("tiny")
    assert "training_run" not in first.tags  # it was trained before there was any MLflow
    run = MlflowClient().get_run(second.tags["training_run"])
    assert run.info.status == "FINISHED"
    assert run.data.tags["enginehouse.kind"] == "training"
    assert run.data.params["train.epochs"] == "2"
    assert "epoch/macro_f1" in run.data.metrics


def test_a_profile_is_written_where_training_runs_and_not_faked_else(served: Checkout) -> None:
    (table,) = served.state.glob("profiles/tiny/*/table.txt")
    assert "steps" in table.read_text()
    done = served.enginehouse("run", "--recipe", "tiny", "--profile")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "training is cached" in done.stdout
    assert "train.seed" in done.stdout
    assert list(served.state.glob("profiles/tiny/*")) == [table.parent]


def test_rollback_is_moving_the_alias_back(served: Checkout, registry: Registry) -> None:
    mark = served.mark()
    registry.set_alias("tiny", "champion", 1)
    assert follow(served, registry) == "champion"
    assert registry.aliases("tiny.openvino") == {"champion": 1, "previous": 2}
    assert served.executed(mark) == {}
    registry.set_alias("tiny", "champion", 2)
    assert follow(served, registry) == "champion"
    assert registry.aliases("tiny.openvino") == {"champion": 2, "previous": 1}


def test_following_twice_changes_nothing(served: Checkout, registry: Registry) -> None:
    before = registry.aliases("tiny.openvino")
    assert follow(served, registry) == "champion"
    assert registry.aliases("tiny.openvino") == before


def test_unchanged_run_keeps_an_alias_moved_by_hand(served: Checkout, registry: Registry) -> None:
    registry.set_alias("tiny", "champion", 1)
    follow(served, registry)
    done = served.enginehouse("run", "--recipe", "tiny")
    assert done.stdout.startswith("nothing changed")
    assert "champion v1" in done.stdout.splitlines()[0]
    assert registry.aliases("tiny.openvino")["champion"] == 1
    registry.set_alias("tiny", "champion", 2)
    follow(served, registry)


def test_a_release_that_comes_back_serves_again(
    served: Checkout, registry: Registry, prefect_server: str
) -> None:
    recipes, mark = served.root / "prefect.yaml", served.mark()
    running = served.having(PREFECT_API_URL=prefect_server)
    for old, new, champion in (("epochs: 2", "epochs: 3", 1), ("epochs: 3", "epochs: 2", 2)):
        recipes.write_text(recipes.read_text().replace(old, new))
        done = running.enginehouse("run", "--recipe", "tiny")
        assert done.returncode == 0, done.stdout + done.stderr
        assert registry.aliases("tiny.openvino")["champion"] == champion
    assert len(registry.versions("tiny")) == 2
    assert served.executed(mark) == {}


def test_the_later_wish_wins(served: Checkout, registry: Registry) -> None:
    """The wish changes after the first engine alias was written: reconcile starts over."""

    class Restless(Registry):
        moved = False

        def set_alias(self, name: str, alias: str, number: int) -> None:
            super().set_alias(name, alias, number)
            if not self.moved:
                self.moved = True
                super().set_alias("tiny", "champion", 2)

    registry.set_alias("tiny", "champion", 1)
    assert follow(served, Restless(served.state)) == "champion"
    assert registry.aliases("tiny.openvino")["champion"] == 2


@pytest.mark.parametrize("writes", range(1, 4))
def test_killed_between_any_two_writes_converges(
    served: Checkout, registry: Registry, writes: int
) -> None:
    class Killed(BaseException):
        pass

    class Dying(Registry):
        left = writes

        def set_alias(self, name: str, alias: str, number: int) -> None:
            if self.left == 0:
                raise Killed
            self.left -= 1
            super().set_alias(name, alias, number)

        def set_tags(self, version: object, **tags: str) -> None:
            if self.left == 0:
                raise Killed
            self.left -= 1
            super().set_tags(version, **tags)  # type: ignore[arg-type]

    registry.set_alias("tiny", "champion", 1)
    with pytest.raises(Killed):
        follow(served, Dying(served.state))
    assert follow(served, registry) == "champion"
    assert registry.aliases("tiny.openvino") == {"champion": 1, "previous": 2}
    registry.set_alias("tiny", "champion", 2)
    follow(served, registry)


def test_lost_engine_is_built_again(served: Checkout, registry: Registry) -> None:
    engine = registry.find_release("tiny.openvino", registry.versions("tiny")[0].tags["release"])
    assert engine is not None
    registry.set_tags(engine, verified="no")
    assert follow(served, registry) == "champion"
    again = registry.find_release("tiny.openvino", engine.tags["release"])
    assert again is not None
    assert (again.number, again.tags["verified"]) == (engine.number, "yes")


def test_nothing_wished_for(served: Checkout, registry: Registry) -> None:
    store = Store(served.store)
    step = plainly(RunContext(store, "other", {}))
    assert reconcile("other", registry, Workspace(store, served.root), step).word == "nothing"


def test_server_away_is_said(served: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    import mlflow

    mlflow.set_tracking_uri("http://127.0.0.1:9")
    with pytest.raises(RegistryError, match=r"127\.0\.0\.1:9"):
        Registry(served.state)
