"""A profile of training: what it writes, and that it changes nothing."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest
import torch

from enginehouse.train.profile import PARTS
from enginehouse.train.record import TrainedModel
from enginehouse.train.train import train
from tests.unit.tiny_pack import open_workspace, seal_pack, tiny_config


def train_profiled(folder: Path, profile: Path | None, epochs: int) -> TrainedModel:
    pack = seal_pack(folder)
    here = open_workspace(folder)
    here.profile = profile
    return train(pack, tiny_config(epochs=epochs), here)  # five steps per epoch


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def test_it_changes_no_bit_and_says_where_the_time_went(tmp_path: Path) -> None:
    plain = train_profiled(tmp_path / "plain", None, epochs=6)
    profiled = train_profiled(tmp_path / "profiled", tmp_path / "out", epochs=6)
    assert profiled.identity == plain.identity
    assert profiled.reports == plain.reports

    trace = json.loads(gzip.decompress((tmp_path / "out" / "trace.json.gz").read_bytes()))
    names = {event.get("name") for event in trace["traceEvents"]}
    assert {"aten::convolution", "forward", "backward", "optimizer"} <= names

    table = (tmp_path / "out" / "table.txt").read_text()
    assert "Steps 6 to 15, 14 pictures each" in table  # of 72, in batches of 16
    rows = re.findall(r"^(\w[\w ]*?) +([\d.]+) +([\d.]+)%$", table, re.MULTILINE)
    assert [name for name, _, _ in rows] == [*PARTS, "all"]
    times = {name: float(milliseconds) for name, milliseconds, _ in rows}
    assert sum(times[name] for name in PARTS) == pytest.approx(times["all"], abs=0.01)
    # A network computes: most of a step's time is in what calls it.
    assert times["forward"] > 0.05 * times["all"] < times["backward"]
    assert "aten::mkldnn_convolution" in table or "aten::convolution" in table


def test_a_short_training_is_told_as_far_as_it_went(tmp_path: Path) -> None:
    train_profiled(tmp_path / "a", tmp_path / "few", epochs=2)
    assert "Steps 6 to 10" in (table := (tmp_path / "few" / "table.txt").read_text())
    assert "ended before there were steps to trace" in table
    train_profiled(tmp_path / "b", tmp_path / "none", epochs=1)
    assert "ended after 5 steps" in (tmp_path / "none" / "table.txt").read_text()
    assert not list(tmp_path.glob("*/trace.json.gz"))
