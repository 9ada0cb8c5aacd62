"""`data add` on real DVC: what is refused, what is merged, and what a rerun completes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from enginehouse.errors import DataError
from enginehouse.project import Project
from flows.data_add import Added, Judgement, add_data, render_added
from tests.conftest import Checkout, draw_pictures
from tests.dvc_repository import dvc, make_versioned, mount_small_disk, read_md5, run

RECIPES = """
deployments:
  - name: set
    entrypoint: flows.retrain.retrain
    parameters:
      recipe: {name: set, data: {path: data/set/images}}
    work_pool: {name: cpu}
"""


@dataclass
class FakeCheck:
    """Refuses folders that hold a certain file, and remembers what it was asked.

    Attributes:
        refused: end of the path of what is an error.
        unused: ends of paths of what is left out if a file of each is there.
    """

    refused: str = "nothing"
    unused: tuple[str, ...] = ("nothing",)
    asked: list[tuple[str, str, set[str]]] = field(default_factory=list)

    def __call__(self, folder: Path, recipe: str) -> Judgement:
        files = {f.relative_to(folder).as_posix() for f in folder.rglob("*") if f.is_file()}
        self.asked.append((folder.name, recipe, files))
        wrong = [path for path in sorted(files) if path.endswith(self.refused)]
        unused = [path for path in sorted(files) if path.endswith(self.unused)]
        left_out = unused if len(unused) >= len(self.unused) else []
        return Judgement(
            [f"{path}: it leaks" for path in wrong], dict.fromkeys(left_out, "label conflict")
        )


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository whose `data/` is versioned, and pushed to a remote of its own."""
    root = tmp_path_factory.mktemp("origin") / "repo"
    make_versioned(root)
    (root / "prefect.yaml").write_text(RECIPES)
    (root / ".dvc/config.local").write_text(
        "[core]\n    remote = mine\n['remote \"mine\"']\n    url = ../../bucket\n"
    )
    return root


@pytest.fixture
def project(origin: Path, tmp_path: Path) -> Project:
    shutil.copytree(origin, tmp_path / "repo", symlinks=True)
    return Project(tmp_path / "repo", tmp_path / "state")


@pytest.fixture
def new(tmp_path: Path) -> Path:
    folder = tmp_path / "new"
    for name in ("pit/d.jpg", "rust/e.jpg", "rust/.DS_Store"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(f"the new {name}".encode())
    return folder


def add(
    project: Project,
    new: Path,
    check: FakeCheck | None = None,
    *,
    replace: bool = False,
    into: str = "set/images",
) -> Added:
    check = check or FakeCheck()
    return add_data(project, new, into, "", check, lambda line: None, replace=replace)


def snapshot(project: Project) -> dict[str, bytes]:
    files = [*(project.root / "data").rglob("*"), project.root / "data.dvc"]
    left = project.root / ".dvc/tmp/data-add"
    assert not left.exists()
    return {str(file): file.read_bytes() for file in files if file.is_file()}


def test_new_files_become_a_version_that_is_pushed(project: Project, new: Path) -> None:
    old = project.root / "data/set/images"
    (new / "pit/a.jpg").write_bytes((old / "pit/a.jpg").read_bytes())
    (new / "pit/twin.jpg").write_bytes((old / "pit/b.jpg").read_bytes())
    check = FakeCheck()
    before = read_md5(project.root)
    added = add(project, new, check)
    assert [asked[:2] for asked in check.asked] == [("new", "set"), ("images", "set")]
    assert {"pit/a.jpg", "pit/b.jpg", "pit/d.jpg", "rust/e.jpg"} <= check.asked[1][2]
    assert (added.before, added.after) == (before, read_md5(project.root))
    assert added.merge.added == ("pit/d.jpg", "rust/e.jpg")
    text = render_added(project, added)
    assert "data/set/images: 2 files added, 1 there already" in text
    assert "1 repeats left out: pit/twin.jpg is pit/b.jpg" in text
    assert f"{before[:12]} -> {added.after[:12]} (data.dvc)" in text
    assert "git add data.dvc && git commit" in text
    pushed = next((project.root.parent / "bucket").rglob(f"{added.after[2:]}.dir"))
    assert "set/images/rust/e.jpg" in {row["relpath"] for row in json.loads(pushed.read_text())}
    assert "up to date" in dvc(project.root, "status").stdout
    again = add(project, new)
    assert (again.before, again.merge.added, again.unpushed) == (added.after, (), "")


@pytest.mark.parametrize(("refused", "words"), [("e.jpg", "new"), ("b.jpg", "data/set/images")])
def test_what_check_rejects_is_not_added(
    project: Project, new: Path, refused: str, words: str
) -> None:
    before = snapshot(project)
    with pytest.raises(DataError, match=rf"{words}.* is rejected:\n.*{refused}: it leaks"):
        add(project, new, FakeCheck(refused))
    assert snapshot(project) == before


def test_a_new_file_that_contradicts_an_old_one_is_refused(project: Project, new: Path) -> None:
    before = snapshot(project)
    with pytest.raises(DataError, match=r"rejected:\n  - pit/d\.jpg: label conflict with what is"):
        add(project, new, FakeCheck(unused=("pit/a.jpg", "pit/d.jpg")))
    assert snapshot(project) == before
    added = add(project, new, FakeCheck(unused=("pit/d.jpg",)))  # broken by itself
    assert "1 added, but no run will use them: pit/d.jpg" in render_added(project, added)


def test_nothing_is_overwritten_unasked(project: Project, new: Path) -> None:
    (new / "pit/a.jpg").write_bytes(b"another picture")
    before = snapshot(project)
    with pytest.raises(DataError, match=r"1 files are in the way .*pit/a\.jpg is there") as caught:
        add(project, new)
    assert "--replace" in caught.value.remedy
    assert snapshot(project) == before
    assert add(project, new, replace=True).merge.replaced == ("pit/a.jpg",)
    assert (project.root / "data/set/images/pit/a.jpg").read_bytes() == b"another picture"


def test_data_changed_without_dvc_add_is_refused(project: Project, new: Path) -> None:
    picture = project.root / "data/set/images/pit/a.jpg"
    picture.write_bytes(b"changed by hand")
    (project.root / "data/set/boxes.csv").unlink()
    with pytest.raises(DataError, match=r"set/images/pit/a\.jpg; gone: set/boxes\.csv") as caught:
        add(project, new)
    assert "dvc add data" in caught.value.remedy


def test_a_killed_add_is_completed(project: Project, new: Path) -> None:
    (project.root / "data/set/images/rust").mkdir()  # it was killed while it moved files in
    shutil.copy(new / "rust/e.jpg", project.root / "data/set/images/rust/e.jpg")
    (project.root / ".dvc/tmp/data-add/new/rust").mkdir(parents=True)
    added = add(project, new)
    assert (added.merge.added, added.merge.same) == (("pit/d.jpg",), ("rust/e.jpg",))
    assert added.after == read_md5(project.root) != added.before


def test_without_a_remote_of_one_s_own_the_version_is_local_and_says_so(
    project: Project, new: Path
) -> None:
    shutil.rmtree(project.root / "data")  # as on a fresh clone: the old version is fetched first
    (project.root / ".dvc/config.local").unlink()
    added = add(project, new)
    assert added.after == read_md5(project.root) != added.before
    assert "dvc remote add" in added.unpushed
    assert "on this machine only" in render_added(project, added)
    assert (project.root / "data/set/boxes.csv").exists()


def test_a_full_disk_leaves_everything_as_it_was(origin: Path, new: Path, tmp_path: Path) -> None:
    (new / "pit/large.jpg").write_bytes(bytes(400_000))
    with mount_small_disk(tmp_path / "small", "400k") as small:
        shutil.copytree(origin, small / "repo", symlinks=True)
        project = Project(small / "repo", tmp_path / "state")
        before = snapshot(project)
        with pytest.raises(DataError, match=rf"No room left .* {small}/repo has 0 MiB free"):
            add(project, new)
        assert snapshot(project) == before


def test_folders_that_cannot_be_added(project: Project, new: Path, tmp_path: Path) -> None:
    for folder, into, words in (
        (tmp_path / "nowhere", "", "no folder"),
        (new, "../out", "no folder below data/"),
        (new, "/abs", "no folder below data/"),
        (project.root / "data/set", "set", "lie in one another"),
        (project.root, "set", "lie in one another"),
    ):
        with pytest.raises(DataError, match=words):
            add(project, folder, into=into)


def test_the_command_checks_for_real(
    make_checkout: Callable[[Path], Checkout], tmp_path: Path
) -> None:
    checkout = make_checkout(tmp_path / "house")
    for command in (("git", "init", "-q"), ("mkdir", ".dvc"), ("touch", ".dvc/config")):
        assert run(checkout.root, *command).returncode == 0
    fresh = draw_pictures(tmp_path / "fresh", per_class=22)
    for label in ("good", "line", "spot"):
        for number in range(20):
            next((fresh / label).glob(f"*_{number}.png")).unlink()
    done = checkout.enginehouse("data", "add", str(fresh), "--into", "tiny")
    assert done.returncode == 1, done.stderr  # no remote to push to
    assert "data/tiny: 6 files added" in done.stdout
    assert "data version none -> " in done.stdout
    assert "git add data.dvc .gitignore" in done.stdout
    old = next((checkout.data / "good").glob("*_0.png"))
    shutil.copy(old, fresh / "spot/pg99_0.png")
    refused = checkout.enginehouse("data", "add", str(fresh), "--into", "tiny")
    assert refused.returncode == 1
    assert "data/tiny with the new files in it is rejected" in refused.stderr
    assert not (checkout.data / "spot/pg99_0.png").exists()
