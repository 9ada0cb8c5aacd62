"""The losses: numbers as torch's own functions have them, and slopes that are numbers anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional
from torchvision.ops import sigmoid_focal_loss

from enginehouse import losses
from enginehouse.choices import list_choices, load_choice
from enginehouse.train.config import LossConfig, TrainConfig
from enginehouse.train.loss import make_loss, make_plain_loss
from tests.unit.tiny_pack import seal_pack, train_tiny

CPU = torch.device("cpu")
PROBLEM_OF = {"distribution": "single_label", "independent": "multi_label"}
PAIRS = [
    (name, PROBLEM_OF[shape])
    for name in list_choices("losses")
    for shape in load_choice("losses", name).FITS
]


def _draw(problem: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits and soft targets, [6, 4]."""
    generator = torch.Generator().manual_seed(3)
    logits = 3 * torch.randn(6, 4, generator=generator)
    targets = torch.rand(6, 4, generator=generator)
    return logits, targets / targets.sum(1, keepdim=True) if problem == "single_label" else targets


def _measure(
    name: str,
    problem: str,
    logits: torch.Tensor,
    targets: torch.Tensor,
    weights: list[float] | None = None,
    **options: float,
) -> torch.Tensor:
    loss = make_loss(LossConfig(name=name, options=options), problem, weights, CPU)
    return loss(logits, targets)


def test_the_cross_entropies_are_those_of_torch() -> None:
    logits, targets = _draw("single_label")
    weights = [0.5, 1.0, 2.0, 4.0]
    expected = functional.cross_entropy(logits, targets, torch.tensor(weights), reduction="none")
    found = _measure("cross_entropy", "single_label", logits, targets, weights)
    torch.testing.assert_close(found, expected)
    logits, targets = _draw("multi_label")
    expected = functional.binary_cross_entropy_with_logits(
        logits, targets, torch.tensor(weights), reduction="none"
    ).mean(dim=1)
    torch.testing.assert_close(_measure("bce", "multi_label", logits, targets, weights), expected)


def test_focal_loss_without_focus_is_the_cross_entropy() -> None:
    for problem, other in (("single_label", "cross_entropy"), ("multi_label", "bce")):
        logits, targets = _draw(problem)
        weights = [0.5, 1.0, 2.0, 4.0]
        found = _measure("focal", problem, logits, targets, weights, gamma=0)
        expected = _measure(other, problem, logits, targets, weights)
        torch.testing.assert_close(found, expected)


def test_focal_loss_of_independent_classes_is_that_of_torchvision() -> None:
    logits, targets = _draw("multi_label")
    hard = targets.round()  # torchvision's mixes p_t of soft ones in another way
    expected = sigmoid_focal_loss(logits, hard, alpha=-1, gamma=3).mean(dim=1)
    found = _measure("focal", "multi_label", logits, hard, gamma=3)
    torch.testing.assert_close(found, expected)


def test_focal_loss_of_a_distribution_by_hand() -> None:
    logits = torch.tensor([[0.8, 0.2]]).log()
    targets = torch.tensor([[1.0, 0.0]])
    found = _measure("focal", "single_label", logits, targets, [3.0, 1.0], gamma=2)
    assert found.item() == pytest.approx(3 * 0.2**2 * 0.2231436, rel=1e-5)


@pytest.mark.parametrize("problem", ["single_label", "multi_label"])
def test_losses_of_probabilities_are_those_of_torch(problem: str) -> None:
    logits, targets = _draw(problem)
    chances = load_choice("problems", problem).activate(logits)
    total = torch.sum if problem == "single_label" else torch.mean
    weights = [0.5, 1.0, 2.0, 4.0]
    for name, terms in {
        "mse": functional.mse_loss(chances, targets, reduction="none"),
        "l1": functional.l1_loss(chances, targets, reduction="none"),
        "huber": functional.huber_loss(chances, targets, reduction="none", delta=0.25),
    }.items():
        expected = total(terms * torch.tensor(weights), dim=1)
        torch.testing.assert_close(_measure(name, problem, logits, targets, weights), expected)
    other = functional.huber_loss(chances, targets, reduction="none", delta=0.1)
    found = _measure("huber", problem, logits, targets, delta=0.1)
    torch.testing.assert_close(found, total(other, dim=1))


@pytest.mark.parametrize(("name", "problem"), PAIRS)
def test_slopes_are_numbers_however_sure_the_network_is(name: str, problem: str) -> None:
    extremes = torch.tensor([[1e4, -1e4, 0.0], [-1e4, 1e4, 50.0], [60.0, -60.0, 1e-9]])
    for options in [{"gamma": 0.5}, {"gamma": 5.0}] if name == "focal" else [{}]:
        for targets in (torch.eye(3), torch.full((3, 3), 1 / 3)):
            logits = extremes.clone().requires_grad_()
            found = _measure(name, problem, logits, targets, [1.0, 2.0, 3.0], **options)
            found.sum().backward()  # type: ignore[no-untyped-call]
            assert found.shape == (3,)
            assert found.isfinite().all()
            assert logits.grad is not None
            assert logits.grad.isfinite().all()


@pytest.mark.parametrize(("name", "problem"), PAIRS)
def test_the_weight_of_a_class_counts(name: str, problem: str) -> None:
    logits, targets = torch.zeros(1, 3), torch.tensor([[0.0, 1.0, 0.0]])
    usual = _measure(name, problem, logits, targets).item()
    heavy = _measure(name, problem, logits, targets, [1.0, 5.0, 1.0]).item()
    assert _measure(name, problem, logits, targets, [1.0, 1.0, 1.0]).item() == pytest.approx(usual)
    assert heavy > usual


def test_smoothing_goes_towards_a_half_or_towards_equal_shares() -> None:
    config = LossConfig(name="bce", label_smoothing=0.2)
    logits, targets = torch.tensor([[2.0, -1.0]]), torch.tensor([[1.0, 0.0]])
    smooth = torch.tensor([[0.9, 0.1]])
    found = make_loss(config, "multi_label", None, CPU)(logits, targets)
    torch.testing.assert_close(found, _measure("bce", "multi_label", logits, smooth))
    plain = make_plain_loss(config, "multi_label", CPU)(logits, targets)
    torch.testing.assert_close(plain, _measure("bce", "multi_label", logits, targets))
    config = LossConfig(label_smoothing=0.2)
    found = make_loss(config, "single_label", None, CPU)(logits, targets)
    torch.testing.assert_close(found, _measure("cross_entropy", "single_label", logits, smooth))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("focal", {"gamma": -1}, "gamma: .*found -1"),
        ("huber", {"beta": 1}, "no option 'beta'.*there are delta"),
        ("mse", {"delta": 1}, "no option 'delta'; there are none"),
        ("focl", {}, "did you mean 'focal'"),
    ],
)
def test_options_of_another_loss_are_refused(
    name: str, options: dict[str, float], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        LossConfig(name=name, options=options)


@pytest.mark.parametrize("name", ["focal", "mse", "l1", "huber"])
def test_every_loss_trains(tmp_path: Path, name: str) -> None:
    pack = seal_pack(tmp_path)
    model = train_tiny(tmp_path, pack, epochs=6, learning_rate=5e-3, loss={"name": name})
    assert model.val_macro_f1 > 0.6


def test_a_new_loss_is_one_module_and_one_entry_in_the_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(losses.CHOICES, "logistic", "tests.unit.margin_loss")
    config: Any = {"name": "logistic", "options": {"scale": 2}}
    assert TrainConfig(loss=config).loss.options == {"scale": 2}
    model = train_tiny(tmp_path, seal_pack(tmp_path), epochs=6, loss=config)
    assert model.val_macro_f1 > 0.8
