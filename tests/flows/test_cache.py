"""What runs again, and what does not: executions counted from the journal, in subprocesses."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

from tests.conftest import WALK, Checkout

CANDIDATE = {"quantize", "export", "build.openvino", "compare.openvino"}  # places of each
INT8 = {f"{place}.int8_ptq" for place in CANDIDATE} | {"evaluate.openvino.int8_ptq.val"}
INT8 |= {"measure.openvino", "choose.openvino", "evaluate.openvino"}
FP32 = {f"{place}.none" for place in CANDIDATE} | {"evaluate.openvino.none.val"}
FP32 |= {"evaluate.openvino-fp32"}
AFTER_TRAIN = {"train"} | INT8 | FP32
ALL = {"ingest", "validate", "prepare"} | AFTER_TRAIN
RUNNING = ("build", "compare", "evaluate", "measure")  # stages that make or run engines
BARE = {each for each in ALL if each.startswith(("compare", "measure", "choose"))}  # without bytes


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {path.name}"
    path.write_text(text.replace(old, new))


def test_first_walk_runs_every_stage_once(walked: Checkout) -> None:
    assert set(walked.executed()) == ALL


def test_nothing_runs_again(checkout: Checkout) -> None:
    # The fixture is a copy in another folder, and this is another process.
    assert checkout.walk() == {}


def test_another_working_directory(checkout: Checkout, tmp_path: Path) -> None:
    inside = checkout.root / "flows"
    assert checkout.walk(cwd=inside) == {}


def test_words_for_people_do_not_count(checkout: Checkout) -> None:
    source = checkout.root / "src" / "enginehouse"
    for path in source.rglob("*.py"):
        path.write_text(path.read_text() + "\n# a comment\n")
    train = source / "train" / "train.py"
    edit(train, '"""Train:', '"""Learn:')
    text = (source / "prepare" / "prepare.py").read_text()
    changed = text.replace("This manifest was not let through.", "Another message.")
    assert changed != text
    (source / "prepare" / "prepare.py").write_text(changed)
    assert checkout.walk() == {}


def test_a_model_nobody_uses(checkout: Checkout) -> None:
    models = checkout.root / "src" / "enginehouse" / "models"
    shutil.copy(models / "tiny_family.py", models / "other_family.py")
    listing = models / "__init__.py"
    listing.write_text(
        listing.read_text().replace("}", '    "other": "enginehouse.models.other_family",\n}')
    )
    assert checkout.walk() == {}


def test_helper_of_quantize_with_the_same_bytes(checkout: Checkout) -> None:
    helper = checkout.root / "src" / "enginehouse" / "quantize" / "calibration.py"
    helper.write_text(helper.read_text() + "\n\ndef another() -> int:\n    return 1\n")
    assert set(checkout.walk()) == {"quantize.none", "quantize.int8_ptq"}
    for reason in (checkout.reasons()[f"quantize.{name}"] for name in ("none", "int8_ptq")):
        assert "enginehouse.quantize.calibration changed" in reason


def test_quantize_with_other_bytes(checkout: Checkout) -> None:
    edit(checkout.root / "prefect.yaml", "num_pictures: 16", "num_pictures: 12")
    assert set(checkout.walk()) == INT8 | {"quantize.none"}  # whose bytes stay the same
    assert "num_pictures: 16 -> 12" in checkout.reasons()["quantize.int8_ptq"]


def test_one_picture(checkout: Checkout) -> None:
    picture = sorted(checkout.data.glob("good/*"))[0]
    shutil.copy(sorted(checkout.data.glob("good/*"))[-1], picture)
    with picture.open("ab") as stream:
        stream.write(b"\0")
    executed = checkout.walk()
    assert executed["ingest"] == executed["validate"] == executed["prepare"] == 1
    assert f"good/{picture.name}" in checkout.reasons()["ingest"]


def test_one_label(checkout: Checkout) -> None:
    picture = sorted(checkout.data.glob("line/*"))[0]
    picture.rename(checkout.data / "spot" / picture.name)
    executed = checkout.walk()
    assert {"ingest", "validate", "prepare", "train"} <= set(executed)
    assert set(executed.values()) == {1}
    reason = checkout.reasons()["ingest"]
    assert f"line/{picture.name}" in reason
    assert f"spot/{picture.name}" in reason


def test_dvc_add_changes_nothing(checkout: Checkout) -> None:
    dvc = [sys.executable, "-m", "dvc"]
    env = {**os.environ, "DVC_NO_ANALYTICS": "1"}
    for command in (["git", "init", "-q"], [*dvc, "init", "-q"], [*dvc, "add", "-q", "data"]):
        subprocess.run(command, cwd=checkout.root, check=True, env=env)
    assert checkout.walk() == {}
    picture = sorted(checkout.data.glob("line/*"))[0]
    picture.chmod(0o644)
    picture.rename(checkout.data / "spot" / picture.name)
    assert checkout.walk()["ingest"] == 1
    subprocess.run([*dvc, "add", "-q", "data"], cwd=checkout.root, check=True, env=env)
    assert checkout.walk() == {}


def test_the_seed(checkout: Checkout) -> None:
    edit(checkout.root / "prefect.yaml", "epochs: 3\n", "epochs: 3\n          seed: 5\n")
    assert set(checkout.walk()) == AFTER_TRAIN


@pytest.mark.parametrize("library", ["torchao", "great-expectations", "openvino"])
def test_a_library_version(checkout: Checkout, library: str) -> None:
    info = checkout.root / "src" / f"{library.replace('-', '_')}-99.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {library}\nVersion: 99.0\n")
    declared = {
        "torchao": {"quantize.int8_ptq", "export.int8_ptq"},
        "great-expectations": {"validate"},
        "openvino": {place for place in ALL if place.startswith(RUNNING)},
    }
    executed = set(checkout.walk())
    assert declared[library] <= executed
    assert not executed & (ALL - declared[library] - INT8)
    assert any(f"{library}: " in reason for reason in checkout.reasons().values())


def _objects(checkout: Checkout, place: str) -> list[Path]:
    """The bytes of a place's record."""
    stage, _, quantizer = place.partition(".")
    records = [
        json.loads(entry.read_text())["record"]
        for entry in (checkout.store / "index" / stage).iterdir()
    ]
    (record,) = (each for each in records if each.get("quantizer", "") == quantizer)
    digests = [blob["sha256"] for blob in {**record["files"], **record["reports"]}.values()]
    return [checkout.store / "objects" / digest[:2] / digest[2:] for digest in digests]


def _damage(path: Path, damage: str) -> None:
    path.chmod(0o644)
    if damage == "missing":
        path.unlink()
    else:
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)


@pytest.mark.parametrize(
    ("place", "damage"), [("train", "missing"), ("quantize.int8_ptq", "corrupt")]
)
def test_damaged_bytes_of_one_stage(checkout: Checkout, place: str, damage: str) -> None:
    _damage(_objects(checkout, place)[-1], damage)
    assert set(checkout.walk()) == {place}
    assert f"is {damage} in the store" in checkout.reasons()[place]
    assert checkout.walk() == {}


@pytest.mark.parametrize("damage", ["missing", "corrupt"])
def test_damaged_bytes_everywhere(checkout: Checkout, damage: str) -> None:
    objects = checkout.store / "objects"
    for path in objects.glob("*/*"):
        _damage(path, damage)
    executed = checkout.walk()
    # The plain network's bytes are those of the weights, so training has mended them already.
    assert set(executed) == ALL - BARE - {"quantize.none"}
    assert set(executed.values()) == {1}
    for place in executed:
        assert f"is {damage} in the store" in checkout.reasons()[place]


def test_unknown_schema_is_a_miss_with_a_reason(checkout: Checkout) -> None:
    entry = next((checkout.store / "index" / "train").iterdir())
    entry.write_text(re.sub(r'"schema": \d+', '"schema": 99', entry.read_text(), count=1))
    assert set(checkout.walk()) == {"train"}
    assert "schema 99" in checkout.reasons()["train"]


def test_two_runs_at_once_compute_once(
    make_checkout: Callable[[Path], Checkout], tmp_path: Path
) -> None:
    checkout = make_checkout(tmp_path / "house")
    runs = [checkout.start(WALK) for _ in range(2)]
    for run in runs:
        _, err = run.communicate(timeout=300)
        assert run.returncode == 0, err[-2000:]
    executed = checkout.executed()
    assert set(executed) == ALL
    assert set(executed.values()) == {1}


def test_two_runs_at_once_mend_once(checkout: Checkout) -> None:
    _objects(checkout, "train")[0].unlink()
    mark = checkout.mark()
    runs = [checkout.start(WALK) for _ in range(2)]
    for run in runs:
        _, err = run.communicate(timeout=300)
        assert run.returncode == 0, err[-2000:]
    assert checkout.executed(mark) == {"train": 1}


@pytest.mark.parametrize("room", ["200k", "900k"])
def test_no_room_is_one_clear_error(checkout: Checkout, tmp_path: Path, room: str) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={room}", "tmpfs", str(small)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a small disk can be made by root only")
    try:
        checkout.environment["ENGINEHOUSE_STORE"] = str(small)
        done = checkout.run(WALK)
        assert done.returncode == 1
        assert "No room left on the disk" in done.stderr, done.stderr[-1500:]
        assert "ENGINEHOUSE_STORE" in done.stderr
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_failed_stage_leaves_no_entry(checkout: Checkout) -> None:
    train = checkout.root / "src" / "enginehouse" / "train" / "train.py"
    shutil.rmtree(checkout.store / "index" / "train")
    good = train.read_text()
    bad, count = re.subn(
        r"(\ndef train\(.*?\) -> TrainedModel:\n    \"\"\".*?\"\"\"\n)",
        r'\1    raise TrainingError("planted", "none")\n',
        good,
        flags=re.DOTALL,
    )
    assert count == 1
    train.write_text(bad)
    done = checkout.run(WALK)
    assert done.returncode != 0
    assert "planted" in done.stderr
    assert not list((checkout.store / "index").glob("train/*"))
    assert not list((checkout.store / "scratch").iterdir())
    train.write_text(good)
    assert set(checkout.walk()) == {"train"}


def test_killed_stage_leaves_no_entry_and_no_lock(checkout: Checkout) -> None:
    shutil.rmtree(checkout.store / "index" / "train")
    mark = checkout.mark()
    run = checkout.start(WALK)
    while checkout.mark() == mark:  # the journal line is written before the stage's first step
        assert run.poll() is None
    os.killpg(run.pid, signal.SIGKILL)
    run.communicate()
    assert not list((checkout.store / "index").glob("train/*"))
    assert set(checkout.walk()) == {"train"}
    assert not list((checkout.store / "scratch").iterdir())


def test_another_checkout_shares_the_store(
    checkout: Checkout, make_checkout: Callable[[Path], Checkout], tmp_path: Path
) -> None:
    other = make_checkout(tmp_path / "other")
    other.environment["ENGINEHOUSE_STORE"] = str(checkout.store)
    assert other.walk() == {}


def test_exports_from_two_folders_are_identical(
    walked: Checkout, make_checkout: Callable[[Path], Checkout], tmp_path: Path
) -> None:
    other = make_checkout(tmp_path / "a folder with another name")
    other.walk()
    for name in ("fp32", "int8"):
        exports = []
        for place in (walked, other):
            records = [
                json.loads(path.read_text())["record"]
                for path in (place.store / "index" / "export").iterdir()
            ]
            record = next(r for r in records if r["precision"] == name)
            exports.append(record["files"]["model.onnx"]["sha256"])
            digest = exports[-1]
            content = (place.store / "objects" / digest[:2] / digest[2:]).read_bytes()
            assert str(place.root).encode() not in content
            assert b"site-packages" not in content
        assert exports[0] == exports[1]


def test_declared_libraries_are_the_imported_ones() -> None:
    import grimp

    from enginehouse.choices import FOLDERS, list_choices
    from enginehouse.code_digest import find_modules

    graph = grimp.build_graph("enginehouse", include_external_packages=True, cache_dir=None)
    names = {"PIL": "pillow", "great_expectations": "great-expectations", "sklearn": "scikit-learn"}
    names |= {"cv2": "opencv-python-headless", "yaml": "pyyaml", "modelopt": "nvidia-modelopt"}
    plumbing = {"pydantic"} | set(sys.stdlib_module_names)
    stages = [
        path.parent.name
        for path in Path(import_module("enginehouse").__path__[0]).glob("*/record.py")
    ]
    modules = [f"enginehouse.{stage}.{stage}" for stage in stages]
    modules += [path for folder in FOLDERS for path in list_choices(folder).values()]
    for module in modules:
        declared = set(import_module(module).LIBRARIES)
        imported = {
            names.get(found, found)
            for reached in find_modules([module])
            for found in graph.find_modules_directly_imported_by(reached)
            if not found.startswith("enginehouse") and found not in plumbing
        }
        assert imported <= declared, module
        # pandas reads Parquet through the first; torch's exporter works through the others.
        assert declared - imported <= {"pyarrow", "onnx-ir", "onnxscript"}, module
