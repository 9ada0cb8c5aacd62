"""The report page of a small run made by hand: what it says, and what it must never do."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from PIL import Image

from enginehouse.errors import StoreError
from enginehouse.preparation import Cleaning
from enginehouse.report.chart import find_ticks, make_chart
from enginehouse.report.page import PageData
from enginehouse.report.report import write_plots, write_report
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


def read(page: PageData, folder: Path) -> Reader:
    return Reader(write_report(folder / "out", page).read_text(encoding="utf-8"))


def test_it_says_what_came_of_the_run(page: PageData, tmp_path: Path) -> None:
    text = read(page, tmp_path).text
    for wanted in (
        *("champion", page.headline, "1 of 2 passed", "the champion has <0.95>"),
        *("4.2×", "1.90 ms instead of 8.00 ms", "A Processor, 2026-11-30 10:00 UTC"),
        *("6 of 64", "0 of 16", "quarantined: 3, repeated: 1"),
        *("pit/copy.png", "a picture without any detail", "1 of 2 stages were cached"),
        *("config epochs: 10 -> 12; input pack changed (a/<b>.png)", "4be1c02 (modified)"),
        *(
            "0 train, 0 val, 80 test",
            "11 ★ kept",
            "openvino int8 on cpu, openvino 2026.4.1",
            "3.0e-05",
            "0 of 32",
        ),
    ):
        assert wanted in text, wanted


def test_wrong_answers_come_first_and_most_certain_first(page: PageData, tmp_path: Path) -> None:
    reader = read(page, tmp_path)
    alts = [str(image["alt"]) for image in reader.find("img") if "labelled" in str(image["alt"])]
    said = [re.fullmatch(r".*: labelled (.*), the engine says (.*)", alt) for alt in alts]
    pairs = [(found[1], found[2]) for found in said if found]
    assert len(pairs) == 12
    assert all(label != answer for label, answer in pairs[:6])
    assert [label for label, _ in pairs[6:]] == [*CLASSES, CLASSES[0]]
    assert all(label == answer for label, answer in pairs[6:])
    text = reader.text
    wrong = text[text.index("Wrong, most certain first") : text.index("Right, one class")]
    certain = [float(number) for number in re.findall(r"normal ([\d.]+)%", wrong)]
    assert len(certain) == 6
    assert certain == sorted(certain, reverse=True)


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
    assert written == {"report.html", "data.html", "data_docs"}


def test_it_can_be_read_without_seeing(page: PageData, tmp_path: Path) -> None:
    reader = read(page, tmp_path)
    assert reader.find("html") == [{"lang": "en"}]
    assert all(image["alt"] for image in reader.find("img"))
    drawings = [svg for svg in reader.find("svg") if svg["role"] == "img"]
    assert len(drawings) == len(reader.find("svg")) == 4  # two charts, two unreadable files
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
    road = replace(
        page.road,
        **{"engines": {}, "scorecards": {}, "latency": None},
        waiting={"openvino": "cannot be built here: <no library>"},
    )
    waiting = replace(page, road=road, gates=[], verdict="waiting")
    text = read(waiting, tmp_path).text
    assert "No gate was applied" in text
    assert "has no scores: cannot be built here: <no library>" in text
    assert [path.name for path in write_plots(tmp_path / "out", waiting)] == ["curves.png"]


def test_tiled_run_shows_its_windows_and_the_defects_found(page: PageData, tmp_path: Path) -> None:
    assert "Defects found" not in read(page, tmp_path).text
    reader = read(cut_into_windows(page), tmp_path)
    for wanted in (
        *("Defects found 85.0%", "20 labelled defects", "40 of 80 windows", "2.5 megapixels"),
        *("at most 0.3 80.0% 75.0%", "1.2, by the engine's own answers 90.0% 85.0%"),
        *(
            "of 79 are wrong",
            "80 windows of 5 classes",
            "said of the test windows",
            "Windows used",
            "Windows/s",
        ),
    ):
        assert wanted in reader.text, wanted
    alts = [str(image["alt"]) for image in reader.find("img") if "labelled" in str(image["alt"])]
    assert len(alts) == 12
    assert all(re.search(r"\.png at 96, \d+: 64 × 64 px: labelled", alt) for alt in alts)


def test_many_classes_show_their_commonest_mistakes(page: PageData, tmp_path: Path) -> None:
    num = 40
    names = tuple(f"class {place}" for place in range(num))
    confusion = [[10 if row == column else 0 for column in range(num)] for row in range(num)]
    confusion[3][5], confusion[7][1] = 2, 6
    card = page.road.scorecards["openvino"].model_copy(
        update={
            "classes": names,
            "confusion": tuple(map(tuple, confusion)),
            "recalls": dict.fromkeys(names, 1.0),
        }
    )
    page.road.scorecards.update({"openvino": card, "openvino-fp32": card})
    text = read(page, tmp_path).text
    assert text.index("class 7 class 1 6") < text.index("class 3 class 5 2")


def test_bytes_that_are_gone_are_named(page: PageData, tmp_path: Path) -> None:
    blob = page.road.scorecards["openvino"].files["predictions.npy"]
    page.workspace.store.blob_path(blob).unlink()
    with pytest.raises(StoreError, match=r"predictions\.npy is missing"):
        write_report(tmp_path / "out", page)


@pytest.mark.filterwarnings("error")
def test_plots_are_pictures_also_of_names_that_no_font_has(page: PageData, tmp_path: Path) -> None:
    card = page.road.scorecards["openvino"]
    names = (*card.classes[:-1], "\U00013080 $x_")
    page.road.scorecards["openvino"] = card.model_copy(update={"classes": names})
    paths = write_plots(tmp_path / "plots", page)
    assert [path.name for path in paths] == ["curves.png", "confusion.png"]
    for path in paths:
        with Image.open(path) as picture:
            assert min(picture.size) >= 400


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
