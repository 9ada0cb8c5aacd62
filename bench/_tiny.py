"""A tiny recipe on drawn pictures, in a state folder of its own: overheads without the work."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from PIL import Image

from enginehouse.recipe import Recipe


def draw_pictures(folder: Path, per_class: int = 30) -> Path:
    """Three classes of 48 px noise of different brightness."""
    rng = np.random.default_rng(0)
    for level, label in enumerate(("dark", "middle", "light")):
        (folder / label).mkdir(parents=True)
        for number in range(per_class):
            noise = rng.normal(70 + 60 * level, 15, (48, 48, 3)).clip(0, 255)
            Image.fromarray(noise.astype(np.uint8)).save(folder / label / f"{number}.png")
    return folder


def make_recipe(name: str, folder: Path) -> Recipe:
    """A recipe that trains for seconds and is let through by every gate."""
    return Recipe.model_validate(
        {
            "name": name,
            "data": {"path": str(folder)},
            "prepare": {"size": 32},
            "train": {"model": {"family": "tiny", "name": "tiny_cnn"}, "epochs": 3},
            "quantize": {"num_pictures": 16},
            "export": {"num_parity_pictures": 8, "max_difference": 0.5},
            "measure": {"rounds": 3},
            "gates": {"min_macro_f1": 0, "max_drop": 1},
        }
    )


def isolate(folder: Path) -> None:
    """Point state and store of this process into a folder."""
    os.environ["ENGINEHOUSE_STATE"] = str(folder / "state")
    os.environ.pop("ENGINEHOUSE_STORE", None)
    for name in ("PREFECT_API_URL", "PREFECT_HOME", "MLFLOW_TRACKING_URI"):
        os.environ.pop(name, None)
