"""Train: a pack becomes the best weights of a few epochs."""

from __future__ import annotations

import contextlib
import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field, model_validator

from enginehouse.artifact import Config, Workspace
from enginehouse.errors import TrainingError
from enginehouse.prepare.record import Pack
from enginehouse.train.augment import AugmentConfig
from enginehouse.train.balance import weigh_classes
from enginehouse.train.batches import Feed, count_batches
from enginehouse.train.machine import (
    PrecisionWish,
    choose_device,
    choose_dtype,
    describe_device,
    reproducible,
)
from enginehouse.train.network import WEIGHTS, build_network
from enginehouse.train.optimizer import find_rate, make_optimizer, set_rate
from enginehouse.train.preflight import check_network, draw_batch
from enginehouse.train.record import ModelConfig, TrainedModel
from enginehouse.train.scores import Scores, score_network
from enginehouse.train.splits import Split, read_split

if TYPE_CHECKING:
    import torch

LIBRARIES = ("numpy", "pandas", "pillow", "pyarrow", "safetensors", "torch")
FIRST_BATCH = "first_batch.png"


class TrainConfig(Config):
    """Which network, and how it is trained."""

    aside: ClassVar[frozenset[str]] = frozenset({"workers"})

    model: ModelConfig = Field(ModelConfig(), description="Which network.")
    epochs: int = Field(15, ge=1, le=1000, description="Most passes over the training split.")
    batch_size: int = Field(32, ge=2, le=4096, description="Pictures per step.")
    learning_rate: float = Field(1e-3, gt=0, le=1, description="Highest learning rate (AdamW).")
    weight_decay: float = Field(0.01, ge=0, le=1, description="AdamW's weight decay.")
    warmup_epochs: float = Field(
        0.5, ge=0, le=100, description="Epochs in which the rate rises; then it falls as a cosine."
    )
    clip_norm: float = Field(1.0, gt=0, le=1000, description="Gradients are cut to this norm.")
    patience: int = Field(
        10,
        ge=1,
        le=1000,
        description="Stop after so many epochs without a better validation score.",
    )
    max_imbalance: float = Field(
        1.5,
        ge=1,
        le=1000,
        description="Largest ratio of class sizes before the loss weighs rare classes higher.",
    )
    augment: AugmentConfig = Field(AugmentConfig(), description="How training pictures are varied.")
    precision: PrecisionWish = Field(
        "auto", description="Number format of matrix products; auto: bf16 where the device has it."
    )
    workers: int = Field(
        0,
        ge=0,
        le=64,
        description="Processes that read pictures ahead; 0: the one that trains. The result is "
        "the same. Worth it where a GPU waits for data.",
    )
    seed: int = Field(0, ge=0, lt=2**31, description="Seed of weights, order and variations.")

    @model_validator(mode="after")
    def _check_warmup(self) -> TrainConfig:
        if self.warmup_epochs >= self.epochs:
            raise ValueError(
                f"warmup_epochs ({self.warmup_epochs}) must be smaller than epochs ({self.epochs})"
            )
        return self


@dataclass(frozen=True)
class _Best:
    """The best epoch so far, with its weights on the CPU."""

    epoch: int
    scores: Scores
    weights: dict[str, torch.Tensor]


def train(pack: Pack, config: TrainConfig, here: Workspace) -> TrainedModel:
    """Train on the training split; keep the weights that do best on validation.

    Best is the highest macro F1, and of equals the lower loss; an epoch whose loss is not a
    number is never best. Runs on the GPU when there is one. On one CPU, the same number of
    threads gives the same bytes.

    Args:
        pack: pictures and labels; its mean and std normalise the input.
        config: network and training.
        here: workspace; each epoch is reported with loss, accuracy and images per second.

    Raises:
        TrainingError: a class has no pictures, the preflight failed, the loss became NaN, or the
            device lacks the precision.
        RecipeError: no such architecture.
        DataError: a split is empty.
    """
    import torch
    from safetensors.torch import save_file

    splits = {name: read_split(pack, name, here) for name in ("train", "val")}
    class_weights = weigh_classes(splits["train"], pack.classes, config.max_imbalance)
    device = choose_device()
    dtype = choose_dtype(config.precision, device)
    feed = Feed(pack.mean, pack.std, device, config.workers)
    with contextlib.closing(feed), reproducible(config.seed, device):
        net = build_network(config.model, len(pack.classes))
        net.to(device).to(memory_format=torch.channels_last)
        preflight = _check_first_batch(net, feed, splits["train"], config, pack.classes, here)
        best, history = _fit(net, feed, splits, class_weights, dtype, config, here)
    save_file(best.weights, here.scratch / WEIGHTS)
    return TrainedModel(
        files=here.seal([WEIGHTS]),
        reports=here.seal([FIRST_BATCH]),
        notes={
            "history": history,
            "best_epoch": best.epoch,
            "preflight": preflight,
            "class_weights": class_weights,
            "precision": str(dtype).removeprefix("torch."),
            "device": describe_device(device),
        },
        model=config.model,
        classes=pack.classes,
        preparation=pack.preparation,
        mean=pack.mean,
        std=pack.std,
        val_accuracy=best.scores.accuracy,
        val_macro_f1=best.scores.macro_f1,
    )


def _check_first_batch(
    net: torch.nn.Module,
    feed: Feed,
    split: Split,
    config: TrainConfig,
    classes: tuple[str, ...],
    here: Workspace,
) -> Any:
    """The preflight, on the very batch that training begins with."""
    import torch

    here.report("preflight")
    generator = torch.Generator().manual_seed(config.seed)
    batches = feed.shuffled(split, config.batch_size, config.augment, generator)
    inputs, labels = next(batches)
    draw_batch(inputs, labels, classes, feed.mean, feed.std, here.scratch / FIRST_BATCH)
    return check_network(net, inputs, labels, len(classes))


def _fit(
    net: torch.nn.Module,
    feed: Feed,
    splits: dict[str, Split],
    class_weights: list[float] | None,
    dtype: torch.dtype,
    config: TrainConfig,
    here: Workspace,
) -> tuple[_Best, list[Any]]:
    """The loop. Returns the best epoch, and one row of numbers per epoch."""
    import torch

    device = feed.device
    weight = None if class_weights is None else torch.tensor(class_weights, device=device)
    optimizer = make_optimizer(net, config.learning_rate, config.weight_decay)
    scaler = torch.amp.GradScaler(device.type, enabled=dtype == torch.float16)
    generator = torch.Generator().manual_seed(config.seed)
    num_steps = count_batches(len(splits["train"]), config.batch_size)
    step = 0
    best: _Best | None = None
    history: list[Any] = []

    for epoch in range(1, config.epochs + 1):
        clock = time.perf_counter()
        net.train()
        loss_sum = torch.zeros((), device=device)
        for inputs, labels in feed.shuffled(
            splits["train"], config.batch_size, config.augment, generator
        ):
            share = find_rate((step + 0.5) / num_steps, config.warmup_epochs, config.epochs)
            set_rate(optimizer, config.learning_rate * share)
            with torch.autocast(device.type, dtype, enabled=dtype != torch.float32):
                logits = net(inputs)
            loss = torch.nn.functional.cross_entropy(logits.float(), labels, weight)
            optimizer.zero_grad()
            scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(net.parameters(), config.clip_norm)
            scaler.step(optimizer)
            scaler.update()
            loss_sum += loss.detach() * len(labels)
            step += 1
        train_loss = _check_loss(loss_sum.item() / len(splits["train"]), epoch)
        speed = len(splits["train"]) / (time.perf_counter() - clock)

        batches = feed.in_order(splits["val"], 2 * config.batch_size)
        scores = score_network(net, batches, dtype)
        if scores.beats(best.scores if best else None):
            best = _Best(epoch, scores, _copy_weights(net))
        row = {"loss": train_loss, **scores.to_row(), "images_per_s": speed}
        history.append({"epoch": epoch, **row})
        here.report(f"epoch {epoch}/{config.epochs}", epoch, config.epochs, **row)
        if epoch - (best.epoch if best else 0) >= config.patience:
            break

    if best is None:
        raise TrainingError(
            f"No epoch of {len(history)} had a finite loss on the validation split.",
            "Set train.precision to fp32, or a lower train.learning_rate.",
        )
    return best, history


def _check_loss(loss: float, epoch: int) -> float:
    if not math.isfinite(loss):
        raise TrainingError(
            f"The training loss became {loss} in epoch {epoch}.",
            "Set a lower train.learning_rate or train.clip_norm, or train.precision: fp32.",
        )
    return loss


def _copy_weights(net: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The state on the CPU, each tensor whole and its own, as safetensors wants them."""
    import torch

    return {
        name: value.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
        for name, value in net.state_dict().items()
    }
