"""`enginehouse check`: generated twins of every kind of field case, end to end, and its manners."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from flows.cli import main
from tests.conftest import ROOT, Checkout
from tests.judge import Judged
from tests.twins import TWINS
from tests.twins._draw import Twin, class_folders, coco, save, write

KEYS = [
    *("source", "format", "verdict", "kept", "images", "boxes", "classes", "picture_classes"),
    *("splits", "sizes", "label_ids", "quarantine", "ignored", "warnings", "errors", "infos"),
    "report",
]


FIRSTS = {twin.kind: twin for twin in reversed(TWINS)}  # of each kind, in full


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.name)
def test_a_twin_ends_as_it_should(
    twin: Twin, judge: Callable[..., Judged], glance: Callable[[Path], Judged], tmp_path: Path
) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    source = twin.build(folder) or folder
    in_full = twin.kind in ("classes", "gate") or twin is FIRSTS[twin.kind]
    judged = judge(source) if in_full else glance(source)
    judged.assert_ended(twin.expect)
    judged.assert_mentions(*twin.mention)
    judged.assert_is_silent_about(*twin.never)
    counted = {"images": twin.images, "boxes": twin.boxes}
    wanted = {name: number for name, number in counted.items() if number is not None}
    assert {name: judged.verdict[name] for name in wanted} == wanted, judged.text
    if twin.labels is not None:
        assert tuple(judged.labels) == twin.labels


def test_the_json_has_the_same_keys_whatever_happens(
    judge: Callable[..., Judged], tmp_path: Path
) -> None:
    class_folders(tmp_path / "good")
    (tmp_path / "empty").mkdir()
    for name in ("good", "empty"):
        assert list(judge(tmp_path / name).verdict) == KEYS


def test_everything_that_is_not_trusted_is_found_by_its_name(
    judge: Callable[..., Judged], tmp_path: Path
) -> None:
    class_folders(tmp_path)
    names = [f"train/gear/bad_{number:02}.jpg" for number in range(30)]
    for name in names:
        write(tmp_path / name, b"no picture")
    judged = judge(tmp_path)
    assert [entry["file"] for entry in judged.verdict["quarantine"]] == names
    assert "bad_00.jpg" in judged.text
    assert "and 10 more (--json lists them)" in judged.text


def test_a_checked_folder_is_not_checked_again(
    judge: Callable[..., Judged], check_state: Path, tmp_path: Path
) -> None:
    class_folders(tmp_path)
    first = judge(tmp_path)
    journal = check_state / "store" / "journal.jsonl"
    length = len(journal.read_text().splitlines())
    assert judge(tmp_path) == first
    assert len(journal.read_text().splitlines()) == length
    save(tmp_path / "train/gear/new.jpg")
    assert judge(tmp_path).verdict["images"] == first.verdict["images"] + 1


def test_a_recipe_judges_by_its_own_thresholds(
    judge: Callable[..., Judged], tmp_path: Path
) -> None:
    class_folders(tmp_path)
    assert judge(tmp_path).code == 0
    judged = judge(tmp_path, "--recipe", "sample")
    assert judged.code == 1
    judged.assert_mentions("too few usable pictures", "min_rows")


def test_unequal_labels_of_boxes_are_told(judge: Callable[..., Judged], tmp_path: Path) -> None:
    coco(tmp_path, [{"bbox": [n, n, 20, 10]} for n in range(21)] + [{"category_id": 2}])
    judged = judge(tmp_path)
    judged.assert_ended("warn")
    judged.assert_mentions("unequal", "scratch has 21 boxes, pit 1")


@pytest.mark.parametrize(("name", "says"), [("a.zip", "Unpack"), ("a.png", "folder")])
def test_a_file_that_labels_nothing_is_no_source(
    name: str, says: str, judge: Callable[..., Judged], tmp_path: Path
) -> None:
    write(tmp_path / name, "something")
    judged = judge(tmp_path / name)
    judged.assert_ended("reject")
    judged.assert_mentions(name, says)


def test_a_format_can_be_named(judge: Callable[..., Judged], tmp_path: Path) -> None:
    class_folders(tmp_path)
    assert judge(tmp_path, "--format", "class_folders").verdict["format"] == "class_folders"
    judged = judge(tmp_path, "--format", "coco")
    assert judged.code == 1
    judged.assert_mentions("coco", "label file")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nowhere"], "nowhere"),
        ([".", "--format", "coko"], "coco"),
        ([".", "--recipe", "smple"], "sample"),
        ([], "source"),
        ([".", "--oops"], "--oops"),
    ],
    ids=["no source", "no format", "no recipe", "no argument", "no option"],
)
def test_wrong_usage_ends_with_2(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main(["--project", str(ROOT), "check", *arguments])
    except SystemExit as end:
        code = int(str(end.code))
    captured = capsys.readouterr()
    assert code == 2
    assert captured.out == ""
    assert says in captured.err


def test_the_command_line_keeps_stdout_for_the_result(
    make_checkout: Callable[[Path], Checkout], tmp_path: Path
) -> None:
    checkout = make_checkout(tmp_path / "house")
    good = checkout.enginehouse("check", "data/tiny", "--json")
    assert good.returncode == 0, good.stderr
    verdict = json.loads(good.stdout)
    assert (verdict["verdict"], verdict["images"]) == ("accepted", 60)
    write(checkout.data / "good/bad.png", b"")
    text = checkout.enginehouse("check", "data/tiny")
    assert text.returncode == 0, text.stderr
    assert text.stdout.startswith("accepted  data/tiny (class_folders)\n")
    assert "good/bad.png" in text.stdout
    (checkout.data / "odd").mkdir()
    assert checkout.enginehouse("check", "data/tiny").returncode == 1


def test_a_check_loads_neither_prefect_nor_mlflow(
    make_checkout: Callable[[Path], Checkout], tmp_path: Path
) -> None:
    checkout = make_checkout(tmp_path / "house")
    script = (
        "import sys, flows.cli\n"
        "code = flows.cli.main(['check', 'data/tiny'])\n"
        "heavy = {'prefect', 'mlflow', 'torch', 'dvc'} & sys.modules.keys()\n"
        "assert code == 0 and not heavy, heavy\n"
    )
    done = checkout.run_cold("-c", script)
    assert done.returncode == 0, done.stderr
