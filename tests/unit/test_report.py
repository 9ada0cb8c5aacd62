"""The report page of a small run made by hand: what it says, and what it must never do."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from safetensors.torch import save_file
from torch import nn

from enginehouse import models
from enginehouse.choices import load_choice
from enginehouse.errors import StoreError
from enginehouse.preparation import Cleaning
from enginehouse.prepare.shards import PackedPictures
from enginehouse.report.calibration import (
    measure_reliability,
    trace_precision,
    undo_temperature,
)
from enginehouse.report.chart import find_ticks, make_chart
from enginehouse.report.gradcam import find_evidence
from enginehouse.report.page import PageData
from enginehouse.report.report import write_report
from enginehouse.report.statements import Statements, read_shipped
from enginehouse.report.tables import make_confusion
from enginehouse.road import Tried
from enginehouse.train.network import WEIGHTS, build_network
from enginehouse.train.record import ModelConfig
from tests.report_run import CLASSES, cut_into_windows, make_page

MEGABYTE = 1_000_000


class Reader(HTMLParser):
    """Collects what a browser would: tags, texts, and every address."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data.strip())

    def find(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    @property
    def text(self) -> str:
        return " ".join(text for text in self.texts if text)


@pytest.fixture
def page(tmp_path: Path) -> PageData:
    return make_page(tmp_path)


def make_statements(
    problem: str, targets: NDArray[np.float32], said: NDArray[np.float32]
) -> Statements:
    """Statements without pictures."""
    return Statements(
        split="val",
        problem=problem,
        classes=tuple("ab"),
        table=pd.DataFrame(index=range(len(said))),
        pictures=PackedPictures([], 32),
        rows=np.arange(len(said)),
        targets=targets,
        probabilities=said,
    )


def read(page: PageData, folder: Path) -> Reader:
    return Reader(write_report(folder / "out", page).read_text(encoding="utf-8"))


def test_it_says_what_came_of_the_run(page: PageData, tmp_path: Path) -> None:
    text = read(page, tmp_path).text
    for wanted in (
        *("champion", page.headline, "1 of 2 passed", "the champion has <0.95>"),
        *("4.2×", "1.90 ms instead of 8.00 ms", "A Processor, 2026-11-30 10:00 UTC"),
        *("6 of 64", "0 of 16", "quarantined: 3, repeated: 1"),
        *("defective pictures passed as good", "It was interrupted and went on after step 40"),
        *("overfitting", "0.9 & 0.1", "train.augment", "memory ran out at 32 <pictures>"),
        *("at most 16 pictures at once", "with temperature 1.50, on 20 validation pictures"),
        *("pit/copy.png", "a picture without any detail", "1 of 2 stages were cached"),
        *("config epochs: 10 -> 12; input pack changed (a/<b>.png)", "4be1c02 (modified)"),
        *(
            "0 train, 20 val, 80 test",
            "11 ★ kept",
            "openvino on cpu, int8, openvino 2026.4.1",
            "3.0e-05",
            "0 of 32",
        ),
    ):
        assert wanted in text, wanted


def test_wrong_answers_come_first_and_the_worst_first(page: PageData, tmp_path: Path) -> None:
    reader = read(page, tmp_path)
    alts = [str(image["alt"]) for image in reader.find("img") if "labelled" in str(image["alt"])]
    said = [re.fullmatch(r".*: labelled (.*), said to be (.*)", alt) for alt in alts]
    pairs = [(found[1], found[2]) for found in said if found]
    assert len(pairs) == 12
    assert all(label != answer for label, answer in pairs[:6])
    assert [label for label, _ in pairs[6:]] == [*CLASSES, CLASSES[0]]
    assert all(label == answer for label, answer in pairs[6:])
    text = reader.text
    wrong = text[text.index("Worst mistakes") : text.index("Right, one class")]
    likely = [float(number) for number in re.findall(r"labelled \S+ ([\d.]+)%", wrong)]
    assert len(likely) == 6
    assert likely == sorted(likely)
    assert "part test40 label from <b>.xlsx Sheet1!B7" in wrong
    evidence = [image for image in reader.find("img") if "speaks for" in str(image["alt"])]
    assert len(evidence) == 6
    assert all("What speaks for normal in " in str(image["alt"]) for image in evidence)


def test_what_others_wrote_is_text_and_never_markup(page: PageData, tmp_path: Path) -> None:
    page = replace(page, verdict="<b>", headline="a & <img src=x>", lineage={"<u>": "</table>"})
    reader = read(page, tmp_path)
    assert not reader.find("script")
    assert not reader.find("i")
    assert not reader.find("u")
    assert all(
        str(image["src"]).startswith("data:image/jpeg;base64,") for image in reader.find("img")
    )
    for wanted in ("<script>alert(1)</script>", "half <i>.png", "a & <img src=x>", "</table>"):
        assert wanted in reader.text
    assert "划痕" in reader.text


def test_it_is_one_small_file_that_loads_nothing(page: PageData, tmp_path: Path) -> None:
    reader = read(page, tmp_path)
    html = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert len(html) < MEGABYTE
    assert not reader.find("link")
    assert "url(" not in html
    assert "@import" not in html
    links = [str(link["href"]) for link in reader.find("a")]
    assert all(
        link.startswith("#") or link in ("data.html", "data_docs/index.html") for link in links
    )
    assert (tmp_path / "out" / "data_docs" / "index.html").read_text() == "<p>Data Docs</p>"
    ids = {attributes["id"] for _, attributes in reader.tags if "id" in attributes}
    assert {link[1:] for link in links if link.startswith("#")} <= ids
    (tmp_path / "out" / "data_docs" / "of an earlier run.html").touch()
    write_report(tmp_path / "out", page)
    assert [path.name for path in (tmp_path / "out" / "data_docs").iterdir()] == ["index.html"]
    written = {path.name for path in (tmp_path / "out").iterdir()}
    plots = {"curves", "confusion", "precision", "calibration", "mistakes"}
    assert written == {"report.html", "data.html", "data_docs"} | {f"{name}.png" for name in plots}


def test_it_can_be_read_without_seeing(page: PageData, tmp_path: Path) -> None:
    reader = read(page, tmp_path)
    assert reader.find("html") == [{"lang": "en"}]
    assert all(image["alt"] for image in reader.find("img"))
    drawings = [svg for svg in reader.find("svg") if svg["role"] == "img"]
    # Four charts of training, three of precision, two unreadable files.
    assert len(drawings) == len(reader.find("svg")) == 9
    assert all(svg["aria-label"] for svg in drawings)
    assert all(head["scope"] in ("col", "row") for head in reader.find("th"))


def test_pictures_that_changed_or_went_are_left_out_and_said(
    page: PageData, tmp_path: Path
) -> None:
    (page.source.folder / "beside.png").write_bytes(b"another file")
    (page.source.folder / "half <i>.png").unlink()
    reader = read(page, tmp_path)
    assert "beside.png" not in [image["alt"] for image in reader.find("img")]
    assert "Changed since this run, so not shown." in reader.text
    assert "No longer there, so not shown." in reader.text


def test_a_run_whose_engine_waits_still_has_a_report(page: PageData, tmp_path: Path) -> None:
    reason = "cannot be built here: <no library>"
    road = replace(
        page.road,
        **{"engines": {}, "scorecards": {}, "latencies": {}, "decisions": {}, "chosen": {}},
        tried={"openvino": {"none": Tried("none", "fp32", waiting=reason)}},
        waiting={"openvino": reason},
    )
    waiting = replace(page, road=road, gates=[], verdict="waiting")
    text = read(waiting, tmp_path).text
    assert "No gate was applied" in text
    assert f"has no scores: {reason}" in text
    assert f"Nothing was decided on openvino: {reason}" in text
    assert "What the network said of the val pictures" in text
    assert "3 of 20 are wrong" in text


def test_tiled_run_shows_its_windows_and_the_defects_found(page: PageData, tmp_path: Path) -> None:
    assert "Defects found" not in read(page, tmp_path).text
    reader = read(cut_into_windows(page), tmp_path)
    for wanted in (
        *("Defects found 85.0%", "20 labelled defects", "40 of 80 windows", "2.5 megapixels"),
        *("at most 0.3 80.0% 75.0%", "1.2, by the engine's own answers 90.0% 85.0%"),
        *(
            "of 79 are wrong",
            "100 windows of 5 classes",
            "said of the test windows",
            "Windows used",
            "Windows/s",
        ),
    ):
        assert wanted in reader.text, wanted
    alts = [str(image["alt"]) for image in reader.find("img") if "labelled" in str(image["alt"])]
    assert len(alts) == 12
    assert all(re.search(r"\.png at 96, \d+: 64 × 64 px: labelled", alt) for alt in alts)


def test_many_classes_show_their_commonest_mistakes() -> None:
    num = 40
    names = tuple(f"class {place}" for place in range(num))
    confusion = [[10 if row == column else 0 for column in range(num)] for row in range(num)]
    confusion[3][5], confusion[7][1] = 2, 6
    shown = make_confusion(names, confusion)
    assert shown["pairs"][:2] == [("class 7", "class 1", 6), ("class 3", "class 5", 2)]
    assert not shown["rows"]


def test_bytes_that_are_gone_are_named(page: PageData, tmp_path: Path) -> None:
    blob = page.road.scorecards["openvino"].files["predictions.npy"]
    page.workspace.store.blob_path(blob).unlink()
    with pytest.raises(StoreError, match=r"predictions\.npy is missing"):
        write_report(tmp_path / "out", page)


@pytest.mark.filterwarnings("error")
def test_plots_are_pictures_also_of_names_that_no_font_has(page: PageData, tmp_path: Path) -> None:
    names = (*CLASSES[:-1], "\U00013080 $x_")
    road = page.road
    road.pack = road.pack.model_copy(update={"classes": names})
    road.model = road.model.model_copy(update={"classes": names})
    write_report(tmp_path / "out", page)
    paths = sorted((tmp_path / "out").glob("*.png"))
    assert len(paths) == 5
    for path in paths:
        with Image.open(path) as picture:
            assert min(picture.size) >= 400


def test_several_labels_have_no_matrix_and_name_what_is_most_wrong(
    page: PageData, tmp_path: Path
) -> None:
    road, here = page.road, page.workspace
    index = pd.read_parquet(here.path(road.pack, "index.parquet"))
    # Every scratch has a pit in it, of which the engine says nothing.
    pit, scratch = CLASSES.index("pit"), CLASSES.index("scratch")
    index["class_indices"] = [
        [pit, scratch] if label == scratch else [label] for label in index["class_index"]
    ]
    index.to_parquet(here.scratch / "index.parquet")
    several: dict[str, Any] = {"problem": "multi_label"}
    files = {**road.pack.files, **here.seal(["index.parquet"])}
    road.pack = road.pack.model_copy(update={**several, "files": files})
    road.model = road.model.model_copy(update=several)
    for cards in (road.scorecards, road.validations):
        for name, card in cards.items():
            cards[name] = card.model_copy(update={"confusion": ()})
    text = read(page, tmp_path).text
    assert "Confusion of" not in text
    assert not (tmp_path / "out" / "confusion.png").exists()
    wrong = text[text.index("Worst mistakes") : text.index("Right, one class")]
    assert "labelled pit + scratch" in wrong
    assert re.search(r"✕ \S+ pit [\d.]+%", wrong)


def test_evidence_lies_where_the_class_is_seen() -> None:
    """A network whose last map is bright where the picture is, and that says so for class 1."""
    net = nn.Sequential(
        nn.Conv2d(3, 2, 1, bias=False), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2, 2)
    ).eval()
    weights = torch.zeros(2, 3, 1, 1)
    weights[0] = 1 / 3
    net.load_state_dict(
        {
            "0.weight": weights,
            "3.weight": torch.tensor([[0.0, 1], [1, 0]]),
            "3.bias": torch.zeros(2),
        }
    )
    pictures = torch.zeros(2, 3, 32, 32)
    pictures[:, :, 8:16, 20:28] = 1
    found = find_evidence(net, pictures, [1, 0])
    assert found.shape == (2, 32, 32)
    assert found[0, 8:16, 20:28].min() == 1
    assert found[0].sum() == 64  # and nowhere else
    assert not found[1].any()  # nothing speaks for class 0


def test_a_network_without_maps_is_told_and_nothing_is_faked(
    page: PageData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(models.CHOICES, "tokens", "tests.unit.token_family")
    here, road = page.workspace, page.road
    model = ModelConfig(family="tokens", name="any")
    save_file(build_network(model, len(CLASSES)).state_dict(), here.scratch / WEIGHTS)
    road.model = road.model.model_copy(update={"model": model, "files": here.seal([WEIGHTS])})
    reader = read(page, tmp_path)
    assert "cannot be shown: model: TinyTransformer has no last convolutional stage" in reader.text
    assert not [image for image in reader.find("img") if "speaks for" in str(image["alt"])]


def test_reliability_counts_answers_by_their_confidence() -> None:
    said = np.array([[0.95, 0.05], [0.95, 0.05], [0.65, 0.35], [0.35, 0.65]], np.float32)
    targets = np.array([[1, 0], [0, 1], [1, 0], [0, 1]], np.float32)
    found = measure_reliability(make_statements("single_label", targets, said))
    assert found.num.tolist() == [2, 2]
    assert found.share.tolist() == [1.0, 0.5]
    assert found.confidence == pytest.approx([0.65, 0.95])
    assert found.error == pytest.approx(0.5 * 0.35 + 0.5 * 0.45)
    # Of several labels each class is an answer of its own.
    several = measure_reliability(make_statements("multi_label", targets, said))
    assert several.num.sum() == 8


@pytest.mark.parametrize("problem", ["single_label", "multi_label"])
def test_temperature_is_undone(problem: str) -> None:
    logits = np.random.default_rng(0).normal(0, 3, (50, 4)).astype(np.float32)
    activate = load_choice("problems", problem).activate
    cool, warm = (activate(torch.from_numpy(logits) / t).numpy() for t in (1.0, 2.5))
    assert undo_temperature(warm, problem, 2.5) == pytest.approx(cool, abs=1e-5)


def test_precision_over_recall_takes_equal_probabilities_together() -> None:
    truth = np.array([True, False, True, True, False])
    said = np.array([0.9, 0.8, 0.5, 0.5, 0.5], np.float32)
    recall, precision = trace_precision(truth, said)
    assert recall == pytest.approx([1 / 3, 1 / 3, 1])
    assert precision == pytest.approx([1, 1 / 2, 3 / 5])


def test_doubts_name_the_likelihood_of_the_truth(page: PageData) -> None:
    shipped = read_shipped(page)
    assert shipped is not None
    likely, doubted = shipped.find_doubts()
    row = int(np.flatnonzero(shipped.wrong)[0])
    assert likely[row] == pytest.approx(float(shipped.probabilities[row] @ shipped.targets[row]))
    assert CLASSES[doubted[row]] == "normal"


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0, 1.75, [0, 0.5, 1, 1.5, 2]),
        (0.81, 0.97, [0.8, 0.85, 0.9, 0.95, 1]),
        (0.5, 0.5, [0.5, 0.6]),
        (0, 0, [0, 0.2]),
        (0, 800, [0, 200, 400, 600, 800]),
    ],
)
def test_ticks_are_round_and_enclose(low: float, high: float, ticks: list[float]) -> None:
    assert find_ticks(low, high) == ticks


def test_a_chart_of_one_epoch_and_of_a_missing_value() -> None:
    series = {"training": [(1, 0.7)], "validation": []}
    chart = make_chart("Loss", series, mark=1, from_zero=True)
    assert chart.lines[0].dots == [(193.0, chart.lines[0].dots[0][1])]
    assert chart.lines[1].points == ""
    assert chart.summary == "Loss, epochs 1 to 1: training 0.7 to 0.7."


def test_cleaning_is_shown_before_and_after(page: PageData, tmp_path: Path) -> None:
    assert "Before is on the left" not in read(page, tmp_path).text
    here, pack = page.workspace, page.road.pack
    Image.new("RGB", (136, 64), "gray").save(here.scratch / "cleaning-0.png")
    steps = (Cleaning(step="glare", options={"max_share": 0.05}),)
    pair = {"file": "cleaning-0.png", "path": "pit/<b>.png", "label": "pit", "change": 0.021}
    page.road.pack = pack.model_copy(
        update={
            "reports": here.seal(["cleaning-0.png"]),
            "preparation": pack.preparation.model_copy(update={"clean": steps}),
            "notes": {**pack.notes, "cleaning": [pair], "flagged": [["pit/far.png", "glare: all"]]},
        }
    )
    shown = read(page, tmp_path)
    for wanted in ("glare (max_share 0.05)", "pit/<b>.png", "changed by 2.1%", "pit/far.png"):
        assert wanted in shown.text
    assert any("pit/<b>.png before" in str(image["alt"]) for image in shown.find("img"))
