"""The collection of field cases of data and training: each ends as its file says."""

from __future__ import annotations

import csv
import json
import math
import shutil
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from enginehouse import models
from enginehouse.artifact import Source, Workspace
from enginehouse.errors import NonFiniteLoss, TrainingError
from enginehouse.ingest.record import DataVersion
from enginehouse.picture import decode_picture
from enginehouse.prepare.config import PrepareConfig
from enginehouse.prepare.prepare import prepare
from enginehouse.train.checkpoint import read_first_whole
from enginehouse.train.ema import make_average
from enginehouse.train.scores import Scores
from enginehouse.train.state import Progress, State
from enginehouse.train.train import train
from enginehouse.validate.record import Validated
from flows.cli import main
from tests.conftest import SHARED_DATA
from tests.judge import Judged
from tests.unit.ingesting import Data, scan
from tests.unit.tiny_pack import seal_pack, tiny_config, train_tiny

ARCHIVE = SHARED_DATA.parent / "cases" / "field_cases.tar.gz"
KINDS = {"decode", "mode", "discovery", "classes", "coco", "voc", "sheet", "csv", "tool"} | {
    "dvc",
    "gate",
}
OF_BOXES = {"coco", "voc", "sheet", "tool"}  # kinds whose `kept` counts boxes
# What the catalogue beside the archive says of a case, where a number can be compared.
FACTS: dict[str, dict[str, Any]] = {
    **{key: {"kept": 12} for key in ("DEC-01", "DEC-02", "DEC-04", "CLS-03")},
    **{key: {"kept": 13} for key in ("DEC-06", "MOD-01", "MOD-03")},
    **{key: {"kept": 12, "classes": 2} for key in ("FS-01", "FS-02")},
    **{key: {"kept": 3} for key in ("COCO-08", "CSV-01", "CSV-03")},
    **{key: {"kept": 3} for key in ("XLS-01", "XLS-04", "XLS-07", "XLS-11")},
    **{key: {"kept": 2} for key in ("COCO-09", "VOC-01", "CSV-06", "EXP-02")},
    **{key: {"kept": 1} for key in ("VOC-03", "VOC-05", "EXP-01", "EXP-03")},
    "DEC-08": {"kept": 13, "classes": 2},
    "FS-05": {"kept": 14},
    "FS-06": {"kept": 12, "max_seconds": 10},
    "FS-08": {"kept": 4},
    "COCO-01": {"kept": 3, "box": [50, 6, 14, 20]},
    "COCO-02": {"kept": 2, "images": 3},
    "COCO-06": {"kept": 3, "indices": [0, 1, 2]},
    "COCO-15": {"kept": 1, "images": 3},
    "VOC-02": {"kept": 1, "xmin": 4.5},
    "XLS-02": {"kept": 4, "boxes_of_image_1": 2},
    "XLS-03": {"kept": 3, "max_seconds": 60},
    "XLS-09": {"kept": 3, "x": [4, 8, 10]},
    "CSV-02": {"kept": 3, "labels": ["划伤", "合格"]},
}


def list_cases() -> list[Any]:
    if not ARCHIVE.exists():
        skip = pytest.mark.skip(reason=f"the archive {ARCHIVE.name} is not here")
        return [pytest.param("", {}, marks=skip)]
    cases = {}
    with tarfile.open(ARCHIVE) as archive:
        for member in archive:
            if member.name.endswith("/expected.json"):
                stream = archive.extractfile(member)
                assert stream
                cases[member.name.split("/")[-2]] = json.load(stream)
    return [
        pytest.param(name, expected, id=name)
        for name, expected in sorted(cases.items())
        if expected["kind"] in KINDS
    ]


@pytest.fixture(scope="session")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("field")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="tar")
    return folder / "cases"


@pytest.mark.parametrize(("case", "expected"), list_cases())
def test_a_field_case_ends_as_it_should(
    case: str, expected: dict[str, Any], cases: Path, judge: Callable[..., Judged], tmp_path: Path
) -> None:
    source = cases / case / "input"
    started = time.monotonic()
    judged = judge(source)
    seconds = time.monotonic() - started
    judged.assert_ended(expected["expect"])
    judged.assert_mentions(*expected["must_mention"])
    facts = FACTS.get(case, {})
    assert seconds < facts.get("max_seconds", 60)
    verdict = judged.verdict
    if "kept" in facts:
        assert verdict["boxes" if expected["kind"] in OF_BOXES else "images"] == facts["kept"]
    if "images" in facts:
        assert verdict["images"] == facts["images"]
    if "classes" in facts:
        assert len(verdict["picture_classes"]) == len(judged.labels) == facts["classes"]
    if "labels" in facts:
        assert sorted(verdict["picture_classes"]) == sorted(judged.labels) == facts["labels"]
    if "indices" in facts:
        assert [entry["index"] for entry in verdict["classes"]] == facts["indices"]
    if {"box", "xmin", "x", "boxes_of_image_1"} & facts.keys():
        compare_boxes(facts, read_boxes(source, tmp_path / "out"))


def read_boxes(source: Path, out: Path) -> list[dict[str, str]]:
    assert main(["convert", str(source), "--to", "csv", "--out", str(out), "--no-pictures"]) == 0
    with (out / "labels.csv").open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def compare_boxes(facts: dict[str, Any], rows: list[dict[str, str]]) -> None:
    boxes = [[float(row[side]) for side in ("x", "y", "width", "height")] for row in rows]
    if "box" in facts:
        assert facts["box"] in boxes
    if "xmin" in facts:
        assert boxes[0][0] == facts["xmin"]
    if "x" in facts:
        assert sorted(box[0] for box in boxes) == facts["x"]
    if "boxes_of_image_1" in facts:
        assert sum(row["image"] == "1.jpg" for row in rows) == facts["boxes_of_image_1"]


needs_archive = pytest.mark.skipif(not ARCHIVE.exists(), reason="the archive is not here")


@needs_archive
def test_a_red_cmyk_picture_is_red(cases: Path) -> None:
    pixels = decode_picture(cases / "MOD-01/input/train/cat/cat_red.jpg").array
    red, green, blue = pixels.reshape(-1, 3).mean(axis=0)
    assert red > 200
    assert max(green, blue) < 60


@needs_archive
@pytest.mark.parametrize(
    ("path", "least"),
    [("MOD-02/input/train/ok/scan_0.png", 200), ("MOD-08/input/train/dog/dog_be.tif", 64)],
)
def test_grey_of_16_bits_keeps_its_levels(cases: Path, path: str, least: int) -> None:
    pixels = decode_picture(cases / path).array
    assert len(np.unique(pixels[: len(pixels) // 2, :, 0])) >= least  # all that are in the file


@needs_archive
def test_what_is_transparent_does_not_show(cases: Path) -> None:
    pixels = decode_picture(cases / "MOD-03/input/train/cat/icon_0.png").array.astype(int)
    green = (pixels[..., 1] > 180) & (pixels[..., 0] < 90) & (pixels[..., 2] < 90)
    assert not green.any()


@needs_archive
def test_the_box_of_a_turned_picture_fits_its_pixels(
    cases: Path, judge: Callable[..., Judged], tmp_path: Path
) -> None:
    assert judge(cases / "MOD-04/input").verdict["sizes"] == {"48x64": 1}
    (row,) = read_boxes(cases / "MOD-04/input", tmp_path / "out")
    x, y, width, height = (round(float(row[side])) for side in ("x", "y", "width", "height"))
    pixels = decode_picture(cases / "MOD-04/input/images/part_1.jpg").array
    assert pixels[y : y + height, x : x + width].mean() > 200


def read_expected(cases: Path, case: str) -> list[str]:
    """The words that must be said of a case."""
    words: list[str] = json.loads((cases / case / "expected.json").read_text())["must_mention"]
    return words


def read_epochs(cases: Path, case: str) -> list[dict[str, float]]:
    """What a training said of its epochs; NaN is what Python's JSON makes of it."""
    lines = (cases / case / "input" / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


@needs_archive
def test_trn_01_a_last_batch_of_one_and_no_validation_picture_lost(
    cases: Path, tmp_path: Path
) -> None:
    data = Data(tmp_path)
    shutil.copytree(cases / "TRN-01" / "input", data.folder, dirs_exist_ok=True)
    manifest = data.ingest().record
    (tmp_path / "scratch").mkdir()
    version = DataVersion(digest="0" * 32)
    source = Source(data.folder, scan(data.folder)[0])
    here = Workspace(data.store, tmp_path / "scratch", sources={version.digest: source})
    validated = Validated(manifest=manifest.identity, num_expectations=1, failures=())
    pack = prepare(version, manifest, validated, PrepareConfig.model_validate({"size": 32}), here)
    wanted = json.loads((data.folder / "train_config.json").read_text())
    # Of each class one training picture becomes the test, which there must be: seven are left.
    assert pack.counts == {"train": 7, "val": 3, "test": 2}
    for batch_size in (wanted["batch_size"], 3):
        model = train(pack, tiny_config(**{**wanted, "batch_size": batch_size}), here)
        answers = np.load(here.path(model, "validation.npy"))
        assert len(answers) == 3
        assert np.isfinite(answers).all()


@needs_archive
def test_trn_02_an_epoch_without_a_score_is_never_the_best(cases: Path) -> None:
    best, best_epoch = None, 0
    for row in read_epochs(cases, "TRN-02"):
        scores = Scores(1 - row["val_acc"], row["val_acc"], row["val_acc"])
        if scores.beats(best):
            best, best_epoch = scores, int(row["epoch"])
    assert best_epoch == 3
    assert not Scores(0.1, math.nan, math.nan).beats(None)


@needs_archive
def test_trn_03_a_loss_that_is_nan_from_an_epoch_on_ends_the_run(
    cases: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(models.CHOICES, "faulty", "tests.unit.faulty_family")
    rows = read_epochs(cases, "TRN-03")
    first = next(int(row["epoch"]) for row in rows if math.isnan(row["train_loss"]))
    pack = seal_pack(tmp_path)
    per_epoch = 5  # batches of 16 in 72 pictures
    network = {"family": "faulty", "name": f"{(first - 1) * per_epoch}-0"}
    with pytest.raises(NonFiniteLoss) as caught:
        train_tiny(tmp_path, pack, model=network, epochs=len(rows))
    told = str(caught.value).lower()
    assert f"epoch {first} " in told
    assert all(word in told for word in read_expected(cases, "TRN-03"))


@needs_archive
def test_trn_05_a_checkpoint_without_the_average_is_refused(cases: Path) -> None:
    wanted = json.loads((cases / "TRN-05" / "input" / "train_config.json").read_text())
    found = read_first_whole([cases / "TRN-05" / "input" / wanted["resume"]], print)
    assert found is not None
    net = torch.nn.Linear(2, 2)
    average = make_average(net, wanted["ema_decay"])
    scaler = torch.amp.GradScaler("cpu")
    state = State(net, net, torch.optim.AdamW(net.parameters()), scaler, average, Progress(1))
    with pytest.raises(TrainingError) as caught:
        state.restore(found[1])
    assert all(word in str(caught.value) for word in read_expected(cases, "TRN-05"))


@needs_archive
def test_trn_06_a_checkpoint_that_was_cut_off_gives_way_to_the_one_before(cases: Path) -> None:
    told: list[str] = []
    folder = cases / "TRN-06" / "input"
    found = read_first_whole([folder / "last.pt", folder / "prev.pt"], told.append)
    assert found is not None
    assert (found[0].name, found[1]["epoch"]) == ("prev.pt", 11)
    assert all(word in "\n".join(told) for word in read_expected(cases, "TRN-06"))
