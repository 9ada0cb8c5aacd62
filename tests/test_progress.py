"""The lines that people see while a stage works: on a terminal, in a log, and in Prefect."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest

from flows.console import Console
from tasks._progress import Teller, format_time
from tasks._stage import PROGRESS, throttled

WINDOW = {"loss": 0.5, "images_per_s": 150.0}
EPOCH = {"loss": 0.4123, "macro_f1": 0.87654, "images_per_s": 181.7, "val_loss": 0.5}


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def listening() -> Iterator[None]:
    before = PROGRESS.level
    PROGRESS.setLevel(logging.INFO)
    yield
    PROGRESS.setLevel(before)


def train(num_epochs: int) -> None:
    """Report what a training of so many epochs of three windows does, without pause."""
    report = throttled("train")
    report("preflight", 0, 1)
    report("goes on after 6 steps")
    for epoch in range(1, num_epochs + 1):
        for step in range(1, 4):
            report("steps", 3 * epoch - 3 + step, 3 * num_epochs, **WINDOW)
        report(f"epoch {epoch}/{num_epochs}", epoch, num_epochs, **EPOCH)


def test_an_epoch_tells_scores_rate_time_and_what_is_left() -> None:
    clock = Clock()
    teller = Teller("train", clock)
    clock.now += 50  # it waited for another run
    teller.tell("preflight", 0, 1, {})
    clock.now += 40
    first = teller.tell("epoch 1/5", 1, 5, EPOCH)
    assert first.kind == "epoch"
    assert first.text == (
        "train: epoch 1/5: loss 0.4123, validation macro F1 0.8765, 182 images/s, "
        "elapsed 0:40, ETA 2:40"
    )
    clock.now += 80
    teller.tell("out of memory; goes on with 8 pictures at once", 0, 0, {})
    assert teller.tell("epoch 2/5", 2, 5, EPOCH).text.endswith("elapsed 2:00, ETA 3:00")


def test_a_training_that_goes_on_counts_the_epochs_it_saw() -> None:
    clock = Clock()
    teller = Teller("train", clock)
    clock.now += 10
    assert teller.tell("epoch 9/12", 9, 12, EPOCH).text.endswith("elapsed 0:10, ETA 0:30")


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.2, "0:00"), (59.7, "1:00"), (725, "12:05"), (4325, "1:12:05")]
)
def test_times_are_short(seconds: float, text: str) -> None:
    assert format_time(seconds) == text


def test_a_log_gets_one_line_per_epoch_and_none_of_steps() -> None:
    stream = io.StringIO()
    with Console(stream):
        train(4)
    lines = stream.getvalue().splitlines()
    assert lines[0] == "train: goes on after 6 steps"
    assert [line.partition(": loss")[0] for line in lines[1:]] == [
        f"train: epoch {epoch}/4" for epoch in range(1, 5)
    ]


def test_a_terminal_gets_the_same_lines_beside_the_moving_one() -> None:
    stream = Terminal()
    with Console(stream):
        train(4)
    written = stream.getvalue()
    for epoch in range(1, 5):
        assert written.count(f"train: epoch {epoch}/4: loss 0.4123") == 1
    assert "train: steps" in written


def test_prefect_gets_every_epoch_and_no_window(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, PROGRESS.name):
        train(4)
    messages = [record.getMessage() for record in caplog.records if record.name == PROGRESS.name]
    assert sum("epoch" in message for message in messages) == 4
    assert not [message for message in messages if "train: steps" in message]
