"""Pictures with several labels, from the label file to the served graph."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import openpyxl
import pandas as pd
import pytest
from numpy.typing import NDArray
from PIL import Image

from enginehouse.artifact import Source, Workspace
from enginehouse.choices import load_choice
from enginehouse.errors import QuantizationError, RecipeError
from enginehouse.export.export import ExportConfig, export
from enginehouse.ingest.ingest import IngestConfig, ingest
from enginehouse.ingest.record import DataVersion, Manifest
from enginehouse.prepare.config import PrepareConfig
from enginehouse.prepare.prepare import prepare
from enginehouse.prepare.record import Pack
from enginehouse.quantize.quantize import quantize
from enginehouse.quantize.record import QuantizeConfig
from enginehouse.store import Store
from enginehouse.train.record import TrainedModel
from enginehouse.train.splits import read_split
from enginehouse.train.train import train
from enginehouse.validate.record import Validated
from enginehouse.validate.tables import make_tables
from enginehouse.validate.validate import ValidateConfig, validate
from tests.unit.ingesting import Data, Ingested, draw, encode
from tests.unit.tiny_pack import tiny_config

MULTI = {"problem": "multi_label"}


@pytest.fixture
def data(tmp_path: Path) -> Data:
    return Data(tmp_path)


def _put_pictures(data: Data, count: int = 4) -> None:
    for number in range(count):
        data.put(f"{number}.png")


def _labels(done: Ingested) -> dict[str, list[str]]:
    return {
        path: list(labels)
        for path, labels in zip(done.pictures["path"], done.pictures["labels"], strict=True)
    }


def _put_workbook(data: Data, *rows: tuple[object, ...]) -> None:
    book = openpyxl.Workbook()
    sheet: Any = book.active
    for row in rows:
        sheet.append(row)
    stream = io.BytesIO()
    book.save(stream)
    data.put("labels.xlsx", stream.getvalue())


def test_several_rows_of_a_picture_give_it_several_labels(data: Data) -> None:
    _put_pictures(data)
    rows = "file,label\n0.png,scratch\n0.png,pit\n1.png,scratch\n2.png,scratch\n3.png,normal\n"
    data.put("labels.csv", rows)
    done = data.ingest(**MULTI)
    assert _labels(done) == {
        "0.png": ["pit", "scratch"],
        "1.png": ["scratch"],
        "2.png": ["scratch"],
        "3.png": ["normal"],
    }
    assert done.labels["0.png"] == "pit"  # the rarest of its labels
    assert done.record.classes == ("normal", "pit", "scratch")
    assert done.record.problem == "multi_label"
    assert done.record.num_errors == 0


def test_the_same_rows_are_a_conflict_where_a_picture_has_one_label(data: Data) -> None:
    _put_pictures(data, 2)
    data.put("labels.csv", "file,label\n0.png,scratch\n0.png,pit\n1.png,a;b\n")
    done = data.ingest()
    assert "two labels" in done.find("label conflict", "error")
    assert done.labels["1.png"] == "a;b"  # a label like any other
    assert done.record.problem == "single_label"


@pytest.mark.parametrize("cell", ["scratch; pit", "scratch|pit", '" pit ;scratch;pit;"'])
def test_a_cell_may_hold_several_labels(data: Data, cell: str) -> None:
    _put_pictures(data, 3)
    data.put("labels.csv", f"file,label\n0.png,{cell}\n1.png,pit\n2.png,;\n")
    done = data.ingest(**MULTI)
    assert _labels(done) == {"0.png": ["pit", "scratch"], "1.png": ["pit"]}
    assert done.reasons["2.png"] == "no usable label"
    assert "duplicate row" not in set(done.findings["reason"])


@pytest.mark.parametrize("kind", ["csv", "excel"])
def test_columns_of_0_and_1_stand_for_a_class_each(data: Data, kind: str) -> None:
    _put_pictures(data)
    rows: list[tuple[object, ...]] = [
        ("file", "pit", "scratch", "remark", "dent"),
        ("0.png", 1, 1, "old", 0),
        ("1.png", 0, 0, "", 0),
        ("2.png", 0, 1.0, "new", 0),
        ("3.png", 0, 1, "", None),
    ]
    if kind == "excel":
        _put_workbook(data, *rows)
    else:
        text = ("," if x is None else f"{x}," for row in rows for x in (*row, "\n"))
        data.put("labels.csv", "".join(text).replace(",\n,", "\n"))
    done = data.ingest(**MULTI)
    assert _labels(done) == {
        "0.png": ["pit", "scratch"],
        "1.png": ["normal"],  # nothing of it all
        "2.png": ["scratch"],
    }
    assert done.record.classes == ("pit", "scratch", "dent", "normal")
    assert done.reasons["3.png"] == "no usable label"  # a blank cell is no 0
    assert "'remark'" in done.find("columns not read", "info")


def test_a_column_for_good_ones_leaves_no_picture_without_a_one(data: Data) -> None:
    _put_pictures(data, 3)
    data.put("labels.csv", "file,normal,pit\n0.png,1,0\n1.png,0,1\n2.png,0,0\n")
    done = data.ingest(**MULTI)
    assert _labels(done) == {"0.png": ["normal"], "1.png": ["pit"]}
    assert done.reasons["labels.csv"] == "no label"


def test_a_class_may_be_called_what_means_something_else_elsewhere(data: Data) -> None:
    _put_pictures(data, 2)
    data.put("labels.csv", "file,defect,top,pit\n0.png,1,0,1\n1.png,0,1,0\n")
    done = data.ingest(**MULTI, labels={"classes": ["defect", "top", "pit"]})
    assert _labels(done) == {"0.png": ["defect", "pit"], "1.png": ["top"]}


def test_a_label_column_of_0_and_1_beside_others_is_doubtful(data: Data) -> None:
    _put_pictures(data, 2)
    data.put("labels.csv", "file,defect,pit\n0.png,1,0\n1.png,0,1\n")
    done = data.ingest(**MULTI)
    said = done.find("label or classes", "error")
    assert "'defect' holds 0 and 1, and so does 'pit'" in said
    assert "Name the classes" in said
    mapped = data.ingest(**MULTI, labels={"columns": {"label": "defect"}})
    assert _labels(mapped) == {"0.png": ["1"], "1.png": ["0"]}


def test_without_several_labels_such_columns_are_no_labels(data: Data) -> None:
    _put_pictures(data, 2)
    data.put("labels.csv", "file,pit,scratch\n0.png,1,0\n1.png,0,1\n")
    assert "neither a label nor a box" in data.ingest().find("no label column", "error")


def _put_coco(data: Data) -> None:
    names = {1: "scratch", 2: "pit"}
    boxes = [(0, 1), (0, 2), (0, 2), (1, 2), (2, 2)]
    coco = {
        "images": [{"id": n, "file_name": f"{n}.png", "width": 32, "height": 24} for n in range(4)],
        "categories": [{"id": n, "name": name} for n, name in names.items()],
        "annotations": [
            {"id": n, "image_id": image, "category_id": kind, "bbox": [2 * n, 2, 5, 5]}
            for n, (image, kind) in enumerate(boxes)
        ],
    }
    data.put("instances.json", json.dumps(coco))


def _put_yolo(data: Data) -> None:
    data.put("classes.txt", "scratch\npit\n")
    boxes = {0: [0, 1, 1], 1: [1], 2: [1]}
    for image, kinds in boxes.items():
        lines = (f"{k} 0.{2 + n} 0.5 0.1 0.1\n" for n, k in enumerate(kinds))
        data.put(f"{image}.txt", "".join(lines))


def _put_voc(data: Data) -> None:
    for image, kinds in {0: ["scratch", "pit", "pit"], 1: ["pit"], 2: ["pit"], 3: []}.items():
        objects = "".join(
            f"<object><name>{kind}</name><bndbox><xmin>{2 + n}</xmin><ymin>2</ymin>"
            f"<xmax>{9 + n}</xmax><ymax>9</ymax></bndbox></object>"
            for n, kind in enumerate(kinds)
        )
        size = "<size><width>32</width><height>24</height><depth>3</depth></size>"
        data.put(
            f"{image}.xml",
            f"<annotation><filename>{image}.png</filename>{size}{objects}</annotation>",
        )


@pytest.mark.parametrize("put", [_put_coco, _put_yolo, _put_voc])
def test_a_picture_bears_the_labels_of_its_boxes(data: Data, put: Callable[[Data], None]) -> None:
    _put_pictures(data)
    put(data)
    done = data.ingest(**MULTI)
    assert _labels(done) == {
        "0.png": [*done.record.labels],
        "1.png": ["pit"],
        "2.png": ["pit"],
        "3.png": ["normal"],
    }
    assert set(done.record.labels) == {"scratch", "pit"}
    assert done.labels["0.png"] == "scratch"
    assert done.record.classes == ("normal", *done.record.labels)
    assert done.record.image_class == "per_label"
    assert len(done.boxes) == 5


def test_copies_in_two_class_folders_bear_both_labels(data: Data) -> None:
    data.put_classes("pit", "scratch", "normal")
    twice, torn = encode(draw(100)), encode(draw(101))
    for folder in ("pit", "scratch"):
        data.put(f"{folder}/twice.png", twice)
    for folder in ("pit", "normal"):
        data.put(f"{folder}/torn.png", torn)
    done = data.ingest(**MULTI)
    both = ["normal", "pit", "scratch"][1:]
    assert _labels(done)["pit/twice.png"] == _labels(done)["scratch/twice.png"] == both
    assert _labels(done)["pit/0.png"] == ["pit"]
    # Good and a defect: nobody can say which is right.
    assert done.reasons == dict.fromkeys(("pit/torn.png", "normal/torn.png"), "label conflict")
    usual = data.ingest()
    assert set(usual.reasons.values()) == {"label conflict"}
    assert len(usual.reasons) == 4


def test_copies_under_different_rows_are_still_a_conflict(data: Data) -> None:
    data.put("0.png", encode(draw(50)))
    data.put("1.png", encode(draw(50)))
    data.put("2.png")
    data.put("labels.csv", "file,label\n0.png,pit\n1.png,scratch\n2.png,pit|normal\n")
    done = data.ingest(**MULTI)
    assert done.reasons == dict.fromkeys(("0.png", "1.png", "2.png"), "label conflict")
    (detail,) = done.quarantine.loc[done.quarantine["path"] == "2.png", "detail"]
    assert detail.startswith("2.png is said to be normal and pit (labels.csv, line 4)")


def test_labels_that_are_not_declared_are_found_but_good_need_not_be(data: Data) -> None:
    _put_pictures(data, 3)
    data.put("labels.csv", "file,label\n0.png,pit|dent\n1.png,pit\n2.png,normal\n")
    done = data.ingest(**MULTI, labels={"classes": ["pit"]})
    assert "labels dent that are not among the declared pit" in done.find("undeclared label")


# The whole road, on drawn parts with coloured bands.

COLOURS = {"scratch": 0, "pit": 1, "stain": 2}


def _draw_part(labels: list[str], seed: int) -> bytes:
    rng = np.random.default_rng(seed)
    pixels = rng.integers(90, 150, (32, 32, 3))
    for label in labels:
        top = rng.integers(2, 24)
        pixels[top : top + 5, 4:28, COLOURS[label]] += 80
    stream = io.BytesIO()
    Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(stream, "PNG")
    return stream.getvalue()


class Walk:
    """The stages of a small data set, called one after another."""

    def __init__(self, root: Path, count: int) -> None:
        self.root = root
        self.folder = root / "data"
        self.folder.mkdir()
        self.store = Store(root / "store")
        rng = np.random.default_rng(5)
        lines = ["file,labels"]
        for number in range(count):
            chances = rng.random(3) < (0.5, 0.25, 0.0)
            borne = [name for name, is_on in zip(COLOURS, chances, strict=True) if is_on]
            borne += ["stain"] if borne and rng.random() < 0.5 else []
            content = _draw_part(borne, number)
            (self.folder / f"{number:03}.png").write_bytes(content)
            lines.append(f"{number:03}.png,{'|'.join(borne) or 'normal'}")
        (self.folder / "labels.csv").write_text("\n".join(lines))
        self.data = DataVersion(digest="d")

    def here(self) -> Workspace:
        scratch = self.root / f"scratch{len(list(self.root.glob('scratch*')))}"
        scratch.mkdir()
        listing = {
            path.name: hashlib.md5(path.read_bytes()).hexdigest()
            for path in sorted(self.folder.iterdir())
        }
        return Workspace(self.store, scratch, sources={"d": Source(self.folder, listing)})

    def ingest(self) -> Manifest:
        return ingest(self.data, IngestConfig.model_validate(MULTI), self.here())


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Walk:
    return Walk(tmp_path_factory.mktemp("walk"), 200)


@pytest.fixture(scope="module")
def manifest(walk: Walk) -> Manifest:
    return walk.ingest()


@pytest.fixture(scope="module")
def validated(walk: Walk, manifest: Manifest) -> Validated:
    return validate(manifest, ValidateConfig(min_rows=200), walk.here())


@pytest.fixture(scope="module")
def pack(walk: Walk, manifest: Manifest, validated: Validated) -> Pack:
    return prepare(walk.data, manifest, validated, PrepareConfig(size=32), walk.here())


@pytest.fixture(scope="module")
def model(walk: Walk, pack: Pack) -> TrainedModel:
    config = tiny_config(
        epochs=20, learning_rate=5e-3, loss={"name": "bce"}, patience=20, batch_size=16
    )
    return train(pack, config, walk.here())


def test_classes_are_counted_by_all_labels_when_data_is_judged(
    walk: Walk, manifest: Manifest, validated: Validated
) -> None:
    files = walk.here().paths(manifest)
    pictures = pd.read_parquet(files["manifest.parquet"])
    counts = pictures["labels"].explode().value_counts()
    assert (pictures["label"] == "scratch").sum() < counts["scratch"]  # others are rarer
    judged = make_tables(manifest, files)["classes"].set_index("id")["pictures"]
    assert judged.to_dict() == counts.to_dict()
    assert validated.failures == ()


def test_the_index_of_a_pack_lists_all_labels(walk: Walk, manifest: Manifest, pack: Pack) -> None:
    here = walk.here()
    index = pd.read_parquet(here.path(pack, "index.parquet"))
    pictures = pd.read_parquet(here.path(manifest, "manifest.parquet")).set_index("path")
    for row in index.itertuples():
        said = pictures.loc[str(row.path)]
        indices: Any = row.class_indices
        assert [pack.classes[number] for number in indices] == list(said["labels"])
        assert row.label == said["label"] == pack.classes[int(str(row.class_index))]
    assert pack.problem == "multi_label"
    split = read_split(pack, "train", here)
    hot = index[index["split"] == "train"].sort_values("row")["class_indices"].map(len)
    assert split.targets.sum(axis=1).tolist() == hot.tolist()
    assert split.count_classes().tolist() == split.targets.sum(axis=0).tolist()


def test_a_class_that_never_is_the_rarest_can_be_split_and_calibrated_on(tmp_path: Path) -> None:
    walk = Walk(tmp_path, 60)
    labels = ("pit;scratch", "pit;stain", "normal")
    rows = (f"{number:03}.png,{labels[number % 3]}\n" for number in range(60))
    (walk.folder / "labels.csv").write_text("file,label\n" + "".join(rows))
    manifest = walk.ingest()
    pack = prepare(walk.data, manifest, _let_through(manifest), PrepareConfig(size=32), walk.here())
    index = pd.read_parquet(walk.here().path(pack, "index.parquet"))
    assert "pit" not in set(index["label"])
    config = tiny_config(epochs=1, loss={"name": "bce"}, warmup_epochs=0)
    model = train(pack, config, walk.here())
    quantized = quantize(model, pack, QuantizeConfig(num_pictures=12), walk.here())
    notes: Any = quantized.notes["calibration"]
    assert notes["per_class"]["pit"] == 8  # the rarest labels are taken in turn
    assert quantized.problem == "multi_label"
    other = pack.model_copy(update={"problem": "single_label"})
    with pytest.raises(QuantizationError, match="trained with problem multi_label"):
        quantize(model, other, QuantizeConfig(num_pictures=12), walk.here())


def _let_through(manifest: Manifest) -> Validated:
    return Validated(manifest=manifest.identity, num_expectations=0, failures=())


def test_windows_are_refused_when_preparing(walk: Walk, manifest: Manifest) -> None:
    config = PrepareConfig.model_validate({"size": 32, "tiles": {"size": 16}})
    with pytest.raises(RecipeError, match="does not go with the problem multi_label"):
        prepare(walk.data, manifest, _let_through(manifest), config, walk.here())


def test_several_labels_are_learnt_and_served_as_sigmoids(
    walk: Walk, pack: Pack, model: TrainedModel
) -> None:
    assert model.problem == "multi_label"
    assert model.val_macro_f1 > 0.75
    here = walk.here()
    plain = quantize(model, pack, QuantizeConfig(quantizer="none"), walk.here())
    onnx = export(plain, model, pack, walk.data, ExportConfig(), here)
    assert onnx.contract.problem == "multi_label"
    session = onnxruntime.InferenceSession(here.path(onnx, "model.onnx"))
    contract = json.loads(session.get_modelmeta().custom_metadata_map["contract"])
    assert contract["problem"] == "multi_label"
    truth, probabilities = _answer(session, read_split(pack, "test", here))
    assert not np.allclose(probabilities.sum(axis=1), 1, atol=0.05)
    problem: Any = load_choice("problems", model.problem)
    assert problem.score(truth, probabilities, pack.classes).macro_f1 > 0.75
    assert (problem.decide(probabilities).sum(axis=1) > 1).any()
    told = np.load(here.path(model, "validation.npy"))
    assert ((told >= 0) & (told <= 1)).all()


def _answer(session: Any, split: Any) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    pictures, targets = split.pick(np.arange(len(split)))
    (probabilities,) = session.run(None, {"pictures": pictures.numpy()})
    return targets.numpy(), probabilities
