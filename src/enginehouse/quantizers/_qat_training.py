"""How a rounding network is trained on: by the loop of `train`, for a short time, with a teacher.

The teacher is the network as it was trained. Its answers stand beside the labels as further
columns of the targets, which is possible as pictures are not varied here. Knows nothing of how
rounding came into the network.
"""

from __future__ import annotations

import contextlib
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from enginehouse.artifact import canonical
from enginehouse.choices import load_choice
from enginehouse.errors import NonFiniteLoss
from enginehouse.quantizer import Material
from enginehouse.quantizers._qat_loss import make_plain_loss, make_taught_loss
from enginehouse.quantizers._qat_options import Options
from enginehouse.train.augment import AugmentConfig
from enginehouse.train.balance import find_balance
from enginehouse.train.batches import Feed
from enginehouse.train.checkpoint import Checkpoints, Saver, take_up
from enginehouse.train.config import TrainConfig
from enginehouse.train.finetune import FinetuneConfig, Policy, list_norms
from enginehouse.train.loop import Job, fit, score_validation
from enginehouse.train.machine import SpeedConfig, choose_device, reproducible
from enginehouse.train.randomness import borrow_random
from enginehouse.train.scores import score_network
from enginehouse.train.splits import read_split
from enginehouse.train.state import Progress, State, copy_weights, make_warn
from enginehouse.train.world import World

if TYPE_CHECKING:
    import torch

PLAIN = AugmentConfig(flip_horizontal=False, shift=0, brightness=0)
# Highest rate of the logarithms of ranges, whatever that of the weights (TQT, section 5.2).
RANGE_RATE = 0.01
SECONDS = 60.0  # between checkpoints


@dataclass(frozen=True)
class Lesson:
    """What came of training: how far it was, and the state of the best epoch."""

    progress: Progress
    best: dict[str, torch.Tensor]


def train_on(
    net: torch.nn.Module, teacher: torch.nn.Module, material: Material, options: Options
) -> Lesson:
    """Train a network on; best is the epoch that does best on validation, as in `train`.

    The network as it comes is epoch 0: where no epoch does better, it is kept.

    Args:
        net: learns; from float32 [n, 3, size, size] to logits; left wherever training ended.
        teacher: likewise; does not change.
        material: splits, seed and workspace.
        options: how.

    Raises:
        NonFiniteLoss: the loss became NaN or infinite.
        Interrupted: it was asked to stop; a rerun goes on.
    """
    model, pack, here = material.model, material.pack, material.here
    config = configure(options, material)
    world = World(0, 1, choose_device())
    feed = Feed(model.mean, model.std, config.seed, world)
    with (
        contextlib.closing(feed),
        reproducible(config.seed, world.device, config.speed),
        borrow_random(config.seed),
    ):
        job = _make_job(material, config, options, feed)
        job = replace(job, train=_ask(teacher, job))
        state = _begin(net, config, world)
        warn = make_warn(state, here.report)
        origin = {"model": model.identity, "pack": pack.identity, "options": canonical(options)}
        checkpoints = Checkpoints(here.resumable, origin)
        if take_up(state, checkpoints, warn):
            here.report(f"goes on after {state.progress.steps} steps")
        else:  # as it was calibrated: epoch 0, to be beaten by those that follow
            state.progress.best_scores = asdict(score_validation(job, state, warn))
            state.best = copy_weights(net)
        policy = LatePolicy(net, options)
        try:
            fit(job, state, policy, Saver(state, checkpoints, SECONDS, warn), here)
        except NonFiniteLoss as error:
            remedy = f"Set a lower option learning_rate of int8_qat (now {config.learning_rate:g})."
            raise NonFiniteLoss(error.message, remedy) from error
    assert state.best is not None
    return Lesson(state.progress, state.best)


def configure(options: Options, material: Material) -> TrainConfig:
    """The same as a recipe would say it of training: pictures as served, products in float32."""
    return TrainConfig(
        model=material.model.model,
        epochs=options.epochs,
        batch_size=options.batch_size,
        learning_rate=options.learning_rate,
        weight_decay=0,
        warmup_epochs=0.25,
        patience=1000,
        log_every=1,
        augment=PLAIN,
        precision="fp32",
        speed=SpeedConfig(tf32=False),
        seed=material.seed,
    )


class LatePolicy(Policy):
    """All of the network learns at first; later on, statistics and ranges stand still.

    Args:
        net: with BatchNorms, and ranges that learn.
        options: when.
    """

    def __init__(self, net: torch.nn.Module, options: Options) -> None:
        super().__init__(net, FinetuneConfig())
        self.options = options

    def begin_epoch(self, epoch: int) -> None:
        """Put the network in training mode as it is wanted in this epoch (from 1)."""
        super().begin_epoch(epoch)
        done = (epoch - 1) / self.options.epochs
        if done >= self.options.freeze_batchnorm:
            for _, norm in list_norms(self.net):
                norm.eval()
        if done >= self.options.freeze_ranges:
            for log_scale in list_ranges(self.net):
                log_scale.requires_grad_(False)


def list_ranges(net: torch.nn.Module) -> list[torch.nn.Parameter]:
    """The ranges that learn, by their logarithms."""
    from enginehouse.quantizers._qat_rounding import LearntRange

    return [module.log_scale for module in net.modules() if isinstance(module, LearntRange)]


def _make_job(material: Material, config: TrainConfig, options: Options, feed: Feed) -> Job:
    import torch

    pack, here = material.pack, material.here
    problem: Any = load_choice("problems", pack.problem)
    split = read_split(pack, "train", here)
    balance = find_balance(split, pack.classes, config.balance, config.max_imbalance)
    return Job(
        config=config,
        problem=pack.problem,
        train=split,
        val=read_split(pack, "val", here),
        balance=balance,
        loss=make_taught_loss(problem, balance.weights, options, feed.device),
        plain_loss=make_plain_loss(problem),
        feed=feed,
        dtype=torch.float32,
        world=feed.world,
    )


def _ask(teacher: torch.nn.Module, job: Job) -> Any:
    """The training split with the teacher's logits beside the labels: targets [n, 2 classes]."""
    teacher.to(job.feed.device)
    batches = job.feed.in_order(job.train, job.config.batch_size)
    _, logits = score_network(teacher, batches, job.dtype, job.problem, job.plain_loss, job.world)
    return replace(job.train, targets=np.concatenate([job.train.targets, logits.numpy()], axis=1))


def _begin(net: torch.nn.Module, config: TrainConfig, world: World) -> State:
    import torch

    net.to(world.device)
    net.to(memory_format=torch.channels_last)
    ranges = list_ranges(net)
    known = set(map(id, ranges))
    weights = [each for each in net.parameters() if id(each) not in known]
    groups = [
        {"params": weights, "share": 1.0},
        {"params": ranges, "share": RANGE_RATE / config.learning_rate},
    ]
    return State(
        net=net,
        forward=net,
        optimizer=torch.optim.AdamW(groups, config.learning_rate, weight_decay=0, fused=True),
        scaler=torch.amp.GradScaler(world.device.type, enabled=False),
        ema=None,
        progress=Progress(micro_batch=config.batch_size),
    )
