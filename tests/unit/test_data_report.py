"""The data report: everything a person must see is on the page, and nothing on it runs."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from enginehouse.artifact import Source, Workspace
from enginehouse.ingest.ingest import IngestConfig, ingest
from enginehouse.ingest.record import DataVersion
from enginehouse.labels import Finding
from enginehouse.report.data_report import DataPage, write_data_report
from enginehouse.store import Store, hash_file
from enginehouse.validate.validate import ValidateConfig, validate

EVIL = "<script>alert(1)<"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a refused set: two classes and a leak between its splits."""
    root = tmp_path_factory.mktemp("page")
    data = root / "data"
    rng = np.random.default_rng(0)
    for split in ("train", "val"):
        for label in (EVIL, "划伤"):
            (data / split / label).mkdir(parents=True)
            for number in range(3):
                noise = rng.integers(0, 255, (40, 60, 3), np.uint8)
                Image.fromarray(noise).save(data / split / label / f"{number}.png")
    leak = data / "val" / "划伤" / "copy.png"
    leak.write_bytes((data / "train" / "划伤" / "0.png").read_bytes())
    (data / "train" / EVIL / "half.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    files = [path for path in data.rglob("*") if path.is_file()]
    source = Source(data, {p.relative_to(data).as_posix(): hash_file(p, "md5") for p in files})
    (root / "scratch").mkdir()
    here = Workspace(Store(root / "store"), root / "scratch", sources={"d": source})
    manifest = ingest(DataVersion(digest="d"), IngestConfig(), here)
    validated = validate(manifest, ValidateConfig(min_rows=1), here)
    noticed = (Finding("warning", "stale lock", ".dvc/tmp/lock", "process 7 is gone", "rm it"),)
    return write_data_report(
        root / "out", DataPage("set", manifest, validated, here, source, noticed, {"Version": "d"})
    )


def test_everything_found_is_on_the_page(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert "rejected" in text
    for found in ("copy.png", "half.png", "划伤", "stale lock", "process 7 is gone", "rm it"):
        assert found in text
    assert len(re.findall(r'<img src="data:image/jpeg', text)) >= 2 * 5  # samples of both classes
    assert (page.parent / "data_docs" / "index.html").is_file()


def test_nothing_on_the_page_runs_or_loads(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert "<script" not in text
    assert "&lt;script&gt;alert(1)&lt;" in text
    sources = re.findall(r'(?:src|href)="([^"]*)"', text)
    assert all(s.startswith(("#", "data:image/")) or s == "data_docs/index.html" for s in sources)
