"""Checkpoints: whole or not there, damaged ones passed over by name, foreign ones refused."""

from __future__ import annotations

import contextlib
import hashlib
import pickle
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from enginehouse.artifact import Workspace, silent
from enginehouse.errors import TrainingError
from enginehouse.store import Store
from enginehouse.train.checkpoint import Checkpoints, Saver, read_first_whole, take_up
from enginehouse.train.ema import make_average
from enginehouse.train.network import WEIGHTS
from enginehouse.train.state import Progress, State, make_warn
from enginehouse.train.train import train
from tests.unit.tiny_pack import open_workspace, seal_pack, tiny_config

ORIGIN = {"pack": "a1", "config": {"learning_rate": 0.001, "model": {"name": "tiny_cnn"}}}


def make_state(decay: float = 0.9, width: int = 3) -> State:
    torch.manual_seed(0)
    net = torch.nn.Linear(4, width)
    return State(
        net=net,
        forward=net,
        optimizer=torch.optim.AdamW(net.parameters()),
        scaler=torch.amp.GradScaler("cpu"),
        ema=make_average(net, decay),
        progress=Progress(micro_batch=8),
    )


def save_some(folder: Path, *steps: int) -> list[Path]:
    """Checkpoints after these steps; their paths."""
    folder.mkdir(exist_ok=True)
    state, checkpoints = make_state(), Checkpoints(folder, ORIGIN)
    paths = []
    for step in steps:
        state.progress.steps = step
        paths.append(checkpoints.save(step, state.capture()))
    return paths


def load(folder: Path) -> tuple[int, list[str]]:
    """The step that is gone on from (0: none), and the warnings."""
    told: list[str] = []
    content = Checkpoints(folder, ORIGIN).load(told.append)
    return (content["progress"]["steps"] if content else 0), told


def name_rightly(path: Path, step: int) -> Path:
    """A file under the name that says its bytes are whole."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    return path.rename(path.with_name(f"step-{step:09}-{digest}.pt"))


@contextlib.contextmanager
def small_disk(size: int) -> Iterator[None]:
    """No file of this process gets larger than `size` bytes: writing on is an OSError."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_the_last_two_are_kept_and_the_newest_is_used(tmp_path: Path) -> None:
    paths = save_some(tmp_path, 9, 10, 100)
    assert sorted(tmp_path.iterdir()) == paths[1:]
    assert load(tmp_path) == (100, [])


def test_everything_comes_back(tmp_path: Path) -> None:
    state = make_state()
    state.net(torch.ones(2, 4)).sum().backward()
    state.optimizer.step()
    assert state.ema is not None
    state.ema.update_parameters(state.net)
    state.progress.warnings.append("what a person should know")
    Checkpoints(tmp_path, ORIGIN).save(1, state.capture())
    drawn = torch.rand(3)
    other = make_state()
    torch.manual_seed(9)
    assert take_up(other, Checkpoints(tmp_path, ORIGIN), lambda message: None)
    assert torch.equal(torch.rand(3), drawn)
    assert torch.equal(other.net.weight, state.net.weight)  # type: ignore[arg-type]
    assert other.ema is not None
    assert int(other.ema.n_averaged) == 1
    moments = other.optimizer.state_dict()["state"]
    assert torch.equal(moments[0]["exp_avg"], state.optimizer.state_dict()["state"][0]["exp_avg"])
    assert other.progress.warnings == ["what a person should know"]


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-200])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("spoil", [cut, flip, empty])
def test_a_damaged_one_is_named_and_the_one_before_is_used(tmp_path: Path, spoil: Any) -> None:
    first, second = save_some(tmp_path, 5, 6)
    spoil(second)
    step, told = load(tmp_path)
    assert step == 5
    assert len(told) == 1
    assert second.name in told[0]
    spoil(first)
    step, told = load(tmp_path)
    assert step == 0
    assert [each for each in told if first.name in each]
    assert "begins anew" in told[-1]


def test_damaged_ones_take_no_place_from_what_is_saved_after_them(tmp_path: Path) -> None:
    for path in save_some(tmp_path, 50, 60):
        cut(path)
    checkpoints = Checkpoints(tmp_path, ORIGIN)
    assert checkpoints.load(lambda message: None) is None
    saved = [checkpoints.save(step, make_state().capture()) for step in (1, 2)]
    assert sorted(tmp_path.iterdir()) == saved


def test_the_one_that_is_gone_on_from_stays_until_there_are_two_more(tmp_path: Path) -> None:
    good, damaged = save_some(tmp_path, 5, 60)
    cut(damaged)
    checkpoints = Checkpoints(tmp_path, ORIGIN)
    assert checkpoints.load(lambda message: None) is not None
    first = checkpoints.save(6, make_state().capture())
    assert sorted(tmp_path.iterdir()) == [good, first]


def test_the_warning_about_damage_outlives_what_is_taken_up(tmp_path: Path) -> None:
    _, second = save_some(tmp_path, 5, 6)
    cut(second)
    state = make_state()
    assert take_up(state, Checkpoints(tmp_path, ORIGIN), make_warn(state, silent))
    assert second.name in state.progress.warnings[0]
    assert state.progress.resumed == [5]


class Evil:
    def __reduce__(self) -> Any:
        return (Path.touch, (Path("touched-by-a-checkpoint"),))


def test_no_code_in_a_file_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "checkpoints"
    save_some(folder, 5)
    torch.save({"net": Evil()}, folder / "a.pt")
    (folder / "b.pt").write_bytes(pickle.dumps(Evil(), protocol=2))
    torch.save([1, 2], folder / "c.pt")
    for step, name in enumerate(["a.pt", "b.pt", "c.pt"], 6):
        name_rightly(folder / name, step)
    step, told = load(folder)
    assert (step, len(told)) == (5, 3)
    assert "not the parts of a training" in told[0]
    assert not (tmp_path / "touched-by-a-checkpoint").exists()


def test_one_of_another_training_is_refused_and_what_differs_is_named(tmp_path: Path) -> None:
    save_some(tmp_path, 5)
    other = {"pack": "b2", "config": {"learning_rate": 0.01, "model": {"name": "tiny_cnn"}}}
    with pytest.raises(TrainingError) as caught:
        Checkpoints(tmp_path, other).load(lambda message: None)
    told = caught.value.message
    assert "config.learning_rate 0.001 -> 0.01" in told
    assert "pack a1 -> b2" in told
    assert "tiny_cnn" not in told
    torch.save(make_state().capture(), tmp_path / "a.pt")
    name_rightly(tmp_path / "a.pt", 6)
    with pytest.raises(TrainingError, match="does not say of which"):
        Checkpoints(tmp_path, ORIGIN).load(lambda message: None)


def test_a_copied_checkpoint_does_not_enter_another_training(tmp_path: Path) -> None:
    pack = seal_pack(tmp_path)

    def run(learning_rate: float) -> None:
        here = open_workspace(tmp_path)
        copied = Workspace(here.store, here.scratch, resumable=tmp_path / "copied")
        config = tiny_config(epochs=1, checkpoint_minutes=0, learning_rate=learning_rate)
        train(pack, config, copied)

    run(0.001)
    with pytest.raises(TrainingError, match=r"config\.learning_rate 0\.001 -> 0\.01\."):
        run(0.01)


@pytest.mark.parametrize("part", ["net", "ema", "optimizer", "scaler", "random", "progress"])
def test_a_missing_part_is_named(part: str) -> None:
    saved = make_state().capture()
    del saved[part]
    with pytest.raises(TrainingError, match=f"has no {part};"):
        make_state().restore(saved)


def test_an_average_that_was_not_saved_is_missed(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="has no ema;"):
        make_state().restore(make_state(decay=0).capture())
    make_state(decay=0).restore(make_state().capture())  # one too much is no harm


def test_a_part_that_does_not_fit_is_named() -> None:
    with pytest.raises(TrainingError, match=r"checkpoint's net does not fit.*size mismatch"):
        make_state().restore(make_state(width=5).capture())
    saved = make_state().capture()
    saved["progress"]["mood"] = "good"
    with pytest.raises(TrainingError, match=r"checkpoint's progress does not fit.*mood"):
        make_state().restore(saved)


def test_a_full_disk_leaves_what_was_there_and_nothing_half(tmp_path: Path) -> None:
    (path,) = save_some(tmp_path, 5)
    told: list[str] = []
    saver = Saver(make_state(), Checkpoints(tmp_path, ORIGIN), 0, told.append)
    with small_disk(1000):
        assert not saver.save()
    assert list(tmp_path.iterdir()) == [path]
    assert "no checkpoint could be written" in told[0]
    assert str(tmp_path) in told[0]
    (tmp_path / f".{path.name}").write_bytes(b"half, of a process that was killed")
    assert saver.save()
    assert not list(tmp_path.glob(".*"))


def test_training_goes_on_without_room_for_checkpoints(tmp_path: Path) -> None:
    pack = seal_pack(tmp_path)
    config = tiny_config(epochs=1, checkpoint_minutes=0)
    usual = train(pack, config, open_workspace(tmp_path))
    with small_disk(2 * usual.files[WEIGHTS].size):  # a checkpoint is over three times as large
        model = train(pack, config, open_workspace(tmp_path))
    assert model.files == usual.files
    (told,) = list(model.notes["warnings"])  # type: ignore[arg-type]
    assert "no checkpoint could be written" in str(told)


def test_foreign_files_are_read_by_the_same_rules(tmp_path: Path) -> None:
    """As they lie in the collection of field cases: names that hold no digest."""
    torch.save({"epoch": 11, "model": {}}, tmp_path / "prev.pt")
    (tmp_path / "last.pt").write_bytes((tmp_path / "prev.pt").read_bytes()[:700])
    told: list[str] = []
    found = read_first_whole([tmp_path / "last.pt", tmp_path / "prev.pt"], told.append)
    assert found is not None
    assert found[1]["epoch"] == 11
    assert len(told) == 1
    assert "last.pt" in told[0]
    with pytest.raises(TrainingError, match="ema"):
        make_state().restore(found[1])


def test_a_store_gives_each_job_a_folder_that_outlives_it(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    with contextlib.suppress(RuntimeError), store.open_resumable("a/train", "k", {}) as folder:
        (folder / "kept.pt").touch()
        raise RuntimeError
    with store.open_resumable("a/train", "k", {}) as folder:
        assert (folder / "kept.pt").exists()
    with store.open_resumable("a/ingest", "k", {}) as folder:
        assert not (folder / "kept.pt").exists()
    assert not folder.exists(), "it kept nothing"
