"""Working in processes: order, errors, and that nobody is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import partial

import psutil
import pytest

from enginehouse.errors import EnginehouseError, UnreadablePicture
from enginehouse.parallel import count_workers, map_in_order

NEVER_ENDING = """
import os, time
from enginehouse.parallel import map_in_order
os.environ["ENGINEHOUSE_WORKERS"] = "2"
done = map_in_order(time.sleep, [0.0] * 16 + [600.0] * 64, few=1)
for _ in range(16):
    next(done)
print("working", flush=True)
next(done)
"""


def double(number: int) -> int:
    return 2 * number


def tell_process(_: int) -> int:
    return os.getpid()


def refuse_seven(number: int) -> int:
    if number == 7:
        raise UnreadablePicture("a.jpg is empty.", "empty file")
    return number


def die(_: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture(autouse=True)
def two_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINEHOUSE_WORKERS", "2")


@pytest.mark.parametrize("few", [1, 1000])
def test_results_come_in_order_and_are_counted(few: int) -> None:
    told: list[tuple[str, int, int]] = []

    def report(message: str, done: int = 0, total: int = 0, **metrics: float) -> None:
        told.append((message, done, total))

    results = list(map_in_order(double, range(100), report, "doubling", few=few))
    assert results == [2 * number for number in range(100)]
    assert told == [("doubling", done, 100) for done in range(1, 101)]
    assert list(map_in_order(double, [], few=few)) == []


def test_many_items_are_done_in_other_processes_and_few_in_this_one() -> None:
    elsewhere = set(map_in_order(tell_process, range(64), few=64))
    assert elsewhere and os.getpid() not in elsewhere
    assert set(map_in_order(tell_process, range(63), few=64)) == {os.getpid()}


@pytest.mark.parametrize("few", [1, 1000])
def test_an_error_arrives_whole_where_it_stands_in_the_order(few: int) -> None:
    results = map_in_order(refuse_seven, range(40), few=few)
    with pytest.raises(UnreadablePicture, match=r"a\.jpg") as caught:
        list(results)
    assert caught.value.reason == "empty file"


def test_a_killed_worker_is_one_clear_error() -> None:
    with pytest.raises(EnginehouseError, match="killed") as caught:
        list(map_in_order(die, range(40), few=1))
    assert "ENGINEHOUSE_WORKERS" in caught.value.remedy


def test_a_reader_who_leaves_early_leaves_no_process_behind() -> None:
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    results = map_in_order(partial(pow, 2), range(2000), few=1)
    assert next(results) == 1
    results.close()
    left = [c for c in psutil.Process().children(recursive=True) if c.pid not in before]
    assert all("resource_tracker" in " ".join(child.cmdline()) for child in left)


def test_a_killed_run_leaves_no_process_behind() -> None:
    command = [sys.executable, "-c", NEVER_ENDING]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None and run.stdout.readline() == "working\n"
    children = psutil.Process(run.pid).children(recursive=True)
    assert len(children) >= 2
    run.kill()
    run.wait()
    gone, alive = psutil.wait_procs(children, timeout=20)
    assert len(gone) == len(children) and not alive


def test_the_number_of_workers_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert count_workers() == 2
    monkeypatch.setenv("ENGINEHOUSE_WORKERS", "many")
    with pytest.raises(EnginehouseError, match="'many'"):
        count_workers()
    monkeypatch.delenv("ENGINEHOUSE_WORKERS")
    assert 1 <= count_workers() <= (os.cpu_count() or 1)
