"""Data versions against real DVC: digests, states, fetching, refusals."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pytest

from enginehouse.errors import DataError
from enginehouse.project import Project
from tasks.data import ResolvedData, list_changes, resolve_data
from tests.dvc_repository import CONFIG, dvc, make_versioned, read_md5, run, write_data

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def versioned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository whose `data/` is versioned and pushed; copied by each test."""
    root = tmp_path_factory.mktemp("origin") / "repo"
    make_versioned(root)
    return root


@pytest.fixture
def project(versioned: Path, tmp_path: Path) -> Project:
    root = tmp_path / "repo"
    shutil.copytree(versioned, root, symlinks=True)
    return Project(root, tmp_path / "state")


def resolve(project: Project, path: str = "data/set/images") -> ResolvedData:
    return resolve_data(project, path, lambda line: None)


def lose_data(project: Project, *, cache: bool = True) -> None:
    shutil.rmtree(project.root / "data")
    if cache:
        shutil.rmtree(project.root / ".dvc/cache")


def test_a_clean_folder_has_the_digest_of_dvc(project: Project) -> None:
    whole, part = resolve(project, "data"), resolve(project)
    assert (whole.status, part.status) == ("clean", "clean")
    assert whole.digest == read_md5(project.root) != part.digest
    assert whole.dvc_file == "data.dvc"
    assert whole.hint == ""
    assert list(part.listing) == ["ok/ü [1], 2.jpg", "pit/a.jpg", "pit/b.jpg"]
    absolute = resolve(project, str(project.root / "data/set/images"))
    assert absolute == part


def test_the_state_is_found_without_dvc_s_listing_too(project: Project) -> None:
    shutil.rmtree(project.root / ".dvc/cache")
    assert resolve(project).status == "clean"
    (project.root / "data/set/boxes.csv").write_text("changed")
    assert resolve(project).status == "modified"  # nothing here can tell what changed


def test_another_data_set_beside_it_is_no_change(project: Project) -> None:
    before = resolve(project)
    (project.root / "data/other").mkdir()
    (project.root / "data/other/x.jpg").write_text("x")
    assert resolve(project) == before
    assert resolve(project, "data").status == "modified"


def test_a_changed_folder_has_the_digest_that_dvc_add_then_gives(project: Project) -> None:
    clean = resolve(project)
    images = project.root / "data/set/images"
    (images / "pit/a.jpg").write_text("another picture")
    (images / "ok/b.jpg").write_bytes((images / "pit/b.jpg").read_bytes())
    (images / "pit/b.jpg").unlink()
    (images / ".DS_Store").write_text("junk that .dvcignore names")
    (images / "__MACOSX").mkdir()
    (images / "__MACOSX/x.jpg").write_text("junk as well")
    dirty, whole = resolve(project), resolve(project, "data")
    assert dirty.status == whole.status == "modified"
    assert dirty.digest != clean.digest
    assert "1 changed (pit/a.jpg)" in dirty.hint
    assert "1 moved (pit/b.jpg -> ok/b.jpg)" in dirty.hint
    assert dirty.hint.endswith("dvc add data")
    assert dvc(project.root, "add", "data").returncode == 0
    assert whole.digest == read_md5(project.root)
    added = resolve(project)
    assert (added.digest, added.status) == (dirty.digest, "clean")


def test_the_memory_of_hashes_never_changes_a_result(project: Project) -> None:
    picture = project.root / "data/set/images/pit/a.jpg"
    times = (1e9, 1e9)
    os.utime(picture, times)
    time.sleep(2.2)  # only then are the files remembered
    before = resolve(project)
    memory = next((project.state / "hashes").glob("*.json"))
    assert before.listing["pit/a.jpg"] in memory.read_text()
    picture.write_bytes(picture.read_bytes()[::-1])  # of the same size
    os.utime(picture, times)  # and of the same time
    after = resolve(project)
    assert after.listing["pit/a.jpg"] != before.listing["pit/a.jpg"]
    memory.write_text("{broken")
    assert resolve(project) == after
    shutil.rmtree(project.state)
    assert resolve(project) == after


def test_a_missing_folder_is_fetched(project: Project) -> None:
    before = resolve(project)
    lose_data(project)
    lines: list[str] = []
    fetched = resolve_data(project, "data/set/images", lines.append)
    assert fetched == before
    assert lines == ["data: fetching data.dvc with dvc pull"]
    assert (project.root / "data/set/boxes.csv").exists()


def test_fetching_leaves_alone_what_lies_beside_it(project: Project) -> None:
    lose_data(project)
    (project.root / "data/mine").mkdir(parents=True)
    (project.root / "data/mine/x.jpg").write_text("x")
    assert resolve(project).status == "clean"
    assert (project.root / "data/mine/x.jpg").read_text() == "x"


def test_half_a_fetch_is_completed(project: Project) -> None:
    before = resolve(project)
    lose_data(project)
    object_path = next(
        (project.root / ".dvc/sample-remote/files/md5").rglob(before.listing["pit/a.jpg"][2:])
    )
    hidden = object_path.rename(project.root / "hidden")
    with pytest.raises(DataError):
        resolve(project)
    (project.root / "data/set/images/pit").mkdir(parents=True, exist_ok=True)  # as a killed one
    hidden.rename(object_path)
    assert resolve(project) == before


def test_a_missing_object_is_named(project: Project) -> None:
    md5 = resolve(project).listing["pit/a.jpg"]
    lose_data(project, cache=False)
    for base in (".dvc/cache/files/md5", ".dvc/sample-remote/files/md5"):
        (project.root / base / md5[:2] / md5[2:]).unlink()
    with pytest.raises(DataError) as caught:
        resolve(project)
    assert f"set/images/pit/a.jpg (object {md5})" in caught.value.message
    assert "dvc push" in caught.value.remedy


def test_a_corrupt_cache_object_is_named_not_handed_out(project: Project) -> None:
    md5 = resolve(project).listing["pit/b.jpg"]
    lose_data(project, cache=False)
    broken = project.root / ".dvc/cache/files/md5" / md5[:2] / md5[2:]
    broken.chmod(0o644)
    broken.write_bytes(broken.read_bytes()[:5])
    with pytest.raises(DataError) as caught:
        resolve(project)
    assert "pit/b.jpg is corrupt" in caught.value.message
    assert str(broken) in caught.value.remedy
    assert not (project.root / "data").exists()
    broken.unlink()  # what the remedy says
    assert resolve(project).status == "clean"


def test_a_remote_that_is_away_is_told_without_its_password(project: Project) -> None:
    config = CONFIG.replace("url = sample-remote", "url = https://me:secret@127.0.0.1:9/x")
    (project.root / ".dvc/config").write_text(config)
    lose_data(project)
    with pytest.raises(DataError) as caught:
        resolve(project)
    assert "secret" not in str(caught.value)
    assert "data.dvc" in caught.value.message


@pytest.mark.parametrize(
    "content", ["outs:\n- md5: ''\n  path: data\n", "<<<<<<< HEAD\nouts:\n=======\n", "[]", ""]
)
def test_a_broken_dvc_file_is_named(project: Project, content: str) -> None:
    (project.root / "data.dvc").write_text(content)
    with pytest.raises(DataError) as caught:
        resolve(project)
    assert "data.dvc" in caught.value.message
    assert "git checkout" in caught.value.remedy


def test_folders_without_a_version_say_how_to_get_one(project: Project, tmp_path: Path) -> None:
    inside, outside = project.root / "own pictures", tmp_path / "far"
    for folder in (inside, outside):
        write_data(folder)
    near, far = resolve(project, "own pictures/set"), resolve(project, "../far/set")
    assert (near.status, far.status) == ("unversioned", "unversioned")
    assert near.hint.endswith("dvc add 'own pictures/set'")
    assert far.hint.endswith(f"cp -r {outside}/set data/ && dvc add data")
    assert near.digest == far.digest
    assert near.dvc_file is None
    assert dvc(project.root, "add", "own pictures/set").returncode == 0
    assert read_md5(inside, "set.dvc") == near.digest
    assert resolve(project, "own pictures/set").status == "clean"


def test_bad_folders_end_in_one_clear_error(project: Project, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked/a.jpg").symlink_to("nowhere")
    for path, words in {
        "../nowhere": "no folder",
        "../empty": "no files",
        "../file": "is a file",
        "../linked": "a.jpg",
        "data/nowhere": "none in the version",
    }.items():
        with pytest.raises(DataError, match=words) as caught:
            resolve(project, path)
        assert caught.value.remedy


def test_linked_folders_are_named_and_not_followed(project: Project) -> None:
    (project.root / "data/set/images/pit/again").symlink_to("..")
    lines: list[str] = []
    assert resolve_data(project, "data/set/images", lines.append).status == "clean"
    assert lines == ["data: linked folder: pit/again"]


def test_list_changes_names_a_few_of_each_kind() -> None:
    before = {"a": "1", "b": "2", **{f"old{n}": f"o{n}" for n in range(5)}}
    after = {"a": "9", "c": "2", "d": "4"}
    assert list_changes(before, after) == (
        "1 changed (a); 1 moved (b -> c); 1 new (d); 5 gone (old0, old1, old2, ...)"
    )
    assert list_changes(before, before) == ""


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What git holds of DVC's files in this repository, and nothing else."""
    root = tmp_path_factory.mktemp("clone") / "repo"
    shutil.copytree(ROOT / ".dvc", root / ".dvc", ignore=shutil.ignore_patterns("cache", "tmp"))
    for name in ("data.dvc", ".dvcignore", ".gitattributes"):
        shutil.copy(ROOT / name, root / name)
    run(root, "git", "init", "-q")
    return root


def test_a_fresh_clone_pulls_the_sample(clone: Path) -> None:
    done = dvc(clone, "pull")
    assert done.returncode == 0, done.stderr
    resolved = resolve(Project(clone, clone / ".state"), "data/sample/images")
    assert resolved.status == "clean"
    assert len(resolved.listing) > 900
    assert dvc(clone, "push").returncode == 0  # nothing new, nothing to refuse


def test_the_embedded_remote_refuses_other_data(clone: Path) -> None:
    before = sorted((clone / ".dvc/sample-remote").rglob("*"))
    (clone / "data/mine").mkdir(parents=True, exist_ok=True)
    (clone / "data/mine/x.jpg").write_text("x")
    assert dvc(clone, "add", "data").returncode == 0
    pushed = dvc(clone, "push")
    assert pushed.returncode != 0
    assert "sample-remote/files" in pushed.stderr  # a file, which says what to do
    assert "dvc remote add -d" in (clone / ".dvc/sample-remote/files").read_text()
    assert sorted((clone / ".dvc/sample-remote").rglob("*")) == before
    own = clone.parent / "bucket"
    assert dvc(clone, "remote", "add", "-d", "mine", str(own)).returncode == 0
    assert dvc(clone, "push").returncode == 0
    listing = json.loads(next(own.rglob("*.dir")).read_text())
    assert "mine/x.jpg" in {row["relpath"] for row in listing}
