"""The one caching policy: a stage as a Prefect task whose hits are decided by our own index.

Prefect's cache is off for these tasks: it looks at nothing between look-up and hit, so it would
believe results whose bytes are gone (see docs/adr). A hit ends in a state named `Cached` with
the reason.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enginehouse.artifact import Config, Record, Source, silent
from enginehouse.errors import Interrupted
from enginehouse.stage import Job, Missing, Outcome, Stage, Watch, look_away, run_job
from enginehouse.store import Store
from tasks._progress import Teller
from tasks._stopping import StopWish, to_state

if TYPE_CHECKING:
    from prefect import State, Task

PROGRESS = logging.getLogger("enginehouse.progress")
STEPS = logging.getLogger("enginehouse_steps")  # every step; outside what goes to Prefect's API
REPORT_EVERY = 5.0  # seconds between progress lines of one stage in a log


@dataclass
class RunContext:
    """What the tasks of one run share.

    Attributes:
        prefix: the recipe's name; slots are `<prefix>/<place>`.
        sources: data digest to where that data lies now.
        notes: input name to what changed in it, for the reasons.
        watches: stage name to what looks on while it is executed.
        profile: where a stage shall write where its time went; None: nobody wants to know.
        stop: whether somebody asked this run to stop.
        outcomes: what became of each stage so far, in order.
    """

    store: Store
    prefix: str
    sources: Mapping[str, Source]
    notes: Mapping[str, str] = field(default_factory=dict)
    watches: Mapping[str, Watch] = field(default_factory=dict)
    profile: Path | None = None
    stop: StopWish = field(default_factory=StopWish)
    outcomes: list[Outcome] = field(default_factory=list)

    def make_job(self, stage: Stage, place: str, config: Config, inputs: dict[str, Any]) -> Job:
        """The job of a stage at a place in this run's recipe."""
        return Job(stage, f"{self.prefix}/{place}", config, inputs, self.notes)

    def run(self, job: Job, place: str) -> Outcome:
        """Look a job up or run it; what it reports goes to the logs."""
        outcome = run_job(
            *(self.store, job, throttled(place), self.sources),
            stopping=self.stop,
            watch=self.watches.get(job.stage.name, look_away),
            profile=self.profile,
        )
        assert isinstance(outcome, Outcome)
        return outcome

    def keep(self, outcome: Outcome) -> Record:
        """Write down an outcome where `explain` finds it; returns its record."""
        self.outcomes.append(outcome)
        self.store.remember(
            f"runs/{self.prefix}",
            [
                {
                    "place": each.place,
                    "cached": each.cached,
                    "reason": each.reason,
                    "key": each.key,
                    "seconds": each.record.made_by.seconds if each.record.made_by else 0,
                }
                for each in self.outcomes
            ],
        )
        return outcome.record


@dataclass(frozen=True)
class StageTask:
    """A stage and its Prefect task (made when first needed: Prefect is slow to import)."""

    stage: Stage

    def submit(
        self, context: RunContext, place: str, config: Config, /, **inputs: Record
    ) -> Record:
        """Run the stage as a task of the current flow run and wait for its record.

        Raises:
            Interrupted: somebody asked to stop.
        """
        context.stop.check()
        job = context.make_job(self.stage, place, config, inputs)
        outcome: Outcome = self._prefect_task(place).submit(job, context).result()
        return context.keep(outcome)

    def call(self, context: RunContext, place: str, config: Config, /, **inputs: Record) -> Record:
        """Run the stage as a plain function under the same cache, without Prefect."""
        job = context.make_job(self.stage, place, config, inputs)
        return context.keep(context.run(job, place))

    def look_up(
        self, context: RunContext, place: str, config: Config, /, **inputs: Record
    ) -> Record:
        """The cached record, without Prefect and without running anything.

        Raises:
            NotCached: it would have to run.
        """
        job = context.make_job(self.stage, place, config, inputs)
        found = run_job(context.store, job, silent, only_cached=True)
        if isinstance(found, Missing):
            raise NotCached(found.reason)
        return context.keep(found)

    def _prefect_task(self, place: str) -> Task[..., Any]:
        from prefect import task
        from prefect.cache_policies import NO_CACHE

        @task(name=self.stage.name, cache_policy=NO_CACHE, persist_result=False)
        def run_stage(job: Job, context: RunContext) -> State[Any]:
            from prefect.states import Completed

            try:
                outcome = context.run(job, place)
            except Interrupted as stop:
                return to_state(stop)
            if outcome.cached:
                message = f"hit: {outcome.reason}"
                PROGRESS.info("%s: cached (%s)", place, outcome.reason)
                return Completed(name="Cached", message=message, data=outcome)
            seconds = outcome.record.made_by.seconds if outcome.record.made_by else 0
            PROGRESS.info("%s: done in %.1f s", place, seconds)
            return Completed(message=f"ran: {outcome.reason}", data=outcome)

        return run_stage.with_options(task_run_name=place)


class NotCached(Exception):
    """A stage would have to run."""


def stage_task(function: Callable[..., Record]) -> StageTask:
    """The Prefect task of a stage function."""
    return StageTask(Stage.of(function))


def throttled(place: str) -> Callable[..., None]:
    """A report that logs what stands for itself, and now and then one of the steps between.

    A terminal shows each step on one live line; what is marked as a step is not printed there.
    """
    teller, last = Teller(place), 0.0

    def report(message: str, done: int = 0, total: int = 0, **metrics: float) -> None:
        nonlocal last
        line = teller.tell(message, done, total, metrics)
        if line.kind in ("said", "epoch"):
            PROGRESS.info(line.text)
            return
        STEPS.info(line.text)
        now = time.monotonic()
        if line.kind == "step" and (done == total or now - last >= REPORT_EVERY):
            last = now
            PROGRESS.info(line.text, extra={"step": True})

    return report
