"""Label errors: what networks say of labels that they never saw, as a ranking and as a sheet."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

from enginehouse.answer.answer import AnswerConfig, answer
from enginehouse.answer.record import Answers
from enginehouse.artifact import Source, Workspace
from enginehouse.choices import load_choice
from enginehouse.correction_sheet import NAME, REMOVE
from enginehouse.errors import DataError
from enginehouse.ingest.record import DataVersion, Manifest
from enginehouse.preparation import Preparation, Tiling
from enginehouse.prepare.record import Pack
from enginehouse.prepare.shards import open_pictures
from enginehouse.store import Store
from enginehouse.suspect.disagreement import Disagreement, measure_disagreement
from enginehouse.suspect.record import Suspects
from enginehouse.suspect.suspect import SuspectConfig, suspect
from enginehouse.train.network import load_network, normalise
from enginehouse.train.record import TrainedModel
from tests.unit.tiny_pack import CLASSES, open_workspace, seal_pack, train_tiny

Array = NDArray[np.float32]


# Disagreement


def disagree(problem: str, given: Sequence[Sequence[int]], said: Sequence[Any]) -> Disagreement:
    task: Any = load_choice("problems", problem)
    probabilities = np.array(said, np.float32)
    targets = task.encode(given, probabilities.shape[1])
    return measure_disagreement(task.SHAPE, targets, probabilities, task.decide(probabilities))


def test_a_label_is_an_error_where_another_class_is_as_sure_as_it_usually_is() -> None:
    found = disagree(
        "single_label",
        [[0], [0], [0], [1], [1], [1]],
        # Class 0 is usually sure by (.9 + .8 + .1) / 3 = .6, class 1 by (.9 + .7 + .5) / 3 = .7.
        [[0.9, 0.1], [0.8, 0.2], [0.1, 0.9], [0.1, 0.9], [0.3, 0.7], [0.5, 0.5]],
    )
    assert found.suspicion == pytest.approx([0.1, 0.2, 0.9, 0.1, 0.3, 0.5], abs=1e-6)
    assert found.suspicious.tolist() == [False, False, True, False, False, False]
    assert found.suggested.argmax(axis=1).tolist() == [0, 0, 1, 1, 1, 0]
    assert found.p_given[2] == pytest.approx(0.1)
    assert found.p_suggested[2] == pytest.approx(0.9)


def test_a_class_that_is_never_very_sure_need_not_be_to_doubt_others() -> None:
    shy = [[0.55, 0.45], [0.55, 0.45], [0.52, 0.48]]
    found = disagree("single_label", [[0], [0], [0], [1], [1]], [*shy, [0.1, 0.9], [0.55, 0.45]])
    assert found.suspicious.tolist() == [False, False, False, False, True]


def test_of_several_labels_the_worst_counts() -> None:
    sure = [[0.9, 0.1, 0.1], [0.1, 0.9, 0.1], [0.1, 0.1, 0.9], [0.9, 0.9, 0.1], [0.1, 0.1, 0.9]]
    given = [[0], [1], [2], [0], [0, 2]]
    found = disagree("multi_label", given, sure)
    assert found.suspicion == pytest.approx([0.1, 0.1, 0.1, 0.9, 0.9], abs=1e-6)
    assert found.suspicious.tolist() == [False, False, False, True, True]
    assert found.suggested[3].tolist() == [True, True, False]  # one was missing
    assert found.suggested[4].tolist() == [False, False, True]  # one is too many
    assert found.p_suggested[3] == pytest.approx(0.9)


def test_flipped_labels_come_first() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 5, 1000)
    logits = rng.normal(0, 1, (1000, 5))
    logits[np.arange(1000), truth] += 3.5
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    flipped = rng.choice(1000, 30, replace=False)
    given = truth.copy()
    given[flipped] = (truth[flipped] + rng.integers(1, 5, 30)) % 5
    found = disagree("single_label", [[label] for label in given], probabilities)
    first = np.argsort(-found.suspicion)[:60]
    assert np.isin(flipped, first).mean() >= 0.8
    assert np.isin(np.flatnonzero(found.suspicious), flipped).mean() >= 0.8
    assert found.suspicious[flipped].mean() >= 0.5


# Answers


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Pack, TrainedModel]:
    folder = tmp_path_factory.mktemp("trained")
    pack = seal_pack(folder)
    return folder, pack, train_tiny(folder, pack)


def read_answers(here: Workspace, answers: Answers) -> tuple[pd.DataFrame, Array]:
    index = pd.read_parquet(here.path(answers, "index.parquet"))
    return index, np.load(here.path(answers, "predictions.npy"))


def test_answers_are_those_of_the_trained_network(
    trained: tuple[Path, Pack, TrainedModel],
) -> None:
    folder, pack, model = trained
    here = open_workspace(folder)
    made = answer(model, pack, AnswerConfig(split="val"), here)
    assert (made.classes, made.problem, made.pack) == (CLASSES, "single_label", pack.identity)
    index, probabilities = read_answers(here, made)
    assert index["path"].tolist() == [f"val-{row}.png" for row in range(24)]
    assert [list(given) for given in index["given"]] == [[0], [1], [2]] * 8
    pictures = torch.from_numpy(open_pictures(pack, "val", here)[:])
    with torch.inference_mode():
        logits = load_network(model, here)(normalise(pictures, model.mean, model.std))
    expected = (logits / model.temperature).softmax(dim=1).numpy()
    assert probabilities == pytest.approx(expected, abs=1e-4)
    assert answer(model, pack, AnswerConfig(split="val"), open_workspace(folder)) == made


def test_the_windows_of_a_picture_answer_together(
    trained: tuple[Path, Pack, TrainedModel], tmp_path: Path
) -> None:
    folder, pack, model = trained
    here = open_workspace(folder)
    index = pd.read_parquet(here.path(pack, "index.parquet"))
    index["path"] = [path if split != "val" else "one.png" for split, path in zip(
        index["split"], index["path"], strict=True)]  # fmt: skip
    index.assign(clean=True, picture_index=2).to_parquet(here.scratch / "index.parquet")
    tiles = Preparation(size=32, tiles=Tiling(size=32), good="red")
    tiled = pack.model_copy(
        update={"files": {**pack.files, **here.seal(["index.parquet"])}, "preparation": tiles}
    )
    asked = model.model_copy(update={"preparation": tiles})
    found, probabilities = read_answers(here, answer(asked, tiled, AnswerConfig(split="val"), here))
    assert found["path"].tolist() == ["one.png"]
    assert [list(given) for given in found["given"]] == [[2]]
    assert probabilities.shape == (1, 3)
    assert probabilities[0].argmax() != 0  # one window with a defect is enough


def test_a_network_of_another_pack_is_not_asked(trained: tuple[Path, Pack, TrainedModel]) -> None:
    folder, pack, model = trained
    other = pack.model_copy(update={"classes": ("red", "green", "grey")})
    with pytest.raises(DataError, match="not trained on this pack"):
        answer(model, other, AnswerConfig(), open_workspace(folder))


# Ranking and sheet

DATA = DataVersion(digest="data")


class Set:
    """A data set of single coloured pictures, and what networks are made to say of them."""

    def __init__(self, root: Path, problem: str = "single_label") -> None:
        self.root = root
        self.problem = problem
        self.rows: list[dict[str, Any]] = []
        self.said: dict[str, Sequence[float]] = {}

    def add(
        self, path: str, label: str, said: Sequence[float] | None, colour: int | None = None
    ) -> None:
        colour = len(self.rows) if colour is None else colour
        stream = io.BytesIO()
        Image.new("RGB", (60, 40), (colour, 90, 90)).save(stream, "PNG")
        file = self.root / "data" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(stream.getvalue())
        md5 = hashlib.md5(stream.getvalue()).hexdigest()
        row = {"path": path, "label": label, "labels": label.split("+"), "md5": md5}
        row |= {"pixels": f"{colour:064}", "part": f"part {colour}", "source": "", "place": ""}
        self.rows.append(row)
        if said is not None:
            self.said[path] = said

    def open(self) -> Workspace:
        scratch = self.root / f"scratch{len(list(self.root.glob('scratch*')))}"
        scratch.mkdir()
        listing = {row["path"]: row["md5"] for row in self.rows}
        sources = {"data": Source(self.root / "data", listing)}
        return Workspace(Store(self.root / "store"), scratch, sources=sources)

    def suspect(
        self, folds: Sequence[Sequence[str]], classes: tuple[str, ...] = ("a", "b"), **more: Any
    ) -> tuple[Suspects, Workspace]:
        """Rank the pictures, judged in these folds."""
        here = self.open()
        pd.DataFrame(self.rows).to_parquet(here.scratch / "manifest.parquet")
        manifest = Manifest(
            files=here.seal(["manifest.parquet"]),
            format="by hand",
            problem=self.problem,
            classes=classes,
            labels=classes,
            label_ids={},
            good="",
            image_class=more.pop("image_class", ""),
            num_rows=len(self.rows),
            num_boxes=0,
            num_quarantined=0,
            num_errors=0,
        )
        labels = {row["path"]: row["labels"] for row in self.rows}
        answers = {
            f"fold{n}": self._answer(paths, labels, classes) for n, paths in enumerate(folds)
        }
        return suspect(DATA, manifest, SuspectConfig(**more), here, **answers), here

    def _answer(
        self, paths: Sequence[str], labels: Mapping[str, list[str]], classes: tuple[str, ...]
    ) -> Answers:
        here = self.open()
        given = [[classes.index(label) for label in labels[path]] for path in paths]
        index = pd.DataFrame({"path": list(paths), "given": given})
        index.to_parquet(here.scratch / "index.parquet")
        said = np.array([self.said[path] for path in paths], np.float32)
        np.save(here.scratch / "predictions.npy", said)
        files = here.seal(["index.parquet", "predictions.npy"])
        return Answers(files=files, problem=self.problem, classes=classes, split="test", pack="p")


def read_ranking(made: tuple[Suspects, Workspace]) -> pd.DataFrame:
    return pd.read_parquet(made[1].path(made[0], "ranking.parquet"))


def open_sheet(made: tuple[Suspects, Workspace]) -> Any:
    return openpyxl.load_workbook(io.BytesIO(made[1].path(made[0], NAME).read_bytes()))


def test_every_picture_is_ranked_once_and_its_copies_with_it(tmp_path: Path) -> None:
    data = Set(tmp_path)
    data.add("a/1.png", "a", [0.9, 0.1])
    data.add("a/2.png", "a", [0.2, 0.8])
    data.add("b/1.png", "b", [0.3, 0.7])
    data.add("a/copy.png", "a", None, colour=1)
    data.add("b/2.png", "b", [0.1, 0.9])
    made = data.suspect([["a/1.png", "b/1.png"], ["b/2.png", "a/2.png"]])
    ranking = read_ranking(made)
    assert ranking["path"].tolist() == ["a/2.png", "a/copy.png", "b/1.png", "a/1.png", "b/2.png"]
    assert ranking["repeat_of"].tolist() == ["", "a/2.png", "", "", ""]
    assert ranking["suggested"].tolist() == ["b", "b", "b", "a", "b"]
    assert ranking["suspicious"].tolist() == [True, True, False, False, False]
    assert ranking["p_suggested"][1] == pytest.approx(0.8)
    record = made[0]
    assert (record.num_pictures, record.num_suspicious, record.num_folds) == (5, 2, 2)
    assert record.accuracy == 0.75  # of what was judged


def test_answers_that_do_not_cover_the_pictures_are_an_error(tmp_path: Path) -> None:
    data = Set(tmp_path)
    data.add("a/1.png", "a", [0.9, 0.1])
    data.add("b/1.png", "b", [0.3, 0.7])
    with pytest.raises(DataError, match="1 of its pictures have none"):
        data.suspect([["a/1.png"]])
    with pytest.raises(DataError, match=r"a/1\.png is answered twice"):
        data.suspect([["a/1.png", "b/1.png"], ["a/1.png"]])


def test_labels_of_pictures_with_several_are_joined(tmp_path: Path) -> None:
    data = Set(tmp_path, "multi_label")
    for number in range(4):
        data.add(f"{number}.png", "ok", [0.9, 0.1, 0.1])
        data.add(f"pit{number}.png", "pit+scratch", [0.1, 0.9, 0.9])
    data.add("wrong.png", "pit", [0.1, 0.9, 0.9])
    made = data.suspect([list(data.said)], ("ok", "pit", "scratch"))
    first = read_ranking(made).iloc[0]
    assert (first["path"], first["given"], first["suggested"]) == (
        *("wrong.png", "pit"),
        "pit+scratch",
    )
    book = open_sheet(made)
    choice = book["labels"].data_validations.dataValidation[0]
    assert choice.errorStyle == "warning"  # others than those of the list may be typed
    assert "joined with +" in " ".join(str(row[0].value) for row in book["how to"].iter_rows())


def test_the_sheet_holds_what_people_need(tmp_path: Path) -> None:
    data = Set(tmp_path)
    for path in ("=1+1.png", "+x.png", "-x.png", "@x.png", "a/plain.png"):
        data.add(path, "007", [0.9, 0.1])
    data.add("wrong.png", "007", [0.1, 0.9])
    data.add("b.png", "b", [0.2, 0.8])
    made = data.suspect([list(data.said)], ("007", "b"), all_shown=3, first_shown=2)
    book = open_sheet(made)
    sheet = book["labels"]
    header = [cell.value for cell in sheet[1]]
    columns = {
        name: [row[i] for row in sheet.iter_rows(min_row=2)] for i, name in enumerate(header)
    }
    paths = [cell.value for cell in columns["path"]]
    assert paths[0] == "wrong.png"
    assert set(paths) == set(data.said)
    for name in ("path", "given", "label"):
        for cell in columns[name]:
            assert (cell.data_type, cell.number_format, cell.quotePrefix) == ("s", "@", True)
    assert {cell.value for cell in columns["given"]} == {"007", "b"}
    assert [c.value for c in columns["label"]] == [c.value for c in columns["given"]]
    assert columns["suspicion"][0].value == pytest.approx(0.9)
    assert columns["suspicious"][0].value == "yes"
    assert columns["md5"][0].value == next(r["md5"] for r in data.rows if r["path"] == "wrong.png")
    assert (sheet.freeze_panes, sheet.auto_filter.ref) == ("B2", "A1:N8")
    choice = sheet.data_validations.dataValidation[0]
    assert (choice.type, str(choice.sqref), choice.errorStyle) == ("list", "E2:E8", "stop")
    assert choice.formula1 == "classes!$A$1:$A$3"
    assert [row[0].value for row in book["classes"].iter_rows()] == ["007", "b", REMOVE]
    said = " ".join(str(row[0].value) for row in book["how to"].iter_rows())
    assert "Only the first 2 rows have their picture" in said
    assert "corrections-2.xlsx" in said


def test_thumbnails_lie_in_their_rows(tmp_path: Path) -> None:
    data = Set(tmp_path)
    data.add("low.png", "a", [0.8, 0.2], colour=20)
    data.add("high.png", "a", [0.3, 0.7], colour=200)
    sheet = open_sheet(data.suspect([["low.png", "high.png"]]))["labels"]
    images = {image.anchor._from.row: image for image in sheet._images}
    assert sorted(images) == [1, 2]
    for row, red in ((1, 200), (2, 20)):
        assert (images[row].anchor._from.col, images[row].anchor.to.row) == (0, row)
        with Image.open(io.BytesIO(images[row]._data())) as picture:
            assert picture.format == "JPEG"
            assert picture.size == (60, 40)
            assert abs(picture.getpixel((30, 20))[0] - red) < 6  # type: ignore[index]
    assert sheet.row_dimensions[2].height == 75


def test_the_sheet_says_where_boxes_are_to_be_corrected(tmp_path: Path) -> None:
    data = Set(tmp_path)
    data.add("1.png", "a", [0.9, 0.1])
    data.rows[0] |= {"source": "boxes.csv", "place": "line 7"}
    made = data.suspect([["1.png"]], image_class="any_box")
    assert made[0].boxed
    book = open_sheet(made)
    row = [cell.value for cell in book["labels"][2]]
    assert (row[10], row[11]) == ("boxes.csv", "line 7")
    said = " ".join(str(row[0].value) for row in book["how to"].iter_rows())
    assert "come from boxes, which this sheet cannot correct" in said


def test_a_picture_that_changed_is_an_error(tmp_path: Path) -> None:
    data = Set(tmp_path)
    data.add("1.png", "a", [0.9, 0.1])
    data.rows[0]["md5"] = "0" * 32
    with pytest.raises(DataError, match=r"1\.png changed"):
        data.suspect([["1.png"]])
