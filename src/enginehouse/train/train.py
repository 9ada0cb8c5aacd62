"""Train: a pack becomes the best weights of a few epochs."""

from __future__ import annotations

import contextlib
from dataclasses import asdict, replace
from typing import Any, cast

from enginehouse.artifact import Workspace, canonical
from enginehouse.errors import TrainingError
from enginehouse.prepare.record import Pack
from enginehouse.train.balance import find_balance
from enginehouse.train.batches import Feed
from enginehouse.train.checkpoint import Checkpoints, Saver, take_up
from enginehouse.train.config import TrainConfig
from enginehouse.train.diagnosis import Course, diagnose
from enginehouse.train.ema import make_average
from enginehouse.train.finetune import Policy
from enginehouse.train.launch import fit_together
from enginehouse.train.loop import Job, fit
from enginehouse.train.loss import check_loss, make_loss, make_plain_loss
from enginehouse.train.machine import (
    choose_device,
    choose_dtype,
    describe_device,
    reproducible,
)
from enginehouse.train.network import WEIGHTS, build_network, to_probabilities
from enginehouse.train.optimizer import make_optimizer
from enginehouse.train.order import Restart
from enginehouse.train.preflight import check_network, draw_batch
from enginehouse.train.pretrained import begin_network, take_normalisation
from enginehouse.train.randomness import borrow_random
from enginehouse.train.recompute import checkpoint_blocks
from enginehouse.train.record import Pretrained, TrainedModel
from enginehouse.train.scores import score_network
from enginehouse.train.splits import read_split
from enginehouse.train.state import Progress, State, make_warn
from enginehouse.train.temperature import find_temperature
from enginehouse.train.world import World

LIBRARIES = (
    "numpy",
    "pandas",
    "pillow",
    "pyarrow",
    "safetensors",
    "scipy",
    "torch",
    "torchvision",
)
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
    check_loss(config.loss, pack.problem)
    pack = take_normalisation(pack, pretrained)
    if config.devices > 1:
        model = fit_together(pack, config, here, pretrained)
    else:
        model = fit_pack(pack, config, here, pretrained, World(0, 1, choose_device()))
    files, reports = here.seal([WEIGHTS]), here.seal([FIRST_BATCH, VALIDATION])
    return model.model_copy(update={"files": files, "reports": reports})


def fit_pack(
    pack: Pack,
    config: TrainConfig,
    here: Workspace,
    pretrained: Pretrained | None,
    world: World,
    restart: Restart | None = None,
) -> TrainedModel:
    """What one process does to train. What it leaves behind is in its scratch folder, not sealed.

    Args:
        world: the processes that train together.
        restart: how to go on after all of them ended for want of memory; None: they did not.

    Raises:
        EnginehouseError: as in `train`.
    """
    feed = Feed(pack.mean, pack.std, config.seed, world, config.workers)
    dtype = choose_dtype(config.precision, world.device)
    with (
        contextlib.closing(feed),
        reproducible(config.seed, world.device, config.speed),
        borrow_random(config.seed),
    ):
        split = read_split(pack, "train", here)
        balance = find_balance(split, pack.classes, config.balance, config.max_imbalance)
        job = Job(
            config=config,
            problem=pack.problem,
            train=split,
            val=read_split(pack, "val", here),
            balance=balance,
            loss=make_loss(config.loss, pack.problem, balance.weights, world.device),
            plain_loss=make_plain_loss(config.loss, pack.problem, world.device),
            feed=feed,
            dtype=dtype,
            world=world,
        )
        state, preflight = _begin(job, pack, pretrained, here)
        for text in state.progress.warnings:  # of building the network
            here.report(text)
        warn = make_warn(state, here.report)
        checkpoints = Checkpoints(here.resumable, _tell_origin(pack, config, pretrained))
        if take_up(state, checkpoints, warn):
            here.report(f"goes on after {state.progress.steps} steps")
        if len(found := set(world.share(state.progress.steps))) > 1:
            raise TrainingError(
                f"The processes found checkpoints of different steps: {sorted(found)}.",
                "Let the store lie in a folder that all nodes share, and run again.",
            )
        if restart is not None:
            restart.apply(state.progress, warn)
        seconds = 60 * config.checkpoint_minutes
        policy = Policy(state.net, config.finetune)
        fit(job, state, policy, Saver(state, checkpoints, seconds, warn, world.leads), here)
        return _write_model(job, state, pack, preflight, here)


def _tell_origin(pack: Pack, config: TrainConfig, pretrained: Pretrained | None) -> dict[str, Any]:
    """What is trained from what, as every checkpoint of it says."""
    start = None if pretrained is None else pretrained.identity
    return {"pack": pack.identity, "pretrained": start, "config": canonical(config)}


def _begin(
    job: Job, pack: Pack, pretrained: Pretrained | None, here: Workspace
) -> tuple[State, dict[str, float]]:
    """The untrained network, checked on the very batch that training begins with."""
    import torch

    config, device = job.config, job.world.device
    progress = Progress(micro_batch=config.micro_batch or config.batch_size)
    if pretrained is None:
        net = build_network(config.model, len(pack.classes))
    else:
        net = begin_network(config.model, pack, pretrained, here, progress.warnings.append)
    net.to(device)
    if config.speed.channels_last:
        net.to(memory_format=torch.channels_last)
    here.report("preflight", 0, 1)
    # Every process looks at the whole batch, so that all come to the same verdict.
    alone = Feed(pack.mean, pack.std, config.seed, World(0, 1, device))
    whole = replace(job, feed=alone)
    first = next(whole.read_batches(1, 0, config.augment))
    draw_batch(first, pack.classes, pack.mean, pack.std, here.scratch / FIRST_BATCH)
    batch = first
    if config.augment.mixes:  # mixed targets: their loss does not fall to 0, however well known
        unmixed = config.augment.model_copy(update={"mixup": 0.0, "cutmix": 0.0})
        batch = next(whole.read_batches(1, 0, unmixed))
    preflight = check_network(
        net, batch, job.plain_loss, job.problem, is_pretrained=pretrained is not None
    )
    net = job.world.prepare(net, progress.warnings.append)
    average = make_average(net, config.ema_decay)  # a copy: taken before blocks recompute
    if config.speed.gradient_checkpointing:
        checkpoint_blocks(net)
    if config.speed.compile:
        # What this process compiled before would count against torch's limit, beyond which it
        # compiles nothing more, and rounds otherwise.
        torch.compiler.reset()
    forward = torch.compile(net, dynamic=False) if config.speed.compile else net
    state = State(
        net=net,
        forward=cast("torch.nn.Module", forward),
        optimizer=make_optimizer(net, config),
        scaler=torch.amp.GradScaler(device.type, enabled=job.dtype == torch.float16),
        ema=average,
        progress=progress,
    )
    return state, preflight


def _write_model(
    job: Job, state: State, pack: Pack, preflight: dict[str, float], here: Workspace
) -> TrainedModel:
    """The best weights, and what they say of the validation split; the record has no files yet."""
    import numpy as np
    from safetensors.torch import save_file

    config, progress = job.config, state.progress
    assert state.best is not None
    state.judged.load_state_dict(state.best)
    scores, logits = score_network(
        state.judged,
        job.feed.in_order(job.val, progress.score_batch or progress.micro_batch),
        job.dtype,
        job.problem,
        job.plain_loss,
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
    return model


def _take_notes(job: Job, state: State, preflight: dict[str, float]) -> dict[str, Any]:
    progress = state.progress
    course = Course(
        rows=progress.history,
        best_epoch=progress.best_epoch,
        untrained_loss=min(preflight["untrained_loss"], preflight["expected_loss"]),
        num_val=len(job.val),
        config=job.config,
    )
    return {
        "history": progress.history,
        "best_epoch": progress.best_epoch,
        "preflight": preflight,
        "balance": job.balance.way,
        "class_weights": job.balance.weights,
        "precision": str(job.dtype).removeprefix("torch."),
        "device": describe_device(job.world.device),
        "devices": job.world.size,
        "micro_batch": min(progress.micro_batch, -(-job.config.batch_size // job.world.size)),
        "diagnosis": [asdict(finding) for finding in diagnose(course)],
        "resumed": progress.resumed,
        "warnings": progress.warnings,
    }
