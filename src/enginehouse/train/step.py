"""One step: a batch becomes one update of the weights, in as many parts as memory takes.

Gradients of the parts add up to those of the whole batch, so the result is the same but for
rounding and for BatchNorm, which norms by the part that it sees.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from enginehouse.train.memory import Moment, is_out_of_memory
from enginehouse.train.nonfinite import explain_nonfinite
from enginehouse.train.state import State
from enginehouse.train.world import World

if TYPE_CHECKING:
    import torch

    from enginehouse.train.batches import Batch

    LossFunction = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Step:
    """What came of one step.

    Attributes:
        loss: mean over the batch (of this process).
        grad_norm: of all gradients together, before they were cut.
        updated: False where the fp16 scaler skipped the step.
    """

    loss: float
    grad_norm: float
    updated: bool


@dataclass
class Stepper:
    """Takes steps.

    Attributes:
        state: what the steps change.
        loss: from logits and targets to the loss of each picture.
        dtype: of the matrix products.
        clip_norm: gradients are cut to this norm.
    """

    state: State
    loss: LossFunction
    dtype: torch.dtype
    clip_norm: float
    world: World

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
        moment = Moment.of(state.net)
        loss = self._fill_gradients(model, batch, moment)
        scaler.unscale_(optimizer)
        learns = [p for p in state.net.parameters() if p.grad is not None]
        norm = torch.nn.utils.clip_grad_norm_(learns, self.clip_norm)
        both = torch.stack([loss, norm.float()]).tolist()  # the one time that the GPU is waited for
        if not math.isfinite(both[0]) or not (math.isfinite(both[1]) or scaler.is_enabled()):
            moment.put_back(state.net)
            optimizer.zero_grad()
            raise explain_nonfinite(state, batch, self.dtype, *both)
        scale = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        updated = scaler.get_scale() >= scale
        if updated and state.ema is not None:
            state.ema.update_parameters(state.net)
        return Step(both[0], both[1], updated)

    def _fill_gradients(self, model: torch.nn.Module, batch: Batch, moment: Moment) -> torch.Tensor:
        """Forward and backward, with smaller parts from where memory runs out."""
        progress = self.state.progress
        while True:
            self.state.optimizer.zero_grad()
            try:
                return self._accumulate(model, batch)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                failed = min(progress.micro_batch, len(batch.inputs))
                if failed == 1 or self.world.size > 1:
                    raise
            moment.put_back(self.state.net)
            progress.micro_batch = -(-failed // 2)

    def _accumulate(self, model: torch.nn.Module, batch: Batch) -> torch.Tensor:
        """The gradients of the whole batch, part by part; returns its mean loss."""
        import torch

        inputs, targets = batch.inputs, batch.targets
        parts = -(-len(inputs) // self.state.progress.micro_batch)
        total = torch.zeros((), device=inputs.device)
        pairs = zip(inputs.tensor_split(parts), targets.tensor_split(parts), strict=True)
        for number, (pictures, wanted) in enumerate(pairs, 1):
            with (
                self.world.no_sync(model, number < parts),
                torch.autocast(inputs.device.type, self.dtype, enabled=self.dtype != torch.float32),
            ):
                logits = model(pictures)
                loss = self.loss(logits.float(), wanted).sum() * self.world.size / batch.num_global
                self.state.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
            total += loss.detach()
        return total
