"""Variations of training pictures: what each does, that it stays in range, and that it repeats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torchvision.transforms.v2 import functional

from enginehouse.train.augment import AugmentConfig, augment
from enginehouse.train.mixing import mix
from enginehouse.train.randomness import Draw, seeded
from enginehouse.train.world import World
from tests.unit.tiny_pack import seal_pack, train_tiny

ALONE = World(0, 1, torch.device("cpu"))
OFF: dict[str, Any] = {"flip_horizontal": False, "shift": 0, "brightness": 0}
STILL = AugmentConfig(**OFF)
GREY = (10.0, 20.0, 30.0)


def vary(pictures: torch.Tensor, seed: int = 0, **fields: Any) -> torch.Tensor:
    """Nothing but `fields` is varied."""
    config = AugmentConfig(**{**OFF, **fields})
    return augment(pictures, config, Draw(seed, len(pictures), ALONE), GREY)


def draw_pictures(num: int, size: int = 16) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, 256, (num, 3, size, size), dtype=torch.uint8, generator=generator)


def draw_blot(num: int, size: int = 32) -> torch.Tensor:
    """A smooth blot to the upper right of the middle, which no interpolation breaks."""
    y, x = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    blot = 200 * torch.exp(-((x - 20) ** 2 + (y - 9) ** 2) / 18)
    return blot.to(torch.uint8).expand(num, 3, size, size)


@pytest.mark.parametrize(
    "fields",
    [
        {"flip_horizontal": True, "shift": 0.06, "brightness": 0.15},
        {"angles": (-7, 0, 90, 3)},
        {"scale": (0.5, 2)},
        {"contrast": 0.9},
        {"noise": 60},
        {"cutout": 3},
        {"rand_augment": 2, "rand_augment_magnitude": 20},
    ],
)
def test_variations_keep_range_and_repeat_with_the_seed(fields: dict[str, Any]) -> None:
    pictures = draw_pictures(6)
    before = pictures.clone()
    torch.manual_seed(3)
    first = vary(pictures, 4, **fields)
    torch.manual_seed(4)
    expected = torch.rand(2)
    torch.manual_seed(4)
    assert torch.equal(vary(pictures, 4, **fields), first)
    assert torch.equal(torch.rand(2), expected), "torch's own generator was used"
    assert not torch.equal(vary(pictures, 5, **fields), first)
    assert torch.equal(pictures, before)
    assert first.shape == pictures.shape
    assert first.dtype == torch.float32
    assert 0 <= first.min() <= first.max() <= 255
    assert first.is_contiguous(memory_format=torch.channels_last)


def test_nothing_wanted_changes_nothing() -> None:
    pictures = draw_pictures(6)
    assert torch.equal(vary(pictures), pictures.float())
    assert torch.equal(vary(pictures, angles=(0,), scale=(1, 1)), pictures.float())


def test_a_flip_is_a_mirror_and_a_shift_repeats_the_edge() -> None:
    ramp = torch.arange(8, dtype=torch.uint8).expand(64, 3, 8, 8)
    flipped = vary(ramp, flip_horizontal=True)
    kinds = {tuple(row.tolist()) for row in flipped[:, 0, 0]}
    assert kinds == {tuple(range(8)), tuple(range(7, -1, -1))}
    moved = vary(ramp, shift=0.25)
    assert {int(row[4]) for row in moved[:, 0, 0]} == {2, 3, 4, 5, 6}
    assert moved.max() == 7


def test_quarter_turns_move_pixels_and_change_none() -> None:
    picture = draw_pictures(1)
    turned = vary(picture.expand(64, -1, -1, -1), angles=(0, 90, 180, 270))
    wanted = [functional.rotate(picture[0], angle).float() for angle in (0, 90, 180, 270)]
    found = [[torch.equal(one, each) for each in wanted] for one in turned]
    assert {row.index(True) for row in found} == {0, 1, 2, 3}
    assert all(sum(row) == 1 for row in found)


@pytest.mark.parametrize("angle", [30.0, -30.0, 80.0, 200.0])
def test_other_angles_turn_as_torchvision_does(angle: float) -> None:
    picture = draw_blot(1)
    turned = vary(picture, angles=(angle,))
    bilinear = functional.InterpolationMode.BILINEAR
    wanted = functional.rotate(picture.float(), angle, interpolation=bilinear)
    assert (turned - wanted).abs().max() < 5  # beyond the edge it is black there
    assert (turned - picture).abs().max() > 100


def test_only_the_given_angles_occur() -> None:
    blots = draw_blot(40)
    turned = vary(blots, angles=(-20, 20))
    assert {round(float(one.sum())) for one in turned} == {
        round(float(vary(blots[:1], angles=(angle,)).sum())) for angle in (-20, 20)
    }


def test_magnifying_spreads_a_blot_and_shrinking_repeats_the_edge() -> None:
    blot = draw_blot(1)
    area = float((blot > 100).sum())
    large, small = (vary(blot, scale=(zoom, zoom)) for zoom in (1.5, 0.5))
    assert float((large > 100).sum()) / area == pytest.approx(1.5**2, rel=0.15)
    assert float((small > 100).sum()) / area == pytest.approx(0.5**2, rel=0.3)
    ramp = torch.arange(0, 160, 10, dtype=torch.uint8).expand(1, 3, 16, 16)
    row = vary(ramp, scale=(0.5, 0.5))[0, 0, 8]
    assert row[:4].tolist() == [0] * 4
    assert row[-4:].tolist() == [150] * 4


def test_every_magnification_in_between_occurs() -> None:
    blots = draw_blot(200)
    areas = (vary(blots, scale=(0.5, 2)) > 100).sum((1, 2, 3)) / (blots[0] > 100).sum()
    assert areas.min() < 0.5
    assert areas.max() > 3
    assert 0.35 < (areas < 1).float().mean() < 0.65


def test_contrast_spreads_about_the_mean() -> None:
    pictures = (draw_pictures(50) // 4 + 96).to(torch.uint8)  # nothing is cut off
    varied = vary(pictures, contrast=0.5)
    ratio = varied.std((1, 2, 3)) / pictures.float().std((1, 2, 3))
    assert 0.5 <= ratio.min() < 0.7
    assert 1.3 < ratio.max() <= 1.5
    assert torch.allclose(varied.mean((1, 2, 3)), pictures.float().mean((1, 2, 3)), atol=0.01)


def test_noise_has_the_wanted_strength_and_is_its_own_in_each_picture() -> None:
    noise = vary(torch.full((4, 3, 64, 64), 128, dtype=torch.uint8), noise=10) - 128
    assert noise.std((1, 2, 3)).tolist() == pytest.approx([10] * 4, rel=0.05)
    assert abs(torch.corrcoef(noise.flatten(1))[0, 1]) < 0.05


def test_cutout_paints_squares_with_the_mean() -> None:
    white = torch.full((30, 3, 32, 32), 255, dtype=torch.uint8)
    varied = vary(white, cutout=1, cutout_side=0.25)
    painted = varied[:, 0] == GREY[0]
    assert torch.equal(painted, varied[:, 2] == GREY[2])
    assert torch.equal(~painted, varied[:, 1] == 255)
    assert painted.sum((1, 2)).max() == 64
    assert painted.sum((1, 2)).min() >= 16
    assert len({tuple(one.flatten().tolist()) for one in painted}) > 20
    more = (vary(white, cutout=8, cutout_side=0.25)[:, 0] == GREY[0]).sum((1, 2))
    assert more.max() > 200


def test_rand_augment_treats_each_picture_in_its_own_way() -> None:
    same = draw_blot(1).expand(12, -1, -1, -1)
    varied = vary(same, rand_augment=2, rand_augment_magnitude=15)
    assert len({tuple(one.flatten().tolist()) for one in varied}) > 6


@pytest.mark.parametrize("kind", ["mixup", "cutmix"])
def test_mixed_pictures_have_targets_mixed_by_the_same_share(kind: str) -> None:
    """Each picture is of one grey of its own, so it says what it is mixed from."""
    greys = torch.tensor([0.0, 100.0, 200.0])
    pictures = greys.view(3, 1, 1, 1).expand(3, 3, 32, 32)
    config = AugmentConfig(**{**OFF, kind: 1.0})
    mixed, targets = mix(pictures, torch.eye(3), config, Draw(2, 3, ALONE))
    assert torch.allclose(targets.sum(1), torch.ones(3))
    assert (targets > 0).sum(1).tolist() == [2, 2, 2]
    assert torch.allclose(mixed.mean((1, 2, 3)), targets @ greys, atol=0.01)
    assert len(mixed[1].unique()) == (1 if kind == "mixup" else 2)
    assert mixed.is_contiguous(memory_format=torch.channels_last)


def test_of_two_ways_to_mix_each_batch_gets_one() -> None:
    pictures = torch.tensor([0.0, 100.0]).view(2, 1, 1, 1).expand(2, 3, 32, 32)
    config = AugmentConfig(**OFF, mixup=1.0, cutmix=1.0)
    values = {
        len(mix(pictures, torch.eye(2), config, Draw(seed, 2, ALONE))[0][0].unique())
        for seed in range(12)
    }
    assert values == {1, 2}


def test_mixing_leaves_torchs_own_generator_alone() -> None:
    torch.manual_seed(4)
    expected = torch.rand(2)
    torch.manual_seed(4)
    config = AugmentConfig(**OFF, mixup=0.2)
    pair = [mix(torch.rand(2, 3, 8, 8), torch.eye(2), config, Draw(1, 2, ALONE)) for _ in "ab"]
    torch.manual_seed(4)
    with seeded(9):
        torch.rand(5)
    assert torch.equal(torch.rand(2), expected)
    assert torch.equal(pair[0][1], pair[1][1])


def test_training_takes_mixed_pictures(tmp_path: Path) -> None:
    pack = seal_pack(tmp_path)
    wild = {"mixup": 0.4, "cutmix": 1.0, "rand_augment": 1, "cutout": 1, "angles": (0, 90)}
    assert train_tiny(tmp_path, pack, augment=wild).val_accuracy > 0.5


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"scale": (1.2, 0.8)}, "a smallest and a largest"),
        ({"scale": (0.1, 1)}, "greater than or equal to 0.25"),
        ({"angles": (400,)}, "less than or equal to 360"),
        ({"cutout": -1}, "greater than or equal to 0"),
        ({"rand_augment_magnitude": 31}, "less than or equal to 30"),
        ({"mixup": -0.1}, "greater than or equal to 0"),
    ],
)
def test_bad_numbers_are_refused(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        AugmentConfig.model_validate(fields)
