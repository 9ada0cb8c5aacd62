"""What a picture comes to, whole or in windows: by `predict`, and by what MLflow serves."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest

from enginehouse.build.record import Engine
from enginehouse.engine import Contract, open_engine, run_in_batches
from enginehouse.errors import RegistryError
from enginehouse.evaluate.point import OperatingConfig, OperatingPoint, Rate
from enginehouse.picture import Picture, resize_picture
from flows.predict import classify, render
from tests.unit.test_build import build_engine
from tests.unit.tiny_engines import (
    CLASSES,
    CONTRACT,
    SIZE,
    TARGET,
    TILED,
    make_graph,
    open_workspace,
)


def draw(width: int, height: int, corner: int | None = None) -> Picture:
    """Red noise; with `corner` the last 16 pixels of both sides are of that channel."""
    array = np.random.default_rng(0).integers(90, 130, (height, width, 3))
    colour = np.zeros((height, width), int)
    if corner is not None:
        colour[-SIZE:, -SIZE:] = corner
    array += 90 * (np.arange(3) == colour[..., None])
    return Picture(array.astype(np.uint8), width, height, "RGB")


def answer(
    folder: Path, picture: Picture, contract: Contract, point: OperatingPoint | None = None
) -> dict[str, Any]:
    engine = build_engine(folder, TARGET, contract)
    session = open_engine(open_workspace(folder).paths(engine), engine.target, engine.sidecar)
    try:
        return classify(picture, engine, session, point)
    finally:
        session.close()


def test_defect_in_a_corner_is_found_and_its_window_named(tmp_path: Path) -> None:
    row = answer(tmp_path, draw(70, 48, corner=2), TILED)
    assert row["class"] == "blue"
    assert row["probability"] > 0.9
    [window] = row["windows"]
    # 70 px take five windows of 16 px; the last ends at the edge.
    place = (window["x"], window["y"], window["width"], window["height"])
    assert place == (54, 32, 16, 16)
    assert (window["class"], window["probability"]) == ("blue", row["probability"])
    assert "  at 54, 32: blue" in render([{"picture": "a.png", **row}], as_json=False)


def test_clean_picture_has_no_alarming_window(tmp_path: Path) -> None:
    row = answer(tmp_path, draw(70, 48), TILED)
    assert (row["class"], row["windows"]) == ("red", [])


def test_alarms_of_a_halved_picture_lie_in_the_pixels_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from enginehouse import prepared_picture

    monkeypatch.setattr(prepared_picture, "REDUCE_ABOVE", 64 * 32)
    half = draw(64, 32, corner=1)
    row = answer(tmp_path, half._replace(width=128, height=64), TILED)
    [window] = row["windows"]
    place = (window["x"], window["y"], window["width"], window["height"])
    assert place == (96, 32, 32, 32)


def make_point(low: float, threshold: float, high: float) -> OperatingPoint:
    return OperatingPoint(
        rules=OperatingConfig(),
        problem="single_label",
        good="red",
        threshold=threshold,
        recheck_low=low,
        recheck_high=high,
        class_thresholds={},
        escapes=Rate(num=0, of=100, low=0, high=0.036),
        overkill=None,
    )


@pytest.mark.parametrize("contract", [CONTRACT, TILED], ids=["whole", "tiled"])
def test_verdict_goes_by_the_operating_point(tmp_path: Path, contract: Contract) -> None:
    for picture, alarming in ((draw(48, 48, corner=2), True), (draw(48, 48), False)):
        row = answer(tmp_path, picture, contract)
        assert "verdict" not in row and "alarm" not in row
        alarm = answer(tmp_path, picture, contract, make_point(0.5, 0.5, 0.5))["alarm"]
        assert alarm == pytest.approx(1 - row["probabilities"]["red"], abs=1e-5)
        if contract is TILED:  # one window of nine, which a whole picture hardly shows
            assert (alarm > 0.5) is alarming
        below, above = alarm * 0.9, alarm * 1.1
        for point, verdict in (
            (make_point(below, below, below), "reject"),
            (make_point(above, above, above), "good"),
            (make_point(below, above, above), "recheck"),
        ):
            said = answer(tmp_path, picture, contract, point)
            assert said["verdict"] == verdict
            text = render([{"picture": "a.png", **said}], as_json=False)
            assert text.startswith(f"a.png: {verdict}, alarm {alarm:.3f}: {row['class']}  (")


def test_every_label_of_a_picture_is_named(tmp_path: Path) -> None:
    contract = CONTRACT.model_copy(update={"problem": "multi_label"})
    row = answer(tmp_path, draw(48, 48), contract)
    assert row["classes"] == ["red"]
    text = render([{"picture": "a.png", **row, "classes": ["red", "blue"]}], as_json=False)
    assert text.startswith("a.png: red, blue  (red ")
    assert render([{"picture": "a.png", **row, "classes": []}], as_json=False).startswith(
        "a.png: nothing  ("
    )


def test_operating_point_travels_with_the_engine(tmp_path: Path) -> None:
    from tasks.registry import Version, read_engine, read_point, write_engine

    engine, point = build_engine(tmp_path, TARGET), make_point(0.1, 0.2, 0.3)
    folder = write_engine(open_workspace(tmp_path), engine, tmp_path / "engine", point)
    assert read_engine(folder)[0] == engine
    version = Version("tiny.openvino", 1, "", "", {})
    assert read_point(version, folder) == point
    bare = write_engine(open_workspace(tmp_path), engine, tmp_path / "bare")
    assert read_point(version, bare) is None
    # One that was scored after it was registered has it in its tags.
    tagged = Version("tiny.openvino", 1, "", "", {"operating_point": point.model_dump_json()})
    assert read_point(tagged, bare) == point
    broken = Version("tiny.openvino", 1, "", "", {"operating_point": "{}"})
    with pytest.raises(RegistryError, match=r"tiny\.openvino v1 does not fit this code"):
        read_point(broken, bare)


def test_whole_picture_is_resized_as_ever(tmp_path: Path) -> None:
    picture = draw(70, 48, corner=1)
    engine = build_engine(tmp_path, TARGET)
    session = open_engine(open_workspace(tmp_path).paths(engine), engine.target, engine.sidecar)
    wanted = run_in_batches(session, resize_picture(picture.array, SIZE)[None], TARGET.batch)[0]
    session.close()
    row = answer(tmp_path, picture, CONTRACT)
    assert "windows" not in row
    assert [row["probabilities"][name] for name in CLASSES] == wanted.tolist()


@pytest.mark.parametrize("contract", [CONTRACT, TILED], ids=["whole", "tiled"])
@pytest.mark.parametrize("kind", ["engine", "onnx"])
def test_what_is_served_says_the_same(kind: str, contract: Contract, tmp_path: Path) -> None:
    from tasks.registry import write_engine
    from tasks.served import ServedModel

    engine: Engine = build_engine(tmp_path, TARGET, contract)
    if kind == "engine":
        path = write_engine(open_workspace(tmp_path), engine, tmp_path / "engine")
    else:
        model, path = make_graph("int8"), tmp_path / "model.onnx"
        onnx.helper.set_model_props(model, {"contract": contract.model_dump_json()})
        onnx.save(model, path)
    served = ServedModel()
    served.load_context(SimpleNamespace(artifacts={kind: str(path)}))
    pictures = [draw(70, 48, corner=2), draw(70, 48)]
    found = served.predict(None, np.stack([picture.array for picture in pictures]))
    assert found.shape == (2, 3)
    for row, picture in zip(found, pictures, strict=True):
        said = answer(tmp_path, picture, contract)["probabilities"]
        assert row.tolist() == pytest.approx([said[name] for name in CLASSES], abs=1e-3)
    prepared = served.predict(None, np.zeros((5, 3, SIZE, SIZE), np.uint8))
    assert prepared.shape == (5, 3)
    with pytest.raises(ValueError, match=r"wanted uint8 \[n, 3, 16, 16\]"):
        served.predict(None, np.zeros((5, 3, SIZE, 20), np.uint8))
