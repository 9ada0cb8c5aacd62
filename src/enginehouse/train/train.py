"""Train: a pack becomes the best weights of a few epochs."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from enginehouse.artifact import Workspace
from enginehouse.prepare.record import Pack
from enginehouse.train.balance import weigh_classes
from enginehouse.train.batches import Feed
from enginehouse.train.checkpoint import Checkpoints, Saver
from enginehouse.train.config import TrainConfig
from enginehouse.train.ema import make_average
from enginehouse.train.loop import Job, fit
from enginehouse.train.loss import check_loss, make_plain_loss
from enginehouse.train.machine import (
    choose_device,
    choose_dtype,
    describe_device,
    reproducible,
)
from enginehouse.train.network import WEIGHTS, build_network, to_probabilities
from enginehouse.train.optimizer import make_optimizer
from enginehouse.train.preflight import check_network, draw_batch
from enginehouse.train.record import Pretrained, TrainedModel
from enginehouse.train.scores import score_network
from enginehouse.train.splits import read_split
from enginehouse.train.state import Progress, State
from enginehouse.train.temperature import find_temperature
from enginehouse.train.world import World

if TYPE_CHECKING:
    pass

LIBRARIES = ("numpy", "pandas", "pillow", "pyarrow", "safetensors", "scipy", "torch")
FIRST_BATCH = "first_batch.png"
VALIDATION = "validation.npy"


def train(
    pack: Pack, config: TrainConfig, here: Workspace, pretrained: Pretrained | None = None
) -> TrainedModel:
    """Train on the training split; keep the weights that do best on validation.

    Best is the highest macro F1, and of equals the lower loss; an epoch whose loss is not a
    number is never best. Runs on the GPU when there is one. On one CPU, the same number of
    threads gives the same bytes, also when training was killed in between and run again.

    Args:
        pack: pictures and labels; its mean and std normalise the input.
        config: network and training.
        here: workspace; its `resumable` holds the checkpoints.
        pretrained: weights to start from; None: random ones.

    Raises:
        TrainingError: a class has no pictures, the preflight failed, the loss became NaN, or the
            device lacks the precision.
        RecipeError: no such architecture, or a loss that does not fit the problem.
        DataError: a split is empty.
        Interrupted: it was asked to stop; a rerun goes on.
    """
    world = World(0, 1, choose_device())
    check_loss(config.loss, pack.problem)
    feed = Feed(pack.mean, pack.std, config.seed, world, config.workers)
    dtype = choose_dtype(config.precision, world.device)
    with contextlib.closing(feed), reproducible(config.seed, world.device, config.speed):
        job = Job(
            config=config,
            problem=pack.problem,
            train=(split := read_split(pack, "train", here)),
            val=read_split(pack, "val", here),
            class_weights=weigh_classes(split, pack.classes, config.max_imbalance),
            feed=feed,
            dtype=dtype,
            world=world,
        )
        state, preflight = _begin(job, pack, pretrained, here)
        checkpoints = Checkpoints(here.resumable)
        if saved := checkpoints.load(state.progress.warnings.append):
            state.restore(saved)
            state.progress.resumed.append(state.progress.steps)
            here.report(f"goes on after {state.progress.steps} steps")
        fit(job, state, Saver(state, checkpoints, 60 * config.checkpoint_minutes), here)
        return _seal(job, state, pack, preflight, here)


def _begin(
    job: Job, pack: Pack, pretrained: Pretrained | None, here: Workspace
) -> tuple[State, dict[str, float]]:
    """The untrained network, checked on the very batch that training begins with."""
    import torch

    config, device = job.config, job.world.device
    net = build_network(config.model, len(pack.classes))
    net.to(device)
    if config.speed.channels_last:
        net.to(memory_format=torch.channels_last)
    here.report("preflight")
    loss = make_plain_loss(config.loss, job.problem, device)
    still = config.augment
    batch = next(job.feed.shuffled(job.train, 1, 0, config.batch_size, still))
    draw_batch(batch, pack.classes, pack.mean, pack.std, here.scratch / FIRST_BATCH)
    preflight = check_network(net, batch, loss, job.problem)
    state = State(
        net=net,
        forward=net,
        optimizer=make_optimizer(net, config),
        scaler=torch.amp.GradScaler(device.type, enabled=job.dtype == torch.float16),
        ema=make_average(net, config.ema_decay),
        progress=Progress(micro_batch=config.micro_batch or config.batch_size),
    )
    return state, preflight


def _seal(
    job: Job, state: State, pack: Pack, preflight: dict[str, float], here: Workspace
) -> TrainedModel:
    """The record of the best weights, with what they say of the validation split."""
    import numpy as np
    from safetensors.torch import save_file

    config, progress = job.config, state.progress
    assert state.best is not None
    state.judged.load_state_dict(state.best)
    scores, logits = score_network(
        state.judged,
        job.feed.in_order(job.val, progress.micro_batch),
        job.dtype,
        job.problem,
        make_plain_loss(config.loss, job.problem, job.world.device),
        job.world,
    )
    model = TrainedModel(
        files={},
        notes=_take_notes(job, state, preflight),
        model=config.model,
        problem=pack.problem,
        classes=pack.classes,
        preparation=pack.preparation,
        mean=pack.mean,
        std=pack.std,
        temperature=find_temperature(job.problem, logits.numpy(), job.val.targets),
        val_accuracy=scores.accuracy,
        val_macro_f1=scores.macro_f1,
    )
    save_file(state.best, here.scratch / WEIGHTS)
    np.save(here.scratch / VALIDATION, to_probabilities(logits, model).numpy())
    files, reports = here.seal([WEIGHTS]), here.seal([FIRST_BATCH, VALIDATION])
    return model.model_copy(update={"files": files, "reports": reports})


def _take_notes(job: Job, state: State, preflight: dict[str, float]) -> dict[str, Any]:
    progress = state.progress
    return {
        "history": progress.history,
        "best_epoch": progress.best_epoch,
        "preflight": preflight,
        "class_weights": job.class_weights,
        "precision": str(job.dtype).removeprefix("torch."),
        "device": describe_device(job.world.device),
        "devices": job.world.size,
        "micro_batch": progress.micro_batch,
        "resumed": progress.resumed,
        "warnings": progress.warnings,
    }
