"""Which version is the one before, also when data comes back and when bytes are gone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from enginehouse.artifact import Record
from enginehouse.errors import ValidationFailed
from enginehouse.ingest.record import Manifest
from enginehouse.project import Project
from enginehouse.recipe import Recipe
from enginehouse.store import Store
from enginehouse.validate.record import Validated
from flows.accepted import Accepted
from flows.inspection import Inspection
from flows.road import walk
from tasks.data import ResolvedData


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def make_manifest(store: Store, name: str) -> Manifest:
    path = store.root / name
    path.write_text(name)
    return Manifest(
        **{"files": {"manifest.parquet": store.seal(path)}, "format": "class_folders"},
        **{"classes": ("cat",), "labels": ("cat",), "label_ids": {}, "good": ""},
        **{"num_rows": 1, "num_boxes": 0, "num_quarantined": 0, "num_errors": 0},
    )


def test_data_that_comes_back_has_the_same_version_before_it(store: Store) -> None:
    accepted = Accepted(store, "tiny")
    a, b, c = (make_manifest(store, name) for name in "abc")
    assert accepted.find_previous(a) is None
    accepted.add(a)
    assert accepted.find_previous(a) is None
    assert accepted.find_previous(b) == a
    accepted.add(b)
    assert accepted.find_previous(b) == a
    accepted.add(a)  # taken back
    assert accepted.find_previous(a) is None
    assert accepted.find_previous(b) == a
    assert accepted.find_previous(c) == b
    assert Accepted(store, "other").find_previous(c) is None


def test_a_version_whose_bytes_are_gone_is_passed_over(store: Store) -> None:
    accepted = Accepted(store, "tiny")
    a, b, c = (make_manifest(store, name) for name in "abc")
    accepted.add(a)
    accepted.add(b)
    store.blob_path(b.files["manifest.parquet"]).unlink()
    assert accepted.find_previous(c) == a
    store.blob_path(a.files["manifest.parquet"]).unlink()
    assert accepted.find_previous(c) is None


def test_a_record_of_other_code_is_passed_over(store: Store) -> None:
    accepted = Accepted(store, "tiny")
    a, b = (make_manifest(store, name) for name in "ab")
    accepted.add(a)
    store.remember("accepted/tiny", [*store.recall("accepted/tiny"), '{"kind": "manifest"}'])
    assert accepted.find_previous(b) == a


@dataclass(frozen=True)
class FirstLook(Inspection):
    """Ends the walk where the data was judged."""

    def conclude(self, manifest: Manifest, validated: Validated) -> None:
        raise ValidationFailed("this is far enough")


def test_the_road_judges_data_against_the_version_before(store: Store) -> None:
    a, b = (make_manifest(store, name) for name in "ab")
    recipe = Recipe.model_validate({"name": "tiny", "data": {"path": "data"}})
    project = Project(store.root, store.root / "state")
    resolved = ResolvedData(
        **{"folder": store.root, "digest": "0" * 32, "status": "unversioned", "listing": {}},
        **{"dvc_file": None, "hint": ""},
    )
    inspection = FirstLook(project, "tiny", resolved, store)
    judged: list[dict[str, Any]] = []

    def walk_until_judged(manifest: Manifest) -> None:
        def step(task: Any, place: str, config: Any, **inputs: Any) -> Record:
            if place == "ingest":
                return manifest
            judged.append(inputs)
            return Validated(manifest=manifest.identity, num_expectations=1, failures=())

        with pytest.raises(ValidationFailed, match="far enough"):
            walk(recipe, resolved.version, step, inspection)

    walk_until_judged(a)
    Accepted(store, "tiny").add(a)
    walk_until_judged(b)
    assert judged == [{"manifest": a}, {"manifest": b, "previous": a}]
