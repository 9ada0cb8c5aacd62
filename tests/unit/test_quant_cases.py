"""The field cases of calibration: scales per tensor, too few pictures, another normalisation."""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from enginehouse.errors import EnginehouseError
from enginehouse.export.checks import check_per_channel
from enginehouse.quantize.quantize import quantize
from enginehouse.quantize.record import QuantizeConfig
from enginehouse.quantizers._calibrate import calibrate, make_scheme
from enginehouse.quantizers._graph import capture, convert, prepare
from enginehouse.quiet import quiet
from tests.conftest import SHARED_DATA
from tests.unit.tiny_pack import CLASSES, open_workspace, seal_pack, train_tiny

ARCHIVE = SHARED_DATA.parent / "cases" / "field_cases.tar.gz"
pytestmark = pytest.mark.skipif(
    not ARCHIVE.exists(), reason=f"the archive {ARCHIVE.name} is not here"
)


def quantize_weight(case: Path, folder: Path) -> None:
    """The weight of a depthwise convolution, by the scheme that the case names."""
    config = json.loads((case / "quant_config.json").read_text())
    weight = torch.from_numpy(np.load(case / config["weights"])["weight"]).float()
    conv = nn.Conv2d(len(weight), len(weight), weight.shape[-1], groups=len(weight), bias=False)
    conv.weight.data.copy_(weight.view(conv.weight.shape))
    net = nn.Sequential(nn.Conv2d(3, len(weight), 1), conv).eval()
    per_channel = config["scheme"] != "per_tensor"
    prepared = prepare(capture(net, 16), make_scheme(per_channel=per_channel))
    pictures = torch.rand(4, 3, 16, 16)
    calibrate(prepared, lambda: iter([pictures]), 4, open_workspace(folder))
    with quiet(), torch.no_grad():
        program = torch.onnx.export(convert(prepared), (pictures,), dynamo=True, opset_version=20)
    assert program is not None
    check_per_channel(program.model_proto)


def calibrate_on_few(case: Path, folder: Path) -> None:
    """A training split of as many pictures as the case has, for a quantizer that wants more."""
    config = json.loads((case / "quant_config.json").read_text())
    found = len(list((case / config["calibration"]).iterdir()))
    pack = seal_pack(
        folder,
        train_labels=range(found),
        val_labels=range(found),
        classes=CLASSES[:found],
    )
    model = train_tiny(folder, pack, epochs=1)
    wanted = QuantizeConfig(num_pictures=config["min_images"])
    quantize(model, pack, wanted, open_workspace(folder))


def calibrate_otherwise(case: Path, folder: Path) -> None:
    """A pack that is normalised unlike the one that was trained on."""
    trained, other = (
        {
            name: tuple(json.loads((case / f"preprocess_{split}.json").read_text())[name])
            for name in ("mean", "std")
        }
        for split in ("train", "calib")
    )
    model = train_tiny(folder, seal_pack(folder, **trained), epochs=1)
    config = QuantizeConfig(num_pictures=24)
    quantize(model, seal_pack(folder, **other), config, open_workspace(folder))


CASES: dict[str, Callable[[Path, Path], None]] = {
    "QNT-01": quantize_weight,
    "QNT-02": calibrate_on_few,
    "QNT-03": calibrate_otherwise,
}


@pytest.mark.parametrize("name", CASES)
def test_a_field_case_is_refused_as_it_should(name: str, tmp_path: Path) -> None:
    with tarfile.open(ARCHIVE) as archive:
        members = [each for each in archive if f"/{name}/" in f"/{each.name}"]
        archive.extractall(tmp_path, members, filter="data")
    (found,) = tmp_path.rglob("expected.json")
    expected: dict[str, Any] = json.loads(found.read_text())
    assert expected["expect"] == "reject"
    with pytest.raises(EnginehouseError) as refused:
        CASES[name](found.parent / "input", tmp_path)
    for pattern in expected["must_mention"]:
        assert re.search(pattern, str(refused.value), re.IGNORECASE), str(refused.value)
