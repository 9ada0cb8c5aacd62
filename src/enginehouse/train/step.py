"""One step: a batch becomes one update of the weights, in as many parts as memory takes.

Gradients of the parts add up to those of the whole batch, so the result is the same but for
rounding and for BatchNorm, which norms by the part that it sees.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from enginehouse.errors import NonFiniteLoss
from enginehouse.train.memory import Moment, TooManyAtOnce, free_memory, halve, has_batchnorm
from enginehouse.train.nonfinite import explain_nonfinite, explain_skips
from enginehouse.train.state import State
from enginehouse.train.world import World

if TYPE_CHECKING:
    import torch

    from enginehouse.train.batches import Batch
    from enginehouse.train.loss import LossFunction

UNEQUAL = (
    "but BatchNorm norms by these fewer pictures, so the weights are not those that a larger "
    "memory would give; with train.model.norm: group they would be"
)
MAX_SKIPS = 100  # steps in a row without an update; the scaler finds its scale in under 20


@dataclass(frozen=True)
class Step:
    """What came of one step.

    Attributes:
        loss: mean over the batch, of all processes together.
        grad_norm: of all gradients together, before they were cut.
        updated: False where the fp16 scaler skipped the step.
    """

    loss: float
    grad_norm: float
    updated: bool


class Stepper:
    """Takes steps.

    Args:
        state: what the steps change.
        loss: from logits and targets to the loss of each picture.
        dtype: of the matrix products.
        clip_norm: gradients are cut to this norm.
        world: the processes that share each batch.
        warn: is told where memory ran out.
    """

    def __init__(
        self,
        state: State,
        loss: LossFunction,
        dtype: torch.dtype,
        clip_norm: float,
        world: World,
        warn: Callable[[str], None],
    ) -> None:
        self.state = state
        self.loss = loss
        self.dtype = dtype
        self.clip_norm = clip_norm
        self.world = world
        self.warn = warn
        self.before = Moment(state.net)
        self.parameters = list(state.net.parameters())

    def take(self, model: torch.nn.Module, batch: Batch) -> Step:
        """One update from one batch.

        Args:
            model: the network, as the world wraps it.
            batch: this process's part of the batch.

        Raises:
            NonFiniteLoss: loss or gradients are no numbers; nothing was updated then.
            TrainingError: one picture is too much for the memory.
        """
        import torch

        state, optimizer, scaler = self.state, self.state.optimizer, self.state.scaler
        self.before.mark()
        own = self._fill_gradients(model, batch)
        loss = self.world.mean(own)
        scaler.unscale_(optimizer)
        learns = [each for each in self.parameters if each.grad is not None]
        norm = torch.nn.utils.clip_grad_norm_(learns, self.clip_norm)
        both = torch.stack([loss, norm.float()]).tolist()  # the one time that the GPU is waited for
        if not math.isfinite(both[0]) or not (math.isfinite(both[1]) or scaler.is_enabled()):
            raise self._explain(batch, own, *both)
        scale = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        updated = scaler.get_scale() >= scale
        state.progress.skips = 0 if updated else state.progress.skips + 1
        if state.progress.skips >= MAX_SKIPS:
            raise explain_skips(state)
        if updated and state.ema is not None:
            state.ema.update_parameters(state.net)
        return Step(both[0], both[1], updated)

    def _fill_gradients(self, model: torch.nn.Module, batch: Batch) -> torch.Tensor:
        """Forward and backward, with smaller parts from where memory runs out."""
        progress = self.state.progress
        while True:
            self.state.optimizer.zero_grad()
            try:
                return self._accumulate(model, batch)
            except (RuntimeError, MemoryError) as error:
                less, told = halve(progress.micro_batch, len(batch.inputs), error)
                told = f"{told}, and as many in each update as before (step {progress.steps + 1})"
                if has_batchnorm(self.state.net):
                    told += f"; {UNEQUAL}"
                if self.world.size > 1:  # the others wait for these gradients: all begin again
                    raise TooManyAtOnce(less, told) from error
            progress.micro_batch = less
            self.warn(told)
            free_memory()
            self.before.put_back()

    def _accumulate(self, model: torch.nn.Module, batch: Batch) -> torch.Tensor:
        """The gradients of the whole batch, part by part; returns its mean loss."""
        import torch

        inputs, targets = batch.inputs, batch.targets
        parts = self._count_parts(batch)
        total = torch.zeros((), device=inputs.device)
        pairs = zip(inputs.tensor_split(parts), targets.tensor_split(parts), strict=True)
        for number, (pictures, wanted) in enumerate(pairs, 1):
            with (
                self.world.no_sync(model, number < parts),
                torch.autocast(inputs.device.type, self.dtype, enabled=self.dtype != torch.float32),
            ):
                logits = model(pictures)
                loss = self.loss(logits, wanted).sum() * self.world.size / batch.num_global
                self.state.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
            total += loss.detach()
        return total

    def _count_parts(self, batch: Batch) -> int:
        """How many parts the batch is taken in: as many in each process, though shares differ."""
        largest = -(-batch.num_global // self.world.size)
        return -(-largest // self.state.progress.micro_batch)

    def _explain(
        self, batch: Batch, own: torch.Tensor, loss: float, grad_norm: float
    ) -> NonFiniteLoss:
        """What went wrong, with everything as it was before the step, in the process it began in.

        Args:
            own: loss of this process.
        """
        self.state.optimizer.zero_grad()
        self.before.put_back()
        parts = self._count_parts(batch)
        error = explain_nonfinite(self.state, batch, parts, self.dtype, loss, grad_norm)
        self.before.put_back()  # the look changed the statistics of norms again
        told = self.world.share((bool(own.isfinite()), error))
        return next((each for finite, each in told if not finite), told[0][1])
