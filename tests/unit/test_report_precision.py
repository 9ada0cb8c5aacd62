"""What the report says of precision: the decision, what was lost for it, layers, and the chain."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from enginehouse.engine import Target
from enginehouse.report.flips import make_flips
from enginehouse.report.front import Engineered, is_best, make_front, place_labels
from enginehouse.report.page import PageData, render_page
from enginehouse.report.precision import make_precision
from enginehouse.report.report import write_report
from enginehouse.report.sensitivity import Layer, make_bars, make_sensitivity
from enginehouse.road import Tried
from tests.report_run import choose, cut_into_windows, make_page
from tests.unit.test_report import Reader


@pytest.fixture
def page(tmp_path: Path) -> PageData:
    return make_page(tmp_path)


def read_section(page: PageData, folder: Path) -> Reader:
    """The section about precision alone, as a browser reads it."""
    names = {"page": page, "precision": make_precision(page)}
    return Reader(render_page("precision.html.j2", folder / "part.html", names).read_text("utf-8"))


def test_it_says_what_ships_and_what_was_given_up(page: PageData, tmp_path: Path) -> None:
    text = read_section(page, tmp_path).text
    start = "INT8 (int8_ptq) ships on openvino: 1.8 times as fast as fp32."
    assert text.startswith(f"Precision {start}")
    for wanted in (
        "Of 20 answers on validation it loses 2 and gains 1: at most 18.1% more are wrong",
        "BF16 (bf16): failed to build: no kernel takes <bf16> in node /head/Gemm",
        "int8_ptq int8 ✓ ships MB 0.5 ms 1.90 Speed-up 1.79× fp32",
        "Errors 2 lost, 1 gained of 20; at most +18.1%",
        "Escapes 1 lost, 0 gained of 16; at most +26.4%",
        "Lost defects 1 Worst class scratch: 1, allowed 1",
        "fp32 does not ship MB 2 ms 3.40",
        "bf16 ✕ does not ship MB – ms – Speed-up –",
    ):
        assert wanted in text, wanted


def test_where_fp32_ships_the_report_says_why(page: PageData, tmp_path: Path) -> None:
    choose(page.road, page.target, "none", page.workspace)
    text = read_section(page, tmp_path).text
    assert "fp32 ships on openvino: no smaller candidate may." in text
    assert "INT8 (int8_ptq): loses 1 of 16 defects, none may be lost" in text
    assert "fp32 ✓ ships" in text
    whole = Reader(write_report(tmp_path / "out", page).read_text(encoding="utf-8")).text
    assert "FP32 engine" in whole
    assert "Speed against pytorch eager fp32 2.4×" in whole
    assert "Speed against fp32" not in whole


def test_lost_defects_come_first_and_are_seen(page: PageData, tmp_path: Path) -> None:
    reader = read_section(page, tmp_path)
    alts = [str(image["alt"]) for image in reader.find("img")]
    assert alts == [
        "scratch/val0013_1.png: scratch, fp32 says scratch (alarm 0.71), "
        "int8_ptq says normal (alarm 0.22)",
        "pit/val0009_1.png: pit, fp32 says pit (alarm 0.91), int8_ptq says scratch (alarm 0.88)",
    ]
    assert "which fp32 rejects and int8_ptq passes as good: 1. It ships." in reader.text
    assert "part val13, labelled scratch: a defect that fp32 rejects, passed as good" in reader.text


def test_of_a_tiled_picture_the_window_is_shown_that_changed_most(page: PageData) -> None:
    page = cut_into_windows(page)
    road, here = page.road, page.workspace
    index = pd.read_parquet(here.path(road.pack, "index.parquet"))
    # The lost scratch is a picture of two windows now, of which the second was answered anew.
    first = index["path"] == "scratch/val0013_1.png"
    second = index["path"] == "scratch/val0014_1.png"
    index.loc[second, "path"] = index.loc[first, "path"].item()
    index.to_parquet(here.scratch / "index.parquet")
    road.pack = road.pack.model_copy(
        update={"files": {**road.pack.files, **here.seal(["index.parquet"])}}
    )
    tried, decision = road.tried["openvino"], road.decisions["openvino"]
    card = tried["int8_ptq"].validation
    assert card
    said = np.load(here.path(card, "predictions.npy"))
    said[14] = np.roll(said[14], 2)
    np.save(here.scratch / "predictions.npy", said)
    files = here.seal(["predictions.npy"])
    tried["int8_ptq"].validation = card.model_copy(update={"files": files})
    (shown,) = make_flips(page, decision, tried)[0]["lost"]
    row = index[index["split"] == "val"].iloc[14]
    assert shown["window"] == f"at 96, {row['y']}: 64 × 64 px"


def test_a_target_without_its_device_is_told_shortly(page: PageData, tmp_path: Path) -> None:
    rtx = Target(name="rtx", backend="tensorrt_rtx", device="sm86", optional=True)
    recipe = page.recipe.model_copy(update={"targets": (*page.recipe.targets, rtx)})
    road, why = page.road, "built, but cannot be run here: no GPU"
    engine = road.engines["openvino"]
    road.tried["rtx"] = {"int8_ptq": Tried("int8_ptq", "int8", engine=engine, waiting=why)}
    road.chosen["rtx"], road.engines["rtx"], road.waiting["rtx"] = "int8_ptq", engine, why
    text = read_section(replace(page, recipe=recipe), tmp_path).text
    assert f"INT8 (int8_ptq) is taken for rtx, and was not judged here: {why}" in text
    assert "Every candidate on rtx" in text
    assert f"int8_ptq int8 waits MB 0.5 Why {why}" in text


def test_sensitivity_names_the_worst_layer_first_and_what_is_kept(
    page: PageData, tmp_path: Path
) -> None:
    reader = read_section(page, tmp_path)
    for wanted in (
        "Kept in float: stem.<conv>.",
        "0 of 64 validation pictures are answered otherwise than by fp32, 1 may be",
        "All 3 layers in numbers",
        "stem.<conv> conv2d kept in float −1.2 dB 9 7 body.1 conv2d 31.5 dB 0 0",
    ):
        assert wanted in reader.text, wanted
    labels = [str(svg["aria-label"]) for svg in reader.find("svg")]
    assert any("stem.<conv> −1.2 dB, kept in float; body.1 31.5 dB" in label for label in labels)
    assert any("layers in float 0 to 1: other answers 9 to 0; budget 1 to 1" in x for x in labels)


def test_bars_begin_at_zero_also_below_it() -> None:
    names = ("a", "b", "c")
    rows: list[dict[str, Any]] = [
        {"name": name, "kind": "conv2d", "sqnr_db": value, "flips": 0, "lost": 0}
        for name, value in zip(names, (-10.0, 20.0, 144.5), strict=True)
    ]
    bars = make_bars([Layer.model_validate(row) for row in rows], kept={"a"}).bars
    zero = bars[1].x
    assert bars[0].x + bars[0].width == pytest.approx(zero)
    assert bars[1].width == pytest.approx(2 * bars[0].width, abs=0.3)
    assert bars[2].value == "no change"
    assert bars[2].width >= bars[1].width
    assert [bar.kept for bar in bars] == [True, False, False]


def test_a_candidate_whose_layers_were_not_looked_at_has_no_plot(page: PageData) -> None:
    assert make_sensitivity("none", page.road.quantized["none"]) == {}
    assert [found["name"] for found in make_precision(page)["sensitivity"]] == ["int8_ptq"]


def test_training_with_rounding_is_drawn_as_training_is(page: PageData, tmp_path: Path) -> None:
    road = page.road
    trained = {name: road.model.notes[name] for name in ("history", "best_epoch", "warnings")}
    quantized = road.quantized["int8_ptq"]
    notes = {**quantized.notes, **trained}
    road.quantized["int8_ptq"] = quantized.model_copy(update={"notes": notes})
    reader = read_section(page, tmp_path)
    told = "Training on with rounding, int8_ptq memory ran out at 32 <pictures> Loss"
    assert told in reader.text
    labels = [str(svg["aria-label"]) for svg in reader.find("svg")]
    assert sum(label.startswith(("Loss, epochs", "Score on validation")) for label in labels) == 2


def test_the_chain_runs_from_torch_to_each_engine(page: PageData, tmp_path: Path) -> None:
    text = read_section(page, tmp_path).text
    chain = text[text.index("Parity chain") :]
    places = [
        chain.index(wanted)
        for wanted in (
            "torch fp32 -> ONNX fp32 3.0e-05 3.0e-06 0 of 32",
            "ONNX -> openvino fp32, openvino 2.0e-03 2.0e-04 0 of 32",
            "torch fp32 -> fake-quant int8_ptq 6.0e-02 6.0e-03 1 of 32",
            "fake-quant -> ONNX int8_ptq 4.0e-04 4.0e-05 0 of 32",
            "ONNX -> openvino int8_ptq, openvino 2.0e-03",
        )
    ]
    assert places == sorted(places)


SIDES = (
    Engineered("fp32", 40_000_000, 3.4, 0.95, chosen=False),
    Engineered("fp16", 20_000_000, 3.6, 0.95, chosen=False),
    Engineered("int8", 10_000_000, 1.9, 0.94, chosen=True),
    Engineered("worse", 10_000_000, 2.0, 0.93, chosen=False),
)


def test_the_front_is_what_nothing_beats_in_everything() -> None:
    assert [is_best(side, SIDES) for side in SIDES] == [True, True, True, False]
    front = make_front("Macro F1", SIDES)
    fp32, _, int8, _ = front.dots
    assert fp32.radius == pytest.approx(2 * int8.radius)  # a quarter of the bytes
    assert int8.x < fp32.x
    assert int8.y > fp32.y  # down the page is worse
    assert "int8 0.940 at 1.90 ms, 10 MB, ships" in front.summary
    assert int8.name == "int8 ✓"


def test_labels_lie_beside_each_other_where_dots_lie_together() -> None:
    circles = [(180.0, 120.0, 8.0), (184.0, 122.0, 8.0), (178.0, 118.0, 8.0)]
    places = place_labels(circles, ["int8_ptq", "int8_qat", "int8_mixed"])
    for first, (x, y) in enumerate(places):
        for other_x, other_y in places[first + 1 :]:
            assert abs(y - other_y) >= 13 or abs(x - other_x) >= 50
    ((x, _),) = place_labels([(355.0, 120.0, 8.0)], ["a_rather_long_name"])
    assert x + 18 * 6.2 / 2 <= 360
