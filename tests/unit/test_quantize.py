"""Quantizing: which pictures are used, what is stored, and that it comes back bit by bit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load, load_file, save

from enginehouse.artifact import Report, silent
from enginehouse.choices import load_choice
from enginehouse.errors import Interrupted, QuantizationError
from enginehouse.preparation import Preparation
from enginehouse.prepare.record import Pack
from enginehouse.quantize.calibration import check_classes, choose_rows
from enginehouse.quantize.quantize import quantize
from enginehouse.quantize.record import QuantizeConfig, QuantizedModel
from enginehouse.quantizer import Material, Quantized
from enginehouse.train.network import build_network, load_network, normalise
from enginehouse.train.record import TrainedModel
from tests.unit.tiny_pack import CLASSES, SIZE, draw, open_workspace, seal_pack, train_tiny

PLAIN = {"sensitivity_pictures": 0.0}
CONFIG = QuantizeConfig(num_pictures=24, options=PLAIN)

PTQ: Any = load_choice("quantizers", "int8_ptq")
NONE: Any = load_choice("quantizers", "none")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("quantize")


@pytest.fixture(scope="module")
def pack(folder: Path) -> Pack:
    return seal_pack(folder)


@pytest.fixture(scope="module")
def model(folder: Path, pack: Pack) -> TrainedModel:
    return train_tiny(folder, pack)


@pytest.fixture(scope="module")
def quantized(folder: Path, model: TrainedModel, pack: Pack) -> QuantizedModel:
    return quantize(model, pack, CONFIG, open_workspace(folder))


def test_the_same_arguments_give_the_same_bytes(
    quantized: QuantizedModel, model: TrainedModel, pack: Pack, folder: Path
) -> None:
    torch.manual_seed(99)
    assert quantize(model, pack, CONFIG, open_workspace(folder)).identity == quantized.identity


def test_the_seed_and_the_number_of_pictures_count(
    quantized: QuantizedModel, model: TrainedModel, pack: Pack, folder: Path
) -> None:
    for change in ({"seed": 1}, {"num_pictures": 48}):
        config = CONFIG.model_copy(update=change)
        other = quantize(model, pack, config, open_workspace(folder))
        assert other.files != quantized.files
        assert other.calibration != quantized.calibration


def test_the_pictures_are_pinned_by_their_digest(
    quantized: QuantizedModel, model: TrainedModel, pack: Pack, folder: Path
) -> None:
    assert len(quantized.calibration) == 64
    config = CONFIG.model_copy(update={"options": {**PLAIN, "observer": "minmax"}})
    other = quantize(model, pack, config, open_workspace(folder))
    assert other.calibration == quantized.calibration
    assert other.files != quantized.files
    assert other.options == config.options


def test_notes_say_what_was_used(quantized: QuantizedModel) -> None:
    assert quantized.notes["calibration"] == {
        "wanted": 24,
        "used": 24,
        "per_class": {"red": 8, "green": 8, "blue": 8},
    }


def test_the_restored_network_agrees_with_the_trained_one(
    quantized: QuantizedModel, model: TrainedModel, folder: Path
) -> None:
    net, again = _restore(quantized, folder), _restore(quantized, folder)
    inputs = normalise(torch.from_numpy(draw((0, 1, 2) * 4, 9)), model.mean, model.std)
    with torch.inference_mode():
        exact = load_network(model, open_workspace(folder))(inputs).softmax(1)
        found = net(inputs).softmax(1)
        assert torch.equal(found, again(inputs).softmax(1))
    assert (found.argmax(1) == exact.argmax(1)).all()
    assert (found - exact).abs().max() < 0.1


def test_a_round_trip_gives_the_same_graph_and_numbers(folder: Path, model: TrainedModel) -> None:
    """What is stored gives, after loading, what the observers gave when they were fresh."""
    net = load_network(model, open_workspace(folder))
    inputs = normalise(torch.from_numpy(draw((0, 1, 2) * 4, 9)), model.mean, model.std)
    state = quantize_by_hand(net, inputs, model, folder).state
    direct = PTQ.restore(net, state, (), SIZE)
    stored = PTQ.restore(build_network(model.model, 3).eval(), load(save(state)), (), SIZE)
    assert direct.code == stored.code
    for name, value in direct.state_dict().items():
        assert torch.equal(value, stored.state_dict()[name]), name
    with torch.inference_mode():
        assert torch.equal(direct(inputs), stored(inputs))


def test_weights_are_per_channel_and_everything_is_symmetric(
    quantized: QuantizedModel, folder: Path
) -> None:
    state = _restore(quantized, folder).state_dict()
    zeros = [value for name, value in state.items() if "zero_point" in name]
    scales = [value for name, value in state.items() if name.startswith("_scale")]
    assert zeros
    assert not any(value.any() for value in zeros)
    assert {len(scale) for scale in scales} >= {16, 32, 64}
    frozen = [value for name, value in state.items() if "frozen" in name]
    assert {value.dtype for value in frozen} == {torch.int8}


def test_a_state_of_another_network_is_refused(quantized: QuantizedModel, folder: Path) -> None:
    state = load_file(open_workspace(folder).path(quantized, "state.safetensors"))
    wide = quantized.model.model_copy(update={"name": "tiny_cnn_wide"})
    for quantizer in (PTQ, NONE):
        with pytest.raises(QuantizationError, match="not fit the network"):
            quantizer.restore(build_network(wide, 3).eval(), state, (), SIZE)


def test_without_a_quantizer_the_state_is_the_weights(
    model: TrainedModel, pack: Pack, folder: Path
) -> None:
    """It needs no calibration, so it asks nothing of the training split."""
    here = open_workspace(folder)
    config = QuantizeConfig(quantizer="none", num_pictures=10_000)
    plain = quantize(model, pack, config, here)
    assert (plain.calibration, plain.kept_float, plain.notes) == ("", (), {})
    state = load_file(here.path(plain, "state.safetensors"))
    net = NONE.restore(build_network(model.model, 3).eval(), state, (), SIZE)
    inputs = torch.rand(2, 3, SIZE, SIZE)
    with torch.inference_mode():
        assert torch.equal(net(inputs), load_network(model, here)(inputs))


def test_costly_layers_are_looked_for_on_validation_pictures(
    model: TrainedModel, pack: Pack, folder: Path
) -> None:
    """No answer may differ, and none does: so no layer is kept in float."""
    config = CONFIG.model_copy(update={"options": {"sensitivity_pictures": 12.0, "max_flips": 0}})
    found = quantize(model, pack, config, open_workspace(folder))
    sensitivity, search = found.notes["sensitivity"], found.notes["search"]
    assert search["num_pictures"] == 12
    assert {"0", "4.body.0", "4.add", "8"} <= {each["name"] for each in sensitivity}
    assert found.kept_float == ()
    assert (search["max_flips"], search["num_pictures"], search["flips"]) == (0, 12, 0)
    assert json.loads(json.dumps(found.notes)) == found.notes


def test_calibration_takes_the_classes_in_turn() -> None:
    labels = np.array([0] * 50 + [1] * 10 + [2] * 30)
    rows = choose_rows(labels, 30, seed=0)
    assert np.bincount(labels[rows]).tolist() == [10, 10, 10]
    assert labels[rows][:6].tolist() == [0, 1, 2, 0, 1, 2]
    filled = choose_rows(labels, 60, seed=0)
    assert np.bincount(labels[filled]).tolist() == [25, 10, 25]
    assert len(set(filled.tolist())) == 60
    assert choose_rows(labels, 30, seed=0).tolist() == rows.tolist()
    assert choose_rows(labels, 30, seed=1).tolist() != rows.tolist()


def test_a_split_that_is_a_little_small_is_used_whole() -> None:
    labels = np.array([0, 1, 2] * 20)
    assert sorted(choose_rows(labels, 100, seed=0)) == list(range(60))


def test_too_few_pictures_are_refused() -> None:
    with pytest.raises(QuantizationError, match=r"wants 100 pictures, at least 50.*holds 2"):
        choose_rows(np.array([0, 1]), 100, seed=0)
    with pytest.raises(QuantizationError, match="none of blue"):
        check_classes(np.array([50, 50, 0]), CLASSES)


@pytest.mark.parametrize(
    "change", [{"mean": (0.0, 0.0, 0.0)}, {"std": (1.0, 1.0, 1.0)}], ids=["mean", "std"]
)
def test_other_preprocessing_than_in_training_is_refused(
    change: dict[str, Any], model: TrainedModel, pack: Pack, folder: Path
) -> None:
    (field,) = change
    with pytest.raises(QuantizationError, match=f"trained with {field}"):
        quantize(model, pack.model_copy(update=change), CONFIG, open_workspace(folder))


def test_a_network_that_cannot_be_captured_is_refused(folder: Path, model: TrainedModel) -> None:
    class Branching(torch.nn.Module):
        def forward(self, pictures: torch.Tensor) -> torch.Tensor:
            return pictures if pictures.sum() > 0 else -pictures

    with pytest.raises(QuantizationError, match="cannot be captured as one graph"):
        quantize_by_hand(Branching().eval(), torch.zeros(2, 3, 8, 8), model, folder)


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_activations_that_are_no_numbers_are_refused(
    value: float, model: TrainedModel, folder: Path
) -> None:
    net = load_network(model, open_workspace(folder))
    net.get_parameter("4.body.3.weight").data.fill_(value)
    with pytest.raises(
        QuantizationError, match=r"wants finite activations.*weight of 4\.body\.3\."
    ):
        quantize_by_hand(net, torch.rand(2, 3, SIZE, SIZE), model, folder)
    net = load_network(model, open_workspace(folder))
    net.get_parameter("1.bias").data.fill_(value)
    with pytest.raises(QuantizationError, match=r"not all numbers are finite in the input of 3\."):
        quantize_by_hand(net, torch.rand(2, 3, SIZE, SIZE), model, folder)


def test_progress_is_told_and_a_stop_is_heeded(
    model: TrainedModel, pack: Pack, folder: Path
) -> None:
    seen: list[tuple[int, int]] = []

    def report(message: str, done: int = 0, total: int = 0, **metrics: float) -> None:
        seen.append((done, total))

    here = open_workspace(folder, report)
    quantize(model, pack, CONFIG, here)
    assert seen == [(16, 48), (24, 48), (40, 48), (48, 48), (16, 24), (24, 24)]
    here.stopping = lambda: True
    with pytest.raises(Interrupted):
        quantize(model, pack, CONFIG, here)


def quantize_by_hand(
    net: torch.nn.Module,
    inputs: torch.Tensor,
    model: TrainedModel,
    folder: Path,
    report: Report = silent,
) -> Quantized:
    material: Any = Material(
        net=net,
        model=model.model_copy(update={"preparation": Preparation(size=inputs.shape[-1])}),
        pack=None,  # type: ignore[arg-type]
        calibration=lambda: iter(inputs.split(6)),
        num_pictures=len(inputs),
        validation=lambda wanted: (inputs[:wanted], np.eye(3, dtype=np.float32)[:wanted]),
        seed=0,
        here=open_workspace(folder, report),
    )
    quantized: Quantized = PTQ.quantize(material, PTQ.Options(sensitivity_pictures=0))
    return quantized


def _restore(quantized: QuantizedModel, folder: Path) -> Any:
    quantizer: Any = load_choice("quantizers", quantized.quantizer)
    state = load_file(open_workspace(folder).path(quantized, "state.safetensors"))
    net = build_network(quantized.model, 3).eval()
    return quantizer.restore(net, state, quantized.kept_float, quantized.size)
