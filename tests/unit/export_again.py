"""Exports a stored model in a process of its own; prints the digest of the file.

Arguments: folder of the store, and the paths of three records: what a quantizer made, the
trained model, the pack.
"""

from __future__ import annotations

import sys
from pathlib import Path

from enginehouse.artifact import Workspace
from enginehouse.export.export import ExportConfig, export
from enginehouse.ingest.record import DataVersion
from enginehouse.prepare.record import Pack
from enginehouse.quantize.record import QuantizedModel
from enginehouse.store import Store
from enginehouse.train.record import TrainedModel

store, model, trained, pack = map(Path, sys.argv[1:])
scratch = Path.cwd() / "scratch"
scratch.mkdir()
record = export(
    QuantizedModel.from_json(model.read_text()),
    TrainedModel.from_json(trained.read_text()),
    Pack.from_json(pack.read_text()),
    DataVersion(digest="d1"),
    ExportConfig(num_parity_pictures=4),
    Workspace(Store(store), scratch),
)
print(record.files["model.onnx"].sha256)
