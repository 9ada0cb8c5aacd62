"""The training loop. It reads top to bottom; each concern is a small file beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from enginehouse.artifact import Workspace
from enginehouse.errors import Interrupted, NonFiniteLoss, TrainingError
from enginehouse.train.augment import AugmentConfig
from enginehouse.train.balance import Balance
from enginehouse.train.batches import Batch, Feed, count_batches
from enginehouse.train.checkpoint import Saver
from enginehouse.train.config import TrainConfig
from enginehouse.train.finetune import Policy
from enginehouse.train.memory import free_memory, halve
from enginehouse.train.meter import Meter, read_memory
from enginehouse.train.optimizer import find_rate, set_rate
from enginehouse.train.profile import open_profile
from enginehouse.train.scores import Scores, score_network
from enginehouse.train.splits import Split
from enginehouse.train.state import Progress, State, copy_weights, make_warn
from enginehouse.train.step import Stepper
from enginehouse.train.world import World

if TYPE_CHECKING:
    import torch

    from enginehouse.train.loss import LossFunction

STEPS = "steps"  # message of the reports about a few steps; those of an epoch begin with `epoch`


@dataclass(frozen=True)
class Job:
    """What training takes.

    Attributes:
        problem: name of the problem.
        train, val: the splits.
        balance: what is done about classes of uneven size.
        loss: what training makes small. plain_loss: what validation is scored by; both from
            logits and targets to the loss of each picture.
        dtype: of the matrix products.
    """

    config: TrainConfig
    problem: str
    train: Split
    val: Split
    balance: Balance
    loss: LossFunction
    plain_loss: LossFunction
    feed: Feed
    dtype: torch.dtype
    world: World

    def read_batches(self, epoch: int, start: int, varied: AugmentConfig) -> Iterator[Batch]:
        """The training batches of an epoch, from number `start` on."""
        order = self.balance.draw_order(self.train, self.config.seed, epoch)
        return self.feed.shuffled(self.train, epoch, start, self.config.batch_size, varied, order)


def fit(job: Job, state: State, policy: Policy, saver: Saver, here: Workspace) -> None:
    """Train to the end, from wherever the state is; its `best` then holds the weights to keep.

    Args:
        policy: says before each epoch what of the network learns in it.

    Raises:
        NonFiniteLoss: the loss became NaN or infinite; a checkpoint from before it is kept.
        TrainingError: no epoch had a finite loss on validation.
        Interrupted: it was asked to stop; a checkpoint is kept.
    """
    config, feed, progress = job.config, job.feed, state.progress
    warn = make_warn(state, here.report)
    profile = open_profile(here.profile, state, feed, job.world.leads)
    loss = profile.watch_loss(job.loss)
    stepper = Stepper(state, loss, job.dtype, config.clip_norm, job.world, warn)
    meter = Meter(progress, feed, config.clip_norm)
    per_epoch = count_batches(len(job.train), config.batch_size, job.world.size)

    while not is_over(progress, config):
        policy.begin_epoch(progress.epoch)
        model = job.world.wrap(state.forward)
        meter.skip_time()
        batches = job.read_batches(progress.epoch, progress.batch, config.augment)
        for batch in profile.watch(batches, model):
            job.world.reseed(config.seed, progress.steps)
            set_rate(state.optimizer, find_rate(config, (progress.updates + 0.5) / per_epoch))
            try:
                step = stepper.take(model, batch)
            except NonFiniteLoss:
                saver.save()  # the weights are still those of before
                raise
            meter.add(step, batch.num_global)
            progress.advance(step.updated)
            if progress.steps % config.log_every == 0:
                rate = find_rate(config, progress.updates / per_epoch)
                numbers = {**meter.read_window(), "learning_rate": rate}
                here.report(STEPS, progress.steps, per_epoch * config.epochs, **numbers)
            if job.world.agree_to_stop(here.stopping(), progress.steps):
                raise Interrupted.at(progress.epoch, progress.steps, kept=saver.save())
            saver.save_if_due()

        scores = score_validation(job, state, warn)
        if scores.beats(progress.best):
            progress.best_epoch, progress.best_scores = progress.epoch, asdict(scores)
            state.best = copy_weights(state.judged)
        row = {**meter.read_epoch(), **scores.to_row(), **read_memory(feed.device)}
        row["learning_rate"] = find_rate(config, progress.updates / per_epoch)
        here.report(f"epoch {progress.epoch}/{config.epochs}", progress.epoch, config.epochs, **row)
        progress.end_epoch(row)

    profile.close()
    if state.best is None:
        raise TrainingError(
            f"No epoch of {len(progress.history)} had a finite loss on the validation split.",
            "Set train.precision to fp32, or a lower train.learning_rate.",
        )


def score_validation(job: Job, state: State, warn: Callable[[str], None]) -> Scores:
    """How well the state does on validation, in parts as large as memory takes."""
    progress, loss = state.progress, job.plain_loss
    job.world.align(state.judged)  # not in a second try, which the other processes know nothing of
    while True:
        most = progress.score_batch or progress.micro_batch
        batches = job.feed.in_order(job.val, most)
        try:
            return score_network(state.judged, batches, job.dtype, job.problem, loss, job.world)[0]
        except (RuntimeError, MemoryError) as error:
            progress.score_batch, told = halve(most, len(job.val), error)
        warn(f"{told}, in scoring")
        free_memory()


def is_over(progress: Progress, config: TrainConfig) -> bool:
    """Whether all epochs are over, or too many since the best one (and since a thaw)."""
    done = progress.epoch - 1
    since = max(progress.best_epoch, config.finetune.unfreeze_epoch - 1)
    return done >= config.epochs or done - since >= config.patience
