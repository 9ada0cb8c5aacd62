"""Measure: several ways to the same answer, timed in turn."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from enginehouse.choices import load_choice
from enginehouse.engine import Device, load_backend
from enginehouse.errors import DataError, EngineMismatch, RecipeError
from enginehouse.measure.measure import measure
from enginehouse.measure.record import Latency, MeasureConfig
from enginehouse.measure.timing import NUM_WARM_UP, time_alternating
from enginehouse.prepare.record import Pack
from enginehouse.train.record import ModelConfig, TrainedModel
from tests.unit.test_build import build_engine
from tests.unit.tiny_engines import CLASSES, CONTRACT, TARGET, open_workspace, seal_pack


def test_no_side_is_timed_in_the_wake_of_another() -> None:
    """An engine that always came after PyTorch, whose threads spin on, was timed too slow."""
    calls: list[str] = []
    sides = {name: lambda name=name: calls.append(name) for name in "abcd"}
    times = time_alternating(sides, rounds=60)
    assert {name: len(values) for name, values in times.items()} == dict.fromkeys("abcd", 60)
    assert all(value >= 0 for values in times.values() for value in values)
    begun = 4 * NUM_WARM_UP
    warm, timed = calls[begun::2], calls[begun + 1 :: 2]
    assert warm == timed
    assert all(sorted(timed[first : first + 4]) == list("abcd") for first in range(0, 240, 4))
    follows = Counter(pairwise(timed))
    assert all(follows[one, other] > 10 for one in "abcd" for other in "abcd" if one != other)


def test_time_is_in_milliseconds() -> None:
    import time

    [value] = time_alternating({"sleep": lambda: time.sleep(0.02)}, rounds=1)["sleep"]
    assert 20 <= value < 2000


def seal_model(folder: Path) -> TrainedModel:
    config = ModelConfig(family="tiny", name="tiny_cnn")
    torch.manual_seed(0)
    network = load_choice("models", config.family).build_model(config.name, len(CLASSES))
    here = open_workspace(folder)
    save_file(network.state_dict(), here.scratch / "weights.safetensors")
    return TrainedModel(
        files=here.seal(["weights.safetensors"]),
        model=config,
        classes=CLASSES,
        preparation=CONTRACT.preparation,
        mean=(0.5, 0.5, 0.5),
        std=(0.5, 0.5, 0.5),
        val_accuracy=1,
        val_macro_f1=1,
    )


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("store")
    return {
        "none": build_engine(folder, TARGET.model_copy(update={"precision": "fp32"})),
        "int8_ptq": build_engine(folder, TARGET),
        "model": seal_model(folder),
        "pack": seal_pack(folder, [0, 1, 2]),
        "device": load_backend("openvino").describe_run_device(TARGET),
        "folder": folder,
    }


def measure_with(parts: dict[str, Any], config: MeasureConfig, **changes: Any) -> Latency:
    inputs = {**parts, **changes}
    here = open_workspace(inputs.pop("folder"))
    return measure(**inputs, config=config, here=here)


def test_latency_of_every_candidate_and_of_eager(parts: dict[str, Any]) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        latency = measure_with(parts, MeasureConfig(batch=4, rounds=3, threads=1))
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    notes: Any = latency.notes
    names = [row["name"] for row in notes["rows"]]
    assert names == ["none", "int8_ptq", "pytorch eager fp32"]
    for row in notes["rows"]:
        assert row["pictures_per_second"] == pytest.approx(4000 / row["milliseconds"])
        assert 0 < row["milliseconds"] <= row["p90"]
    assert (notes["batch"], notes["threads"], notes["rounds"]) == (4, 1, 3)
    assert notes["device"] == parts["device"].describe() and notes["date"].endswith("+00:00")


def test_times_enter_no_identity_but_what_was_timed_does(parts: dict[str, Any]) -> None:
    config = MeasureConfig(rounds=3, threads=1)
    first, second = (measure_with(parts, config) for _ in range(2))
    assert first.notes != second.notes and first.identity == second.identity
    engines = {name: parts[name].identity for name in ("none", "int8_ptq")}
    assert (first.engines, first.device) == (engines, parts["device"].identity)
    alone = measure_with({name: part for name, part in parts.items() if name != "int8_ptq"}, config)
    larger = measure_with(parts, MeasureConfig(rounds=3, threads=1, batch=2))
    assert len({first.identity, alone.identity, larger.identity}) == 3


def test_batch_beyond_the_profile_is_refused(parts: dict[str, Any]) -> None:
    with pytest.raises(RecipeError, match=r"measure\.batch is 5; target 'openvino' takes 1 to 4"):
        measure_with(parts, MeasureConfig(batch=5))


def test_device_record_of_another_machine_is_refused(parts: dict[str, Any]) -> None:
    device: Device = parts["device"].model_copy(update={"model": "Another CPU"})
    with pytest.raises(EngineMismatch, match="Another CPU"):
        measure_with(parts, MeasureConfig(), device=device)


def test_pictures_are_those_of_validation(parts: dict[str, Any]) -> None:
    pack: Pack = parts["pack"]
    untested = pack.model_copy(update={"counts": {**pack.counts, "test": 0}})
    assert measure_with(parts, MeasureConfig(rounds=3, threads=1), pack=untested)


def test_empty_validation_split_is_a_data_error(parts: dict[str, Any]) -> None:
    pack: Pack = seal_pack(parts["folder"], [])
    with pytest.raises(DataError, match="no pictures"):
        measure_with(parts, MeasureConfig(), pack=pack)
