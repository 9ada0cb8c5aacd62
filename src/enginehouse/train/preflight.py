"""Before hours are spent: does this network learn from these tensors at all?

Three checks on the first training batch (after Karpathy, "A Recipe for Training Neural
Networks", 2019): the untrained loss is near what it should be, a few pictures can be overfitted,
and a person can look at the exact tensors that enter the network.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING

from enginehouse.choices import load_choice
from enginehouse.errors import TrainingError, first_line
from enginehouse.train.batches import Batch
from enginehouse.train.memory import free_memory, halve, is_out_of_memory

if TYPE_CHECKING:
    import torch

    from enginehouse.train.loss import LossFunction

NUM_UNTRAINED = 32  # pictures
NUM_OVERFIT = 8  # pictures; enough for BatchNorm, quick on a CPU
MAX_STEPS = 60
LEARNED = 0.7  # the loss must fall to this share of what it was
KNOWN = 0.2  # share of the untrained loss, below which a pretrained network knows its pictures


def check_network(
    net: torch.nn.Module, batch: Batch, loss: LossFunction, problem: str, is_pretrained: bool
) -> dict[str, float]:
    """Run the two checks on a copy of the network, in float32.

    Args:
        net: network before training; not changed.
        batch: the first of training.
        loss: plain, from logits and targets to the loss of each picture.
        problem: name of the problem.
        is_pretrained: whether it may know these pictures already.

    Returns:
        `untrained_loss`, `expected_loss` (the problem's usual one, such as ln C), `overfit_loss`
        after `overfit_steps`.

    Raises:
        TrainingError: the network cannot take the pictures, or a check failed; with the numbers.
    """
    trial = _without_regularisation(net)
    untrained = _find_untrained_loss(trial, batch, loss)
    num_classes = batch.targets.shape[1]
    expected = load_choice("problems", problem).find_untrained_loss(num_classes)
    # Wide: the heads of EfficientNet and MNASNet start up to 12 above it, losses of probabilities
    # lie far below it, and inputs on the wrong scale end hundreds above it.
    lowest = 0 if is_pretrained else 0.001 * expected
    if not lowest <= untrained <= expected + 20:
        raise TrainingError(
            f"Preflight: the untrained network's loss is {untrained:.3g}; for {num_classes} "
            f"classes it should be near {expected:.3g}.",
            "Choose another architecture, or look whether the pictures are what they should be.",
        )
    if is_pretrained and untrained < KNOWN * expected:
        found, steps = untrained, 0
    else:
        found, steps = _overfit_what_fits(trial, batch, loss)
    return {
        "untrained_loss": untrained,
        "expected_loss": expected,
        "overfit_loss": found,
        "overfit_steps": steps,
    }


def _without_regularisation(net: torch.nn.Module) -> torch.nn.Module:
    """A copy that norms by the batch (as in training) but drops nothing (as in evaluation).

    Untrained running statistics would blow deep networks up; dropout would hide what is learned.
    """
    import torch

    trial = copy.deepcopy(net).eval()
    for module in trial.modules():
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
            module.train()
    return trial


def _find_untrained_loss(net: torch.nn.Module, batch: Batch, loss: LossFunction) -> float:
    import torch

    few = min(len(batch.inputs), NUM_UNTRAINED)
    while True:
        try:
            with torch.no_grad():
                return loss(net(batch.inputs[:few]), batch.targets[:few]).mean().item()
        except (RuntimeError, ValueError, AssertionError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise TrainingError(
                    f"Preflight: the network cannot take pictures of {batch.inputs.shape[-1]} "
                    f"px: {first_line(error)}",
                    "Change prepare.size, or choose another architecture.",
                ) from error
            few, _ = halve(few, few, error)
        free_memory()


def _overfit_what_fits(net: torch.nn.Module, batch: Batch, loss: LossFunction) -> tuple[float, int]:
    """Overfit few pictures, fewer where memory runs out."""
    few = min(len(batch.inputs), NUM_OVERFIT)
    while True:
        try:
            return _overfit(net, batch.inputs[:few], batch.targets[:few], loss)
        except (RuntimeError, MemoryError) as error:
            few, _ = halve(few, few, error)
        free_memory()


def _overfit(
    net: torch.nn.Module, inputs: torch.Tensor, targets: torch.Tensor, loss: LossFunction
) -> tuple[float, int]:
    import torch

    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True)
    start = best = math.inf
    for step in range(MAX_STEPS):
        value = loss(net(inputs), targets).mean()
        start = value.item() if step == 0 else start
        best = min(best, value.item())
        if value.item() <= LEARNED * start:
            return value.item(), step
        optimizer.zero_grad()
        value.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
    raise TrainingError(
        f"Preflight: {len(targets)} pictures could not be learned by heart: the loss went from "
        f"{start:.3g} to {best:.3g} in {MAX_STEPS} steps, wanted {LEARNED * start:.3g}.",
        "Look whether the labels fit the pictures (repeats under two labels?), or choose another "
        "architecture or train.seed.",
    )


def draw_batch(
    batch: Batch,
    classes: Sequence[str],
    mean: Sequence[float],
    std: Sequence[float],
    path: Path,
) -> None:
    """Save the first 16 tensors of a batch as a picture, each under its label.

    Args:
        batch: normalised by `mean` and `std` (undone here).
        classes: names by index.
        mean, std: per channel, 0..1 scale.
        path: PNG to write.
    """
    import torch
    from PIL import Image, ImageDraw

    shape = (1, 3, 1, 1)
    visible = batch.inputs[:16].cpu() * torch.tensor(std).view(shape) + torch.tensor(mean).view(
        shape
    )
    pixels = (visible * 255).round().clamp(0, 255).byte().permute(0, 2, 3, 1).numpy()
    tile = max(96, pixels.shape[1])
    num_rows = -(-len(pixels) // 4)
    sheet = Image.new("RGB", (4 * tile, num_rows * (tile + 16)), "white")
    labels = ["+".join(compress(classes, row)) for row in batch.targets.cpu().numpy() > 0]
    for place, (picture, label) in enumerate(zip(pixels, labels, strict=False)):
        x, y = place % 4 * tile, place // 4 * (tile + 16)
        sheet.paste(Image.fromarray(picture).resize((tile, tile), Image.Resampling.NEAREST), (x, y))
        ImageDraw.Draw(sheet).text((x + 2, y + tile + 1), label[: tile // 6], "black")
    sheet.save(path)
