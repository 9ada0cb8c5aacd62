"""Where the time of a few steps goes: a table, and a trace of torch's profiler.

It looks on from outside (hooks, and a wrapped loss), so that nothing it does can change a result.
First come a few warm steps, then some that are timed by their parts, then some that are traced:
tracing costs time itself.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enginehouse.train.machine import describe_device

if TYPE_CHECKING:
    import torch

    from enginehouse.train.batches import Batch, Feed
    from enginehouse.train.loss import LossFunction
    from enginehouse.train.state import State

NUM_WARM = 5
NUM_TIMED = 10  # steps, and as many are traced after one that warms the profiler
PARTS = ("waiting for data", "augment", "forward", "backward", "optimizer", "rest")
TRACE = "trace.json.gz"
TABLE = "table.txt"
MAX_OPERATORS = 30


class NoProfile:
    """Looks at nothing."""

    def watch_loss(self, loss: LossFunction) -> LossFunction:
        """The loss function, for training to call."""
        return loss

    def watch(self, batches: Iterator[Batch], model: torch.nn.Module) -> Iterator[Batch]:
        """The batches of an epoch, for a loop that ends a step before it asks for the next.

        Args:
            batches: of one epoch.
            model: what the steps call.
        """
        return batches

    def close(self) -> None:
        """Training is over."""


def open_profile(folder: Path | None, state: State, feed: Feed, leads: bool) -> NoProfile:
    """Where a profile is wanted, one of the leading process; else a null object."""
    return StepProfile(folder, state, feed) if folder and leads else NoProfile()


class StepProfile(NoProfile):
    """Writes `table.txt`, and `trace.json.gz` for Perfetto or Chrome, into a folder.

    Args:
        folder: made if missing; an earlier profile in it is replaced.
        state: whose optimizer takes the steps.
        feed: gives the batches, and knows how long they were waited for.
    """

    def __init__(self, folder: Path, state: State, feed: Feed) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for name in (TRACE, TABLE):
            (folder / name).unlink(missing_ok=True)
        self.folder = folder
        self.feed = feed
        self.seconds = dict.fromkeys(PARTS, 0.0)
        self.num_steps = 0
        self.num_timed = 0
        self.num_pictures = 0
        self.operators = ""
        self._part = "rest"
        self._clock = 0.0
        self._tracer: torch.profiler.profile | None = None
        self._range: Any = None
        self._hooks: list[Any] = [
            state.optimizer.register_step_pre_hook(lambda *_: self._enter("optimizer")),
            state.optimizer.register_step_post_hook(lambda *_: self._enter("rest")),
        ]

    def watch_loss(self, loss: LossFunction) -> LossFunction:
        """The loss function; what follows it is backward."""

        def measure(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
            losses = loss(logits, targets)
            self._enter("backward")
            return losses

        return measure

    def watch(self, batches: Iterator[Batch], model: torch.nn.Module) -> Iterator[Batch]:
        """The batches of an epoch; while one is worked on, its parts are told apart."""
        hook = model.register_forward_pre_hook(lambda *_: self._enter("forward"))
        self._clock = time.perf_counter()  # what passed since the last epoch was no step
        try:
            while True:
                self._enter("augment")
                waited = self.feed.waited
                batch = next(batches, None)
                if batch is None:
                    return
                self._enter("rest")
                if self._timing:
                    waited = self.feed.waited - waited
                    self.seconds["waiting for data"] += waited
                    self.seconds["augment"] -= waited
                    self.num_pictures += len(batch.inputs)
                yield batch
                self._enter("rest")
                self._end_step()
        except GeneratorExit:  # training ended in the middle of an epoch
            self.close()
            raise
        finally:
            hook.remove()

    def close(self) -> None:
        """Write what there is, if that is not done yet, and look at nothing any more."""
        if self._hooks:
            self._finish()

    @property
    def _timing(self) -> bool:
        return NUM_WARM <= self.num_steps < NUM_WARM + NUM_TIMED

    def _enter(self, part: str) -> None:
        """From now on, time belongs to this part."""
        import torch

        if self._timing:
            if self.feed.device.type == "cuda":
                torch.cuda.synchronize(self.feed.device)
            now = time.perf_counter()
            self.seconds[self._part] += now - self._clock
            self._clock = now
        if self._tracer:
            self._leave_range()
            self._range = torch.profiler.record_function(part)
            self._range.__enter__()
        self._part = part

    def _leave_range(self) -> None:
        if self._range is not None:
            self._range.__exit__(None, None, None)
            self._range = None

    def _end_step(self) -> None:
        self.num_timed += self._timing
        self.num_steps += 1
        self._clock = time.perf_counter()
        traced = self.num_steps - NUM_WARM - NUM_TIMED
        if traced == 0:
            self._tracer = self._start_tracer()
        elif self._tracer:
            self._leave_range()
            self._tracer.step()
            if traced > NUM_TIMED:
                self._finish()

    def _start_tracer(self) -> torch.profiler.profile:
        from torch.profiler import ProfilerActivity, profile, schedule

        activities = [ProfilerActivity.CPU]
        if self.feed.device.type == "cuda":
            activities.append(ProfilerActivity.CUDA)
        tracer = profile(
            activities=activities,
            schedule=schedule(wait=0, warmup=1, active=NUM_TIMED, repeat=1),
            on_trace_ready=self._keep_trace,
        )
        tracer.start()
        return tracer

    def _keep_trace(self, tracer: torch.profiler.profile) -> None:
        tracer.export_chrome_trace(str(self.folder / TRACE))
        where = "device" if self.feed.device.type == "cuda" else "cpu"
        self.operators = tracer.key_averages().table(
            sort_by=f"self_{where}_time_total", row_limit=MAX_OPERATORS, max_name_column_width=50
        )

    def _finish(self) -> None:
        self._leave_range()
        if self._tracer:
            self._tracer.stop()
            self._tracer = None
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        (self.folder / TABLE).write_text(self._describe(), encoding="utf-8")

    def _describe(self) -> str:
        """The table, for people."""
        first, num = NUM_WARM + 1, self.num_timed
        if num == 0:
            return (
                f"Training ended after {self.num_steps} steps; the first {NUM_WARM} are warming "
                "up, so there is nothing to tell.\n"
            )
        total = sum(self.seconds.values())
        lines = [
            f"Steps {first} to {first + num - 1}, {self.num_pictures / num:.0f} pictures each, on "
            f"{describe_device(self.feed.device)}.",
            "On a GPU each part is waited for before the next begins.",
            "",
            f"{'part':<18}{'ms per step':>12}{'share':>8}",
            *(
                f"{part:<18}{1e3 * seconds / num:>12.3f}{seconds / total:>8.1%}"
                for part, seconds in self.seconds.items()
            ),
            f"{'all':<18}{1e3 * total / num:>12.3f}{1:>8.1%}",
            "",
        ]
        if self.operators:
            lines += [
                f"Operators by their own time, in the steps after those. {TRACE} shows them in "
                "order: open it in https://ui.perfetto.dev or chrome://tracing.",
                self.operators,
            ]
        else:
            lines.append("Training ended before there were steps to trace.")
        return "\n".join(lines) + "\n"
