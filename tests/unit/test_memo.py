"""What is remembered of files: by content, by code, for several processes, never wrong."""

from __future__ import annotations

import sqlite3
from functools import partial
from pathlib import Path

import pytest

from enginehouse.artifact import Workspace
from enginehouse.memo import Memo
from enginehouse.parallel import map_in_order
from enginehouse.store import Store


def test_what_was_put_is_got_and_nothing_else(tmp_path: Path) -> None:
    memo = Memo(tmp_path / "store" / "a.sqlite")
    assert memo.get_many(["a"]) == {}
    assert not memo.path.exists()
    values = {f"{n:032x}": f"text {n} ü\n" for n in range(3000)}
    memo.put_many(values)
    assert memo.get_many([*values, "unknown"]) == values
    memo.put_many({"0" * 32: "new"})
    assert memo.get_many(["0" * 32]) == {"0" * 32: "new"}


def put(path: Path, number: int) -> dict[str, str]:
    memo = Memo(path)
    memo.put_many({str(number): f"by {number}", "all": "the same"})
    return memo.get_many([str(number), "all"])


def test_several_processes_share_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINEHOUSE_WORKERS", "3")
    path = tmp_path / "a.sqlite"
    for number, got in enumerate(map_in_order(partial(put, path), range(90), few=1)):
        assert got == {str(number): f"by {number}", "all": "the same"}
    assert len(Memo(path).get_many(map(str, range(90)))) == 90


@pytest.mark.parametrize("content", [b"", b"no database" * 999, b"SQLite format 3\0" + bytes(5000)])
def test_a_broken_file_is_as_if_it_were_not_there(tmp_path: Path, content: bytes) -> None:
    memo = Memo(tmp_path / "a.sqlite")
    memo.path.write_bytes(content)
    assert memo.get_many(["a"]) == {}
    memo.put_many({"a": "b"})
    memo.put_many({"a": "b"})
    assert memo.get_many(["a"]) == {"a": "b"}


def test_a_changed_value_is_not_believed(tmp_path: Path) -> None:
    memo = Memo(tmp_path / "a.sqlite")
    memo.put_many({"a": "1", "b": "2"})
    with sqlite3.connect(memo.path) as database:
        database.execute("UPDATE memo SET value = '3' WHERE md5 = 'a'")
    assert memo.get_many(["a", "b"]) == {"b": "2"}


def test_where_nothing_can_be_written_nothing_is_remembered(tmp_path: Path) -> None:
    (tmp_path / "a file").write_text("")
    memo = Memo(tmp_path / "a file" / "a.sqlite")
    memo.put_many({"a": "b"})
    assert memo.get_many(["a"]) == {}


def test_each_code_has_its_own(tmp_path: Path) -> None:
    here = Workspace(Store(tmp_path / "store"), tmp_path)
    memo = here.memo("enginehouse.ingest.describe")
    assert memo.path == here.memo("enginehouse.ingest.describe").path
    assert memo.path != here.memo("enginehouse.ingest.ingest").path
    assert memo.path.is_relative_to(tmp_path / "store" / "memo")
