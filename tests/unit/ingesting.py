"""Data sets for the tests of ingest: drawn pictures in a folder, and what ingest makes of it."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

from enginehouse.artifact import Report, Source, Workspace, silent
from enginehouse.ingest.ingest import IngestConfig, ingest
from enginehouse.ingest.record import DataVersion, Manifest
from enginehouse.store import Store


def draw(seed: int = 0, width: int = 32, height: int = 24) -> Image.Image:
    """A picture of its own for every seed."""
    pixels = np.random.default_rng(seed).integers(0, 255, (6, 8, 3), np.uint8)
    return Image.fromarray(pixels).resize((width, height))


def encode(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


class Data:
    """A folder that is filled by a test, and read by ingest."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "data"
        self.folder.mkdir()
        self.store = Store(root / "store")
        self.report: Report = silent
        self._root = root
        self._seed = 0

    def put(self, path: str, content: bytes | str | None = None) -> Path:
        """Write a file; without content, a new picture."""
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            self._seed += 1
            content = encode(draw(self._seed), "JPEG" if path.lower().endswith("jpg") else "PNG")
        target.write_bytes(content.encode() if isinstance(content, str) else content)
        return target

    def put_classes(self, *folders: str, count: int = 3) -> None:
        """Pictures `0.png`, `1.png`, ... in each folder."""
        for folder in folders:
            for number in range(count):
                self.put(f"{folder}/{number}.png")

    def ingest(
        self, change: Callable[[dict[str, str]], object] = lambda listing: None, **config: Any
    ) -> Ingested:
        """Run ingest on what the folder holds.

        Args:
            change: done to the listing, after it was taken.
        """
        listing, empty, links = scan(self.folder)
        change(listing)
        data = DataVersion(digest="0" * 32, empty_folders=tuple(empty), links=tuple(links))
        scratch = self._root / f"scratch{len(list(self._root.iterdir()))}"
        scratch.mkdir()
        source = Source(self.folder, listing)
        here = Workspace(self.store, scratch, self.report, {data.digest: source})
        manifest = ingest(data, IngestConfig.model_validate(config), here)
        tables = {name: pd.read_parquet(here.path(manifest, name)) for name in manifest.files}
        return Ingested(manifest, *(tables[f"{name}.parquet"] for name in TABLES))


TABLES = ("manifest", "boxes", "quarantine", "findings")


@dataclass(frozen=True)
class Ingested:
    """What ingest left behind."""

    record: Manifest
    pictures: pd.DataFrame
    boxes: pd.DataFrame
    quarantine: pd.DataFrame
    findings: pd.DataFrame

    @property
    def labels(self) -> dict[str, str]:
        """Path to class."""
        return dict(zip(self.pictures["path"], self.pictures["label"], strict=True))

    @property
    def reasons(self) -> dict[str, str]:
        """Path to reason, of all that is not used."""
        return dict(zip(self.quarantine["path"], self.quarantine["reason"], strict=True))

    def find(self, reason: str, severity: str = "") -> str:
        """The detail and remedy of the one finding with this reason."""
        rows = self.findings[self.findings["reason"] == reason]
        assert len(rows) == 1, self.findings.to_string()
        row = rows.iloc[0]
        assert severity in ("", row["severity"])
        return f"{row['file']}: {row['detail']} {row['remedy']}"


def scan(folder: Path) -> tuple[dict[str, str], list[str], list[str]]:
    """MD5 of all files, folders without files, and linked folders."""
    listing: dict[str, str] = {}
    empty: list[str] = []
    links: list[str] = []
    for place, folders, names in os.walk(folder):
        base = Path(place).relative_to(folder)
        links += [(base / n).as_posix() for n in folders if (Path(place) / n).is_symlink()]
        folders[:] = [name for name in folders if not (Path(place) / name).is_symlink()]
        for name in names:
            content = (Path(place) / name).read_bytes()
            listing[(base / name).as_posix()] = hashlib.md5(content).hexdigest()
        if base.parts and not any(path.is_file() for path in Path(place).rglob("*")):
            empty.append(base.as_posix())
    return listing, empty, links
