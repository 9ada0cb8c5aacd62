"""A small run made by hand, for the tests of its report: real records, real bytes, no training."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from PIL import Image

from enginehouse.artifact import Source, Workspace
from enginehouse.build.record import Engine
from enginehouse.choose.record import Decision, Excess, Judged
from enginehouse.compare.record import Parity, Step
from enginehouse.engine import Contract, Sidecar, Target
from enginehouse.evaluate.evaluate import score
from enginehouse.evaluate.operating import find_point
from enginehouse.evaluate.point import OperatingConfig, OperatingPoint
from enginehouse.evaluate.record import DefectScores, RecallPoint, Scorecard, Split
from enginehouse.evaluate.units import Answers
from enginehouse.export.record import OnnxModel
from enginehouse.gates import GateResult
from enginehouse.ingest.record import DataVersion, Manifest
from enginehouse.measure.record import EAGER, Latency, MeasureConfig
from enginehouse.preparation import Preparation, Tiling
from enginehouse.prepare.record import Pack
from enginehouse.quantize.record import Candidate, QuantizedModel
from enginehouse.recipe import Recipe
from enginehouse.report.page import PageData
from enginehouse.road import Road, Tried
from enginehouse.store import Store, hash_file
from enginehouse.train.network import WEIGHTS, build_network
from enginehouse.train.record import ModelConfig, TrainedModel
from enginehouse.validate.record import Validated

CLASSES = ("<script>alert(1)</script>", "normal", "pit", "scratch", "划痕")
SIZE = 48
PER_CLASS = {"test": 16, "val": 4}
MODEL = {
    "model": ModelConfig(family="tiny", name="tiny_cnn"),
    "classes": CLASSES,
    "preparation": Preparation(size=SIZE),
    "mean": (0.5, 0.5, 0.5),
    "std": (0.2, 0.2, 0.2),
}
CONTRACT = Contract(preparation=Preparation(size=SIZE), classes=CLASSES)
RECIPE = {
    "name": "surfaces",
    "data": {"path": "data"},
    "quantize": {"candidates": [{"quantizer": "int8_ptq"}, {"quantizer": "bf16"}]},
}
SENSITIVITY = {
    "sensitivity": [
        {"name": "body.1", "kind": "conv2d", "sqnr_db": 31.5, "flips": 0, "lost": 0},
        {"name": "stem.<conv>", "kind": "conv2d", "sqnr_db": -1.25, "flips": 9, "lost": 7},
        {"name": "head", "kind": "linear", "sqnr_db": 42.0, "flips": 0, "lost": 0},
    ],
    "search": {
        **{"max_flips": 1, "num_pictures": 64, "flips": 0, "kept": ["stem.<conv>"]},
        "steps": [
            {"kept": 0, "flips": 9, "sqnr_db": -1.3},
            {"kept": 1, "flips": 0, "sqnr_db": 30.8},
        ],
    },
}
UNITS = {"errors": 20, "escapes": 16, "overkill": 4}  # of validation
FLIPS = [
    {"path": "pit/val0009_1.png", "part": "val9", "kind": "class"}
    | {"truth": "pit", "fp32": "pit", "answer": "scratch"}
    | {"alarm_fp32": 0.91, "alarm": 0.88},
    {"path": "scratch/val0013_1.png", "part": "val13", "kind": "lost defect"}
    | {"truth": "scratch", "fp32": "scratch", "answer": "normal"}
    | {"alarm_fp32": 0.71, "alarm": 0.22},
]


def make_page(folder: Path, **changes: Any) -> PageData:
    """A run that ended well; `changes` replace fields of its page."""
    here = Workspace(Store(folder / "store"), folder / "scratch")
    here.scratch.mkdir()
    source = _write_source(folder / "data")
    recipe = Recipe.model_validate(RECIPE)
    fields: dict[str, Any] = {
        "recipe": recipe,
        "road": _make_road(recipe, here),
        "workspace": here,
        "source": source,
        "gates": [
            GateResult("quality floor", "openvino", True, "macro F1 0.9001, wanted at least 0.8"),
            GateResult("champion", "openvino", False, "macro F1 0.9001, the champion has <0.95>"),
        ],
        "verdict": "champion",
        "headline": "surfaces v3 serves: as good as fp32, 4.2 times as fast as PyTorch",
        "data_page": _write_data_page(folder / "data.html"),
        "lineage": {"data version": "0f" * 16 + ".dir", "git commit": "4be1c02 (modified)"},
        "stages": [
            ("ingest", True, "same code, config and inputs; bytes verified", 1.2),
            ("train", False, "config epochs: 10 -> 12; input pack changed (a/<b>.png)", 61.5),
        ],
    }
    return PageData(**(fields | changes))


def cut_into_windows(page: PageData) -> PageData:
    """The same run as if its pictures had been windows: with positions, and scores of defects."""
    here, road = page.workspace, page.road
    index = pd.read_parquet(here.path(road.pack, "index.parquet"))
    index = index.assign(x=96, y=range(0, 48 * len(index), 48), width=64, height=64)
    index["clean"] = index["label"] == "normal"
    index.loc[index["label"].eq("normal").idxmax(), "clean"] = False  # shows too little of a defect
    index.to_parquet(here.scratch / "index.parquet")
    tiles = Tiling(size=64, overlap=0.25)
    pack = road.pack.model_copy(
        update={
            "files": {**road.pack.files, **here.seal(["index.parquet"])},
            "preparation": Preparation(size=SIZE, tiles=tiles, good="normal"),
        }
    )
    cards = {}
    for recall, (name, card) in zip((0.75, 0.8), road.scorecards.items(), strict=True):
        points = tuple(RecallPoint(limit=limit, threshold=0.5, recall=recall) for limit in (0.3, 1))
        defects = DefectScores(
            num_boxes=20,
            num_windows=80,
            num_clean=40,
            clean_megapixels=2.5,
            recall=recall + 0.1,
            false_alarms=1.2,
            points=points,
        )
        cards[name] = card.model_copy(update={"defects": defects})
    return replace(page, road=replace(road, pack=pack, scorecards=cards))


def _write_data_page(path: Path) -> Path:
    path.write_text("<p>Data report</p>")
    return path


def _write_source(folder: Path) -> Source:
    """What the quarantined files look like: a picture, half of one, and text."""
    folder.mkdir()
    noise = np.random.default_rng(1).integers(0, 255, (60, 90, 3), np.uint8)
    Image.fromarray(noise).save(folder / "beside.png")
    whole = (folder / "beside.png").read_bytes()
    (folder / "half <i>.png").write_bytes(whole[: len(whole) // 2])
    (folder / "文字.jpg").write_text("no picture")
    return Source(folder, {path.name: hash_file(path, "md5") for path in folder.iterdir()})


def _make_road(recipe: Recipe, here: Workspace) -> Road:
    manifest = _make_manifest(here)
    (here.scratch / "data_docs").mkdir()
    (here.scratch / "data_docs" / "index.html").write_text("<p>Data Docs</p>")
    validated = Validated(
        reports=here.seal(["data_docs/index.html"]),
        manifest=manifest.identity,
        num_expectations=12,
        failures=(),
        notes={
            "warnings": ["a picture without any detail: pit/1.png has 0.3 (wanted at least 0.5)"]
        },
    )
    data = DataVersion(digest="0f" * 16)
    pack = _make_pack(here)
    road = Road(data, manifest, validated, pack, _make_model(here))
    target = recipe.main_target
    for candidate in recipe.list_candidates():
        _shrink(road, candidate)
    tried = {
        candidate.label: _try(road, target, candidate, here)
        for candidate in recipe.list_candidates(target)
    }
    failed = "failed to build: no kernel takes <bf16> in node /head/Gemm"
    tried["bf16"] = Tried("bf16", "bf16", failed=failed)
    road.tried[target.name] = tried
    milliseconds = {"none": 3.4, "int8_ptq": 1.9, EAGER: 8.0}
    road.latencies[target.name] = _make_latency(milliseconds, tried)
    choose(road, target, "int8_ptq", here)
    return road


def choose(road: Road, target: Target, name: str, here: Workspace) -> None:
    """Let one of the candidates that were tried ship: decided, and scored on test."""
    tried = road.tried[target.name]
    road.chosen[target.name] = name
    road.decisions[target.name] = _make_decision(road, name)
    for place, each in {target.name: tried[name], f"{target.name}-fp32": tried["none"]}.items():
        assert each.engine and each.validation
        road.engines[place], road.validations[place] = each.engine, each.validation
        num_wrong = 7 if each.name == "none" else 8
        road.scorecards[place] = _score(road, each.engine, "test", num_wrong, each.validation, here)


def _make_latency(milliseconds: dict[str, float], tried: dict[str, Tried]) -> Latency:
    return Latency(
        engines={each.name: each.engine.identity for each in tried.values() if each.engine},
        device="0" * 64,
        config=MeasureConfig(),
        notes={
            "rows": [
                {"name": name, "milliseconds": ms, "pictures_per_second": 1e3 / ms}
                for name, ms in milliseconds.items()
            ],
            **{"batch": 1, "threads": 2, "rounds": 15},
            **{"device": "A Processor", "date": "2026-11-30T10:00:00+00:00"},
        },
    )


def _make_manifest(here: Workspace) -> Manifest:
    rows = [
        ("beside.png", "no label", "It lies beside the class folders, not inside one."),
        ("half <i>.png", "truncated or corrupt", "half <i>.png is truncated or corrupt: ends."),
        ("文字.jpg", "not an image", "文字.jpg is not an image: it looks like text."),
    ]
    table = pd.DataFrame(rows, columns=["path", "reason", "detail"]).assign(place="")
    table.to_parquet(here.scratch / "quarantine.parquet")
    table = pd.DataFrame({"path": _list_index()["path"], "source": "", "place": ""})
    table.loc[table["path"].str.contains("pit/"), ["source", "place"]] = ("<b>.xlsx", "Sheet1!B7")
    table.to_parquet(here.scratch / "manifest.parquet")
    files = here.seal(["manifest.parquet", "quarantine.parquet"])
    return Manifest(
        files=files,
        format="class_folders",
        classes=CLASSES,
        labels=CLASSES,
        label_ids={},
        good="",
        num_rows=81,
        num_boxes=0,
        num_quarantined=len(rows),
        num_errors=0,
    )


def _list_truth(split: str) -> NDArray[np.int64]:
    return np.repeat(np.arange(len(CLASSES)), PER_CLASS[split])


def _list_index() -> pd.DataFrame:
    tables = [
        pd.DataFrame(
            {
                "split": split,
                "row": range(len(_list_truth(split))),
                "path": [
                    f"{CLASSES[c]}/{split}{n:04}_1.png" for n, c in enumerate(_list_truth(split))
                ],
                "label": [CLASSES[c] for c in _list_truth(split)],
                "class_index": _list_truth(split),
                "part": [f"{split}{n}" for n in range(len(_list_truth(split)))],
            }
        )
        for split in PER_CLASS
    ]
    return pd.concat(tables, ignore_index=True)


def _make_pack(here: Workspace) -> Pack:
    rng = np.random.default_rng(2)
    for split in PER_CLASS:
        truth = _list_truth(split)
        pictures = rng.integers(90, 160, (len(truth), 3, SIZE, SIZE)).astype(np.uint8)
        pictures += (truth * 20).astype(np.uint8)[:, None, None, None]
        np.save(here.scratch / f"{split}-00000.npy", pictures)
    _list_index().to_parquet(here.scratch / "index.parquet")
    return Pack(
        files=here.seal(["test-00000.npy", "val-00000.npy", "index.parquet"]),
        notes={"dropped_duplicates": [["pit/copy.png", "pit/P0001_1.png"]]},
        classes=CLASSES,
        preparation=Preparation(size=SIZE),
        counts={"train": 0, **{split: len(_list_truth(split)) for split in PER_CLASS}},
        mean=(0.5, 0.5, 0.5),
        std=(0.2, 0.2, 0.2),
    )


def _make_model(here: Workspace) -> TrainedModel:
    import torch
    from safetensors.torch import save_file

    Image.new("RGB", (400, 448), "gray").save(here.scratch / "first_batch.png")
    np.save(here.scratch / "validation.npy", _say(_list_truth("val"), num_wrong=3))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = build_network(MODEL["model"], len(CLASSES))
    save_file(net.state_dict(), here.scratch / WEIGHTS)
    history = [
        {"epoch": n, "loss": 1.6 / n, "val_loss": 1.7 / n + 0.05, "images_per_s": 180.0}
        | {"accuracy": 1 - 0.7 / n, "macro_f1": 1 - 0.8 / n, "learning_rate": 0.001 / n}
        | {"grad_norm": 3 / n, "clipped": 0.25, "skipped": 0.0, "data_wait": 0.012}
        for n in range(1, 13)
    ]
    return TrainedModel(
        files=here.seal([WEIGHTS]),
        reports=here.seal(["first_batch.png", "validation.npy"]),
        notes={
            **{"history": history, "best_epoch": 11, "resumed": [40], "micro_batch": 16},
            **{"device": "A Processor, 2 threads", "devices": 1, "precision": "float32"},
            "warnings": ["memory ran out at 32 <pictures>"],
            "diagnosis": [
                {"symptom": "overfitting", "evidence": "0.9 & 0.1", "remedy": "train.augment"}
            ],
        },
        val_accuracy=0.936,
        val_macro_f1=0.927,
        temperature=1.5,
        **MODEL,
    )


def _say(truth: NDArray[np.int64], num_wrong: int) -> NDArray[np.float32]:
    """Probabilities that are right but for about so many rows, which are said to be normal."""
    answers = truth.copy()
    answers[:: len(truth) // num_wrong] = 1
    probabilities = np.full((len(truth), len(CLASSES)), 0.05, np.float32)
    certain = np.linspace(0.5, 0.99, len(truth), dtype=np.float32)
    probabilities[np.arange(len(truth)), answers] = certain
    shares: NDArray[np.float32] = probabilities / probabilities.sum(axis=1, keepdims=True)
    return shares


def _shrink(road: Road, candidate: Candidate) -> None:
    """A candidate down to its graph: what its quantizer noted, and the first steps of its chain."""
    name = candidate.label
    steps = [_step("torch fp32 -> ONNX", 3e-5, 0)]
    if name == "int8_ptq":
        steps = [
            _step("torch fp32 -> fake-quant", 0.06, 1),
            _step("fake-quant -> ONNX", 4e-4, 0),
        ]
    road.quantized[name] = QuantizedModel(
        notes=SENSITIVITY if name == "int8_ptq" else {},
        quantizer=candidate.quantizer,
        options=candidate.options,
        calibration="",
        kept_float=("stem.<conv>",) if name == "int8_ptq" else (),
        **MODEL,
    )
    road.onnx[name] = OnnxModel(
        notes={"parity": [step.model_dump() for step in steps]},
        contract=CONTRACT,
        precision=candidate.precision,
        data="0f" * 16,
    )


def _step(name: str, difference: float, flips: int) -> Step:
    return Step(
        name=name,
        num_pictures=32,
        max_difference=difference,
        mean_difference=difference / 10,
        flips=flips,
    )


def _try(road: Road, target: Target, candidate: Candidate, here: Workspace) -> Tried:
    """An engine, as large as its precision asks for, and its scores on validation."""
    tried = Tried(candidate.label, candidate.precision)
    num_bytes = 500_000 if candidate.precision == "int8" else 2_000_000
    (here.scratch / "engine.bin").write_bytes(candidate.label.encode() + b"0" * num_bytes)
    tried.engine = Engine(
        files=here.seal(["engine.bin"]),
        target=target.model_copy(update={"precision": candidate.precision}),
        sidecar=Sidecar(
            backend="openvino",
            library="openvino",
            library_version="2026.4.1",
            device={},
            precision=candidate.precision,
            batch=target.batch,
            contract=CONTRACT,
            onnx_sha256="0" * 64,
        ),
    )
    tried.parity = Parity(step=_step("ONNX -> openvino", 2e-3, 0))
    num_wrong = 4 if candidate.precision == "int8" else 3
    tried.validation = _score(road, tried.engine, "val", num_wrong, None, here)
    return tried


def _make_decision(road: Road, chosen: str) -> Decision:
    """One scratch is lost by INT8, which fp32 rejects; a pit is taken for a scratch."""
    nothing = {name: Excess(lost=0, gained=0, of=of, bound=0.0) for name, of in UNITS.items()}
    plain = Judged(
        **{"name": "none", "precision": "fp32", **nothing, "lost_defects": 0},
        **{"worst_class": "", "worst_loss": 0, "worst_allowed": 0, "broken": ()},
    )
    broken = "loses 1 of 16 defects, none may be lost"
    ptq = Judged(
        name="int8_ptq",
        precision="int8",
        errors=Excess(lost=2, gained=1, of=20, bound=0.181),
        escapes=Excess(lost=1, gained=0, of=16, bound=0.264),
        overkill=Excess(lost=0, gained=0, of=4, bound=0.527),
        lost_defects=1,
        worst_class="scratch",
        worst_loss=1,
        worst_allowed=1,
        broken=() if chosen == "int8_ptq" else (broken,),
    )
    reasons = {
        "none": "what all others are held against",
        "int8_ptq": "ships: 1.8 times as fast as fp32" if chosen == "int8_ptq" else broken,
    }
    return Decision(
        notes={
            "reasons": reasons,
            "milliseconds": {"none": 3.4, "int8_ptq": 1.9},
            "against": {"int8_ptq": "none"},
            "speedup": {"int8_ptq": 1.79},
            "flips": {"int8_ptq": FLIPS},
        },
        chosen=chosen,
        judged=(plain, ptq),
    )


def _score(
    road: Road,
    engine: Engine,
    split: Split,
    num_wrong: int,
    validation: Scorecard | None,
    here: Workspace,
) -> Scorecard:
    truth = _list_truth(split)
    answers = Answers(
        problem="single_label",
        classes=CLASSES,
        good=CLASSES.index("normal"),
        targets=np.eye(len(CLASSES), dtype=np.float32)[truth],
        probabilities=_say(truth, num_wrong),
        parts=np.arange(len(truth)),
    )
    np.save(here.scratch / "predictions.npy", answers.probabilities)
    point: OperatingPoint | None
    if validation:
        point, notes = validation.point, validation.notes["operating"]
    else:
        point, notes = find_point(answers, OperatingConfig(max_escape_rate=0.2))
    return Scorecard(
        files=here.seal(["predictions.npy"]),
        notes={"operating": notes},
        split=split,
        engine=engine.identity,
        pack=road.pack.identity,
        masked=None,
        slices=(),
        defects=None,
        **score(answers, point),
    )
