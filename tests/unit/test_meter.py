"""What training was like, in numbers: windows of steps, and whole epochs across a restart."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from enginehouse.train.meter import Meter
from enginehouse.train.state import Progress
from enginehouse.train.step import Step


@dataclass
class Waiting:
    """A feed of which only the time that it kept training waiting is asked."""

    waited: float = 0.0


def make_meter(progress: Progress) -> Meter:
    return Meter(progress, Waiting(), clip_norm=1.0)  # type: ignore[arg-type]


def test_means_are_by_picture_and_norms_by_update() -> None:
    meter = make_meter(Progress(micro_batch=8))
    meter.add(Step(loss=1.0, grad_norm=3.0, updated=True), 30)
    meter.add(Step(loss=2.0, grad_norm=0.5, updated=True), 10)
    meter.add(Step(loss=2.0, grad_norm=float("inf"), updated=False), 10)
    found = meter.read_window()
    assert found["loss"] == pytest.approx((30 * 1 + 20 * 2) / 50)
    assert found["grad_norm"] == pytest.approx(1.75)  # a skipped step moved nothing
    assert found["clipped"] == pytest.approx(0.5)
    assert found["skipped"] == pytest.approx(1 / 3)
    assert found["images_per_s"] > 0


def test_a_window_begins_anew_and_an_epoch_goes_on() -> None:
    progress = Progress(micro_batch=8)
    meter = make_meter(progress)
    meter.add(Step(1.0, 1.0, True), 8)
    assert meter.read_window()["loss"] == 1.0
    meter.add(Step(3.0, 1.0, True), 8)
    assert meter.read_window()["loss"] == 3.0
    assert meter.read_epoch()["loss"] == 2.0
    # A restart: the sums come back with the progress, the window does not.
    again = make_meter(Progress(micro_batch=8, sums=dict(progress.sums)))
    again.add(Step(5.0, 1.0, True), 8)
    assert again.read_window()["loss"] == 5.0
    assert again.read_epoch()["loss"] == 3.0


def test_waiting_is_a_share_of_the_time_that_was_not_skipped() -> None:
    feed = Waiting()
    meter = Meter(Progress(micro_batch=8), feed, clip_norm=1.0)  # type: ignore[arg-type]
    feed.waited += 5.0  # while validation ran
    meter.skip_time()
    meter.add(Step(1.0, 1.0, True), 8)
    assert meter.read_epoch()["data_wait"] == 0
    assert meter.progress.sums["waited"] == 0
