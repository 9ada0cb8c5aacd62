"""Stages called by hand: a store with workspaces, drawn pictures, networks with random weights."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from safetensors.torch import save_file

from enginehouse.artifact import Record, Workspace, fingerprint
from enginehouse.build.build import build
from enginehouse.build.record import Engine
from enginehouse.choices import load_choice
from enginehouse.engine import BatchProfile, Target, load_backend
from enginehouse.export.export import ExportConfig, export
from enginehouse.export.record import OnnxModel
from enginehouse.ingest.record import DataVersion
from enginehouse.preparation import Preparation
from enginehouse.prepare.record import Pack
from enginehouse.quantize.quantize import quantize
from enginehouse.quantize.record import QuantizeConfig
from enginehouse.store import Store
from enginehouse.train.record import ModelConfig, TrainedModel

SIZE = 224
CLASSES = tuple(f"class{number}" for number in range(10))
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
# Random weights answer at random: how far a smaller precision is from fp32 is no matter there.
ANYTHING = ExportConfig(num_parity_pictures=1, max_difference=1, max_flips=1)


class Folder:
    """A store, and a fresh workspace for each stage that is called."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.store = Store(root / "store")

    def open(self) -> Workspace:
        """A workspace whose scratch folder is empty."""
        return Workspace(self.store, Path(tempfile.mkdtemp(dir=self.root)))

    def use_store(self, root: Path) -> None:
        """Take a store that is there already."""
        self.store = Store(root)


def recall(store: Store, slot: str, kind: type[Record]) -> Any:
    """The record that the last run of a place left in a store, whatever code made it."""
    parts = store.recall(f"slots/{slot}")
    if parts is None:
        sys.exit(f"skipped: no {slot} in that state; run bench/folds.py --parts scratch,mobile")
    path = store.record_path(parts["stage"], fingerprint(parts))
    return kind.from_json(path.read_text(encoding="utf-8"))


def seal_pictures(folder: Folder) -> Pack:
    """Coloured patches, 32 for calibration and 8 for each other split."""
    here, rng = folder.open(), np.random.default_rng(0)
    counts = {"train": 32, "val": 8, "test": 8}
    rows = []
    for split, count in counts.items():
        patches = rng.integers(0, 256, (count, 3, 14, 14), dtype=np.uint8)
        np.save(here.scratch / f"{split}-00000.npy", patches.repeat(16, axis=2).repeat(16, axis=3))
        rows += [
            {"split": split, "row": row, "path": f"{split}/{row}", "part": f"{split}{row}"}
            | {"label": CLASSES[row % 10], "class_index": row % 10}
            for row in range(count)
        ]
    pd.DataFrame(rows).to_parquet(here.scratch / "index.parquet", index=False)
    names = [*(f"{split}-00000.npy" for split in counts), "index.parquet"]
    return Pack(
        files=here.seal(names),
        classes=CLASSES,
        preparation=Preparation(size=SIZE),
        counts=counts,
        mean=MEAN,
        std=STD,
    )


def seal_network(folder: Folder, name: str) -> TrainedModel:
    """Random weights; BatchNorm statistics spread, so that folding them changes something."""
    here = folder.open()
    torch.manual_seed(0)
    network = load_choice("models", "torchvision").build_model(name, len(CLASSES))
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.uniform_(-0.1, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    save_file(network.state_dict(), here.scratch / "weights.safetensors")
    return TrainedModel(
        files=here.seal(["weights.safetensors"]),
        model=ModelConfig(family="torchvision", name=name),
        classes=CLASSES,
        preparation=Preparation(size=SIZE),
        mean=MEAN,
        std=STD,
        val_accuracy=0,
        val_macro_f1=0,
    )


def shrink(
    folder: Folder, model: TrainedModel, pack: Pack, config: QuantizeConfig, checks: ExportConfig
) -> OnnxModel:
    """Quantize and export."""
    quantized = quantize(model=model, pack=pack, config=config, here=folder.open())
    return export(
        model=quantized,
        trained=model,
        pack=pack,
        data=DataVersion(digest="0"),
        config=checks,
        here=folder.open(),
    )


def build_for(folder: Folder, onnx: OnnxModel, batch: BatchProfile, **target: str) -> Engine:
    """The engine of an ONNX file: `backend`, and `device` where it is not the CPU."""
    made_for = Target.model_validate({"batch": batch, "precision": onnx.precision, **target})
    device = load_backend(made_for.backend).describe_build_device(made_for)
    return build(onnx=onnx, device=device, config=made_for, here=folder.open())
