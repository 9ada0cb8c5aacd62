"""`enginehouse label-errors`: from doubted labels to a sheet, and from there to a data version."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import url2pathname

import openpyxl
import pytest

from enginehouse.errors import DataError
from enginehouse.project import Project
from flows.cli import main
from flows.data_add import add_data, make_check
from tests.conftest import ROOT, Checkout
from tests.dvc_repository import read_md5, run

PLANTED = "line/pg00_0.png"  # a good one

# What a retrain trains on: the road as far as training, as plain calls.
TRAIN = """
import sys
import pandas as pd
from enginehouse.project import find_project
from flows.inspection import Inspection
from flows.recipes import load_recipe
from flows.road import let_through, plainly
from flows.run import make_context
from tasks.data import resolve_data
from tasks.prepare import prepare_task
from tasks.train import train_task

project = find_project()
recipe = load_recipe(project, "tiny")
resolved = resolve_data(project, recipe.data.path, print)
context = make_context(project.open_store(), recipe, resolved)
step, data = plainly(context), resolved.version
inspection = Inspection(project, recipe.name, resolved, context.store)
manifest, validated = let_through(recipe, data, step, inspection)
inputs = {"data": data, "manifest": manifest, "validated": validated}
pack = step(prepare_task, "prepare", recipe.prepare, **inputs)
model = step(train_task, "train", recipe.train, pack=pack)
index = pd.read_parquet(context.store.blob_path(pack.files["index.parquet"]))
print(resolved.status, dict(zip(index["path"], index["label"]))[sys.argv[1]])
"""


@pytest.fixture(scope="module")
def checkout(
    make_checkout: Callable[[Path], Checkout], tmp_path_factory: pytest.TempPathFactory
) -> Checkout:
    made = make_checkout(tmp_path_factory.mktemp("errors") / "house")
    (made.data / "good/pg00_0.png").rename(made.data / PLANTED)
    for command in (("git", "init", "-q"), ("mkdir", ".dvc"), ("touch", ".dvc/config")):
        assert run(made.root, *command).returncode == 0
    return made


def find_sheet(stdout: str) -> Path:
    found = re.search(r"sheet +file://(\S+)", stdout)
    assert found, stdout
    return Path(url2pathname(found[1]))


def test_a_corrected_sheet_is_the_next_data_version_and_is_trained_on(
    checkout: Checkout, prefect_server: str
) -> None:
    searching = checkout.having(PREFECT_API_URL=prefect_server)
    done = searching.enginehouse("label-errors", "tiny", "--folds", "2")
    assert done.returncode == 0, done.stderr[-3000:]
    assert re.search(r"label errors of tiny: \d+ of 60 labels are suspicious", done.stdout)
    assert "60 pictures, out of 2 folds" in done.stdout
    sheet = find_sheet(done.stdout)
    assert f"data add {sheet} --into tiny" in done.stdout
    executed = checkout.executed()
    assert executed == dict.fromkeys(
        ["ingest", "validate", "suspect"]
        + [f"fold{n}.{stage}" for n in (1, 2) for stage in ("prepare", "train", "answer")],
        1,
    )

    book = openpyxl.load_workbook(sheet)
    rows: Any = book["labels"]
    paths = [row[1].value for row in rows.iter_rows(min_row=2)]
    assert sorted(paths) == sorted(
        path.relative_to(checkout.data).as_posix() for path in checkout.data.rglob("*.png")
    )
    row = 2 + paths.index(PLANTED)
    assert (rows.cell(row, 3).value, rows.cell(row, 5).value) == ("line", "line")
    rows.cell(row, 5).value = "good"
    book.save(sheet)

    again = searching.enginehouse("label-errors", "tiny", "--folds", "2")
    assert checkout.executed() == executed
    assert "it was there already and was left as it is" in again.stdout
    assert openpyxl.load_workbook(sheet)["labels"].cell(row, 5).value == "good"

    added = checkout.enginehouse("data", "add", str(sheet), "--into", "tiny")
    assert "data/tiny: 1 files added" in added.stdout, added.stderr
    assert f"data version none -> {read_md5(checkout.root)[:12]}" in added.stdout
    assert (checkout.data / "corrections.xlsx").is_file()
    trained = checkout.run("-c", TRAIN, PLANTED)
    assert trained.returncode == 0, trained.stderr[-3000:]
    assert trained.stdout.split()[-2:] == ["clean", "good"]


def test_a_sheet_that_does_not_fit_is_not_added(checkout: Checkout, tmp_path: Path) -> None:
    project = Project(checkout.root, checkout.state)
    sheet = tmp_path / "new/corrections-x.csv"
    sheet.parent.mkdir()
    sheet.write_text(f"path,given,label,md5\nspot/none.png,spot,good,{'0' * 32}\n")
    where = (sheet.parent, "tiny", "", make_check(project), print)
    words = (
        r"new files in it is rejected:\n.*corrections-x\.csv, line 2: spot/none\.png is not among"
    )
    with pytest.raises(DataError, match=words):
        add_data(project, *where)
    shutil.copy(next(checkout.data.rglob("*.png")), sheet.parent)
    with pytest.raises(DataError, match=r"beside corrections-x\.csv there are other files"):
        add_data(project, *where)
    assert not (checkout.data / sheet.name).exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--folds", "1"), "wanted is a number from 2 to 20"),
        (("--out", "errors.xlsx"), "wanted is corrections.xlsx"),
        (("--out", "{there}"), "is there already"),
    ],
)
def test_wrong_usage_is_said_at_once(
    options: tuple[str, str],
    words: str,
    tmp_path: Path,
    in_check_state: None,
    capsys: pytest.CaptureFixture[str],
) -> None:
    there = tmp_path / "corrections.xlsx"
    there.touch()
    asked = [option.replace("{there}", str(there)) for option in options]
    assert main(["--project", str(ROOT), "label-errors", "sample", *asked]) == 2
    assert words in capsys.readouterr().err
