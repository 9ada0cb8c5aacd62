"""Training on with rounding: what it mends, what stands still late, and how it goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from pydantic import ValidationError

from enginehouse.artifact import Workspace
from enginehouse.choices import find_choice
from enginehouse.code_digest import find_modules
from enginehouse.errors import Interrupted, NonFiniteLoss
from enginehouse.prepare.record import Pack
from enginehouse.problems import multi_label, single_label
from enginehouse.quantize.record import Candidate
from enginehouse.quantizer import Material, Quantized
from enginehouse.quantizers import int8_ptq, int8_qat
from enginehouse.quantizers._calibrate import calibrate, make_scheme
from enginehouse.quantizers._graph import capture, convert, prepare
from enginehouse.quantizers._qat_graph import fold, list_folded, make_learning
from enginehouse.quantizers._qat_loss import make_taught_loss
from enginehouse.quantizers._qat_training import list_ranges, train_on
from enginehouse.store import Store
from enginehouse.train.finetune import list_norms
from enginehouse.train.network import build_network, load_network, normalise
from enginehouse.train.record import ModelConfig, TrainedModel
from enginehouse.train.splits import read_split
from tests.unit.faulty_family import Breaking
from tests.unit.tiny_pack import SIZE, open_workspace, seal_pack, train_tiny

PER_EPOCH = 5  # batches of 16 in 72 pictures
QUICK = {"batch_size": 16, "learning_rate": 1e-3}
DROPPING = {"family": "tiny", "name": "tiny_cnn", "head": {"dropout": 0.3}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("qat")


@pytest.fixture(scope="module")
def pack(folder: Path) -> Pack:
    return seal_pack(folder)


@pytest.fixture(scope="module")
def model(folder: Path, pack: Pack) -> TrainedModel:
    return train_tiny(folder, pack, model=DROPPING, epochs=12)


class Site:
    """A place where a network is quantized again and again, in one resumable folder."""

    def __init__(self, folder: Path, root: Path, model: TrainedModel, pack: Pack) -> None:
        self.folder = folder
        self.root = root
        self.model = model
        self.pack = pack
        self.said: list[str] = []
        self.watch: Callable[[str], None] = lambda _: None

    def gather(self, stop_at: int = 0) -> Material:
        """What a quantizer works with; it is asked to stop after so many steps of training."""
        steps = 0

        def report(message: str, done: int = 0, total: int = 0, **metrics: float) -> None:
            nonlocal steps
            steps = done if message == "steps" else steps
            self.said.append(message)
            self.watch(message)

        scratch = self.root / f"scratch{len(list(self.root.glob('scratch*')))}"
        scratch.mkdir(parents=True)
        here = Workspace(
            Store(self.folder / "store"),
            scratch,
            report,
            stopping=lambda: bool(stop_at) and steps >= stop_at,
            resumable=self.root / "resumable",
        )
        pictures, _ = self.read("train")

        def calibration() -> Iterator[torch.Tensor]:
            yield from (pictures[:16], pictures[16:32])

        def validation(num_pictures: int) -> tuple[torch.Tensor, NDArray[np.float32]]:
            inputs, targets = self.read("val")
            return inputs[:num_pictures], targets[:num_pictures].numpy()

        net = load_network(self.model, here)
        return Material(
            net=net,
            model=self.model,
            pack=self.pack,
            calibration=calibration,
            num_pictures=32,
            validation=validation,
            seed=0,
            here=here,
        )

    def read(self, split: str) -> tuple[torch.Tensor, torch.Tensor]:
        """Normalised pictures and targets of a split."""
        found = read_split(self.pack, split, open_workspace(self.folder))
        pictures, targets = found.pick(np.arange(len(found)))
        return normalise(pictures, self.model.mean, self.model.std), targets

    def restore(self, quantizer: Any, quantized: Quantized) -> torch.nn.Module:
        net = build_network(self.model.model, 3).eval()
        restored: torch.nn.Module = quantizer.restore(
            net, quantized.state, quantized.kept_float, SIZE
        )
        return restored

    def find_loss(self, net: torch.nn.Module) -> float:
        """Mean cross entropy on validation."""
        pictures, targets = self.read("val")
        with torch.no_grad():
            return torch.nn.functional.cross_entropy(net(pictures), targets).item()


@pytest.fixture
def make_site(folder: Path, tmp_path: Path, model: TrainedModel, pack: Pack) -> Callable[[], Site]:
    def make() -> Site:
        return Site(folder, tmp_path / f"site{len(list(tmp_path.iterdir()))}", model, pack)

    return make


@pytest.fixture
def site(make_site: Callable[[], Site]) -> Site:
    return make_site()


def plant_outlier(net: Any, factor: float) -> None:
    """One channel of the first feature map becomes larger; what reads it makes up for that."""
    with torch.no_grad():
        net[1].weight[3] *= factor
        net[1].bias[3] *= factor
        for reader in (net[4].body[0], net[4].skip[0]):
            reader.weight[:, 3] /= factor


def test_it_mends_what_calibration_cannot(site: Site) -> None:
    material = site.gather()
    plant_outlier(material.net, 300)
    exact = site.find_loss(material.net)
    calibrated = int8_ptq.quantize(material, int8_ptq.Options(sensitivity_pictures=0))
    material = site.gather()
    plant_outlier(material.net, 300)
    trained = int8_qat.quantize(material, int8_qat.Options(**QUICK, epochs=6))
    before = site.find_loss(site.restore(int8_ptq, calibrated))
    after = site.find_loss(site.restore(int8_qat, trained))
    assert before > exact + 1, "the plant hurts nobody"
    assert after < exact + 0.1 * (before - exact)
    history: Any = trained.notes["history"]
    assert [row["epoch"] for row in history] == [1, 2, 3, 4, 5, 6]
    assert {"loss", "val_loss", "macro_f1"} <= history[0].keys()
    assert f"epoch {trained.notes['best_epoch']}/6" in site.said


@pytest.mark.parametrize("name", ["tiny/tiny_cnn", "torchvision/mobilenet_v3_small"])
def test_both_graphs_answer_alike_and_folding_undoes_the_unfolding(
    name: str, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    family, _, architecture = name.partition("/")
    net = build_network(ModelConfig(family=family, name=architecture), 3).eval()
    norms: list[Any] = [norm for _, norm in list_norms(net)]
    for norm in norms:
        for values in (norm.running_mean, norm.bias):
            values.data.normal_(0, 0.3)
        for values in (norm.running_var, norm.weight):
            values.data.uniform_(0.5, 1.5)
    pictures = torch.rand(8, 3, SIZE, SIZE)
    captured = capture(net, SIZE)
    folded = list_folded(captured)
    calibrated = prepare(captured, make_scheme())
    calibrate(calibrated, lambda: iter([pictures]), 8, open_workspace(tmp_path))
    learning = make_learning(net, calibrated, folded).eval()
    before = {key: value.clone() for key, value in calibrated.state_dict().items()}
    state = fold(calibrated, learning, folded)
    assert state.keys() == before.keys()
    for key, value in before.items():
        torch.testing.assert_close(state[key], value, rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        exact, trained, exported = net(pictures), learning(pictures), convert(calibrated)(pictures)
    gaps = (trained - exported).abs().amax(dim=1)
    # A number between two steps may be rounded to either, after which all that follows differs.
    assert (gaps < 1e-5).any()
    assert gaps.mean() < (exported - exact).abs().amax(dim=1).mean()
    assert len(folded) == len(list_norms(learning)) == len(list_norms(net))
    assert sum(each.numel() for each in learning.parameters()) == sum(
        each.numel() for each in [*net.parameters(), *list_ranges(learning)]
    )


def test_a_norm_that_activates_as_well_does_so_once(tmp_path: Path) -> None:
    class ActivatingNorm(torch.nn.BatchNorm2d):
        def forward(self, input: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.silu(super().forward(input))

    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(3, 8, 3), ActivatingNorm(8), torch.nn.Conv2d(8, 3, 1)]
    net = torch.nn.Sequential(*layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()).eval()
    pictures = torch.rand(8, 3, SIZE, SIZE)
    captured = capture(net, SIZE)
    folded = list_folded(captured)
    calibrated = prepare(captured, make_scheme())
    calibrate(calibrated, lambda: iter([pictures]), 8, open_workspace(tmp_path))
    learning = make_learning(net, calibrated, folded).eval()
    with torch.no_grad():
        gaps = learning(pictures) - convert(calibrated)(pictures)
    assert gaps.abs().max() < 1e-3


def test_asked_to_stop_it_goes_on_to_the_same_bytes(
    site: Site, make_site: Callable[[], Site]
) -> None:
    options = int8_qat.Options(**QUICK, epochs=2)
    with pytest.raises(Interrupted, match="epoch 2, after 7 steps; a checkpoint is kept"):
        int8_qat.quantize(site.gather(stop_at=7), options)
    assert [path.name[:14] for path in (site.root / "resumable").iterdir()] == ["step-000000007"]
    quantized = int8_qat.quantize(site.gather(), options)
    assert quantized.notes["resumed"] == [7]
    assert "goes on after 7 steps" in site.said
    reference = int8_qat.quantize(make_site().gather(), options)
    assert quantized.state.keys() == reference.state.keys()
    for name, value in reference.state.items():
        assert torch.equal(value, quantized.state[name]), name


@pytest.mark.parametrize(("share", "moves"), [(0.5, False), (1.0, True)])
def test_what_is_frozen_late_stands_still_from_then_on(
    share: float, moves: bool, site: Site
) -> None:
    material = site.gather()
    captured = capture(material.net, SIZE)
    folded = list_folded(captured)
    calibrated = prepare(captured, make_scheme())
    calibrate(calibrated, material.calibration, 32, material.here)
    learning = make_learning(material.net, calibrated, folded)
    seen: dict[str, list[torch.Tensor]] = {}

    def watch(message: str) -> None:
        if message.startswith("epoch"):
            norms: list[Any] = [norm for _, norm in list_norms(learning)]
            seen[f"{message} statistics"] = [norm.running_mean.clone() for norm in norms]
            seen[f"{message} ranges"] = [each.detach().clone() for each in list_ranges(learning)]

    watch("epoch 0/2")
    site.watch = watch
    options = int8_qat.Options(**QUICK, epochs=2, freeze_batchnorm=share, freeze_ranges=share)
    train_on(learning, material.net, material, options)
    for what in ("statistics", "ranges"):
        start, first, last = (seen[f"epoch {epoch}/2 {what}"] for epoch in range(3))
        assert not any(map(torch.equal, start, first)), what
        assert any(map(torch.equal, first, last)) is not moves, what
        assert all(map(torch.equal, first, last)) is not moves, what


def test_it_is_restored_for_evaluation(site: Site) -> None:
    quantized = int8_qat.quantize(site.gather(), int8_qat.Options(**QUICK, epochs=1))
    net = site.restore(int8_qat, quantized)
    assert not any(
        isinstance(module, torch.nn.modules.batchnorm._BatchNorm) for module in net.modules()
    )
    pictures, _ = site.read("val")
    with torch.no_grad():
        answers = net(pictures)
        assert torch.equal(answers, net(pictures))
        alone = torch.cat([net(picture[None]) for picture in pictures])
    # Kernels differ with the batch, so a number between two steps may be rounded to either.
    torch.testing.assert_close(alone, answers, rtol=0, atol=0.02)
    nodes = list(net.graph.nodes)  # type: ignore[union-attr, arg-type]
    (dropout,) = (node for node in nodes if "dropout" in str(node.target))
    assert dropout.args[2] is False
    rounded = [node for node in nodes if ".dequantize_per_tensor" in str(node.target)]
    assert len(rounded) > 5
    assert {node.args[2] for node in rounded} == {0}
    assert {node.args[5] for node in rounded} == {torch.int8}


def test_the_teacher_keeps_its_pupil_near(make_site: Callable[[], Site]) -> None:
    gaps = {}
    for distill in (0.0, 1.0):
        site = make_site()
        material = site.gather()
        pictures, _ = site.read("val")
        wanted = material.net(pictures)
        options = int8_qat.Options(**QUICK, epochs=4, distill=distill)
        found = site.restore(int8_qat, int8_qat.quantize(material, options))(pictures)
        gaps[distill] = (found - wanted).abs().mean().item()
    assert gaps[1.0] < 0.5 * gaps[0.0]


@pytest.mark.parametrize("problem", [single_label, multi_label])
def test_the_taught_loss_is_a_blend(problem: Any) -> None:
    torch.manual_seed(0)
    logits, answers = torch.randn(5, 3), torch.randn(5, 3)
    labels = torch.eye(3)[[0, 1, 2, 0, 1]]
    wanted = torch.cat([labels, answers], dim=1)

    def find(logits: torch.Tensor, **options: float) -> torch.Tensor:
        loss = make_taught_loss(problem, None, int8_qat.Options(**options), torch.device("cpu"))
        return loss(logits, wanted)

    functional: Any = torch.nn.functional
    if problem is single_label:
        told = functional.cross_entropy(logits, labels, reduction="none")
        gap = (answers / 3).softmax(1) * (
            (answers / 3).log_softmax(1) - (logits / 3).log_softmax(1)
        )
        gap = 9 * gap.sum(dim=1)
    else:
        told = functional.binary_cross_entropy_with_logits(logits, labels, reduction="none").mean(1)
        soft, own = (answers / 3).sigmoid(), (logits / 3).sigmoid()
        gap = soft * (soft / own).log() + (1 - soft) * ((1 - soft) / (1 - own)).log()
        gap = 9 * gap.mean(dim=1)
    torch.testing.assert_close(find(logits, distill=0), told)
    torch.testing.assert_close(find(logits, distill=1, distill_temperature=3), gap)
    mixed = find(logits, distill=0.25, distill_temperature=3)
    torch.testing.assert_close(mixed, 0.75 * told + 0.25 * gap)
    torch.testing.assert_close(find(answers, distill=1), torch.zeros(5))


def test_a_loss_that_is_no_number_ends_it(site: Site) -> None:
    material = site.gather()
    with pytest.raises(NonFiniteLoss, match="learning_rate of int8_qat") as caught:
        train_on(Breaking(3, 7, 0), material.net, material, int8_qat.Options(**QUICK))
    assert "epoch 2 (step 8" in str(caught.value)
    assert "train." not in str(caught.value)


def test_what_training_only_makes_worse_is_left_as_it_was_calibrated(site: Site) -> None:
    material = site.gather()
    calibrated = prepare(capture(material.net, SIZE), make_scheme())
    calibrate(calibrated, material.calibration, material.num_pictures, material.here)
    options = int8_qat.Options(epochs=1, batch_size=64, learning_rate=0.1, distill=0)
    quantized = int8_qat.quantize(site.gather(), options)
    assert quantized.notes["best_epoch"] == 0
    assert quantized.state.keys() == calibrated.state_dict().keys()
    for name, value in calibrated.state_dict().items():
        torch.testing.assert_close(quantized.state[name], value, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epochs", 0),
        ("epochs", 1.5),
        ("learning_rate", 0),
        ("learning_rate", 1),
        ("batch_size", 1),
        ("freeze_batchnorm", 1.1),
        ("freeze_ranges", -0.1),
        ("distill", 2),
        ("distill_temperature", 0.5),
        ("distil", 0.5),
    ],
)
def test_options_are_bounded(name: str, value: float) -> None:
    with pytest.raises(ValidationError, match=name):
        Candidate(quantizer="int8_qat", options={name: value})


def test_whole_numbers_may_come_as_floats() -> None:
    assert int8_qat.Options(**{"epochs": 2.0, "batch_size": 8.0}).epochs == 2
    Candidate(quantizer="int8_qat", options={"epochs": 2.0, "distill": 1.0})


def test_only_this_quantizer_depends_on_the_training_loop() -> None:
    stage = "enginehouse.quantize.quantize"
    trains = set(find_modules([stage, find_choice("quantizers", "int8_qat")]))
    only_calibrates = set(find_modules([stage, find_choice("quantizers", "int8_ptq")]))
    learning = {"enginehouse.train.loop", "enginehouse.train.step", "enginehouse.losses.bce"}
    assert learning <= trains
    assert not learning & only_calibrates
    assert "enginehouse.train.train" not in trains
