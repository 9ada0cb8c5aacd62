"""How a stage is run: its key, the look-up, computing once, the journal.

Correct first, then fast. A key is exactly: stage name, code digest, config, the inputs'
identities. A hit is believed only when its record parses and the store holds every byte it
names, digest checked, under the key's lock. Knows nothing of who calls (a Prefect task, a bench
script, a test).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, get_type_hints

from enginehouse.artifact import (
    Config,
    MadeBy,
    Record,
    RecordUnreadable,
    Report,
    Source,
    Workspace,
    canonical,
    fingerprint,
    flatten,
    never,
    silent,
)
from enginehouse.choices import find_choice, iter_choices, read_facts
from enginehouse.code_digest import digest_modules, find_libraries
from enginehouse.store import Store


@dataclass(frozen=True)
class Stage:
    """A stage function and what is known of it without running it."""

    name: str
    function: Callable[..., Record]
    record_type: type[Record]

    @classmethod
    def of(cls, function: Callable[..., Record]) -> Stage:
        """Read name, inputs and record type off a stage function's signature."""
        hints = get_type_hints(function)
        assert {"config", "here"} <= hints.keys(), f"{function.__qualname__} is not a stage"
        return cls(function.__name__, function, hints["return"])


@dataclass(frozen=True)
class Job:
    """One stage with its config and inputs: what a key is made of.

    Attributes:
        slot: where in which recipe it stands (`sample/build.openvino`); names what the last
            run of the same place did, so that a reason can be given. Not in the key.
        notes: input name to what changed in it, for the reason. Not in the key.
    """

    stage: Stage
    slot: str
    config: Config
    inputs: Mapping[str, Record]
    notes: Mapping[str, str] = field(default_factory=dict)

    def parts(self) -> dict[str, Any]:
        """What the key is made of, by name, so that two keys can be compared."""
        models = (self.config, *self.inputs.values())
        choices = {choice for model in models for choice in iter_choices(model)}
        facts = {name: value for model in models for name, value in read_facts(model).items()}
        module = self.stage.function.__module__
        modules = [module, *(find_choice(*choice) for choice in sorted(choices))]
        return {
            "stage": self.stage.name,
            "python": f"{sys.version_info.major}.{sys.version_info.minor}",
            "code": digest_modules(module, choices) | facts,
            "libraries": find_libraries(modules),
            "config": canonical(self.config),
            "inputs": {name: record.identity for name, record in self.inputs.items()},
        }


@dataclass(frozen=True)
class Outcome:
    """What became of a job: its record, whether it was cached, and why or why not."""

    job: Job
    key: str
    record: Record
    cached: bool
    reason: str

    @property
    def place(self) -> str:
        """Where in its recipe the stage stands (`build.openvino`)."""
        return self.job.slot.partition("/")[2]


@dataclass(frozen=True)
class Missing:
    """No believable entry for a key, and why."""

    reason: str


class Watch(Protocol):
    """Looks on while a stage is executed; it is not asked when there is a cached record."""

    def __call__(self, job: Job, key: str, report: Report) -> AbstractContextManager[Report]:
        """Around the execution; gives the report that the stage gets instead of `report`."""


def look_away(job: Job, key: str, report: Report) -> AbstractContextManager[Report]:
    """The watch that does not look."""
    return nullcontext(report)


def look_up(store: Store, stage: Stage, key: str) -> Record | Missing:
    """The record of a key, believed only with every byte it names."""
    path = store.record_path(stage.name, key)
    try:
        record = stage.record_type.from_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Missing("")
    except (RecordUnreadable, UnicodeDecodeError, OSError) as error:
        return Missing(f"{error}")
    for name, blob in {**record.files, **record.reports}.items():
        if fault := store.find_fault(blob):
            return Missing(f"{name} {fault}")
    return record


def run_job(
    store: Store,
    job: Job,
    report: Report = silent,
    sources: Mapping[str, Source] | None = None,
    only_cached: bool = False,
    stopping: Callable[[], bool] = never,
    watch: Watch = look_away,
    profile: Path | None = None,
) -> Outcome | Missing:
    """Look a job up, or run its stage once, however many processes ask.

    Args:
        only_cached: never run the stage; a miss comes back as `Missing`.
        stopping: says whether the stage shall end early; see `Workspace`.
        watch: looks on while the stage is executed.
        profile: where the stage shall write where its time went; see `Workspace`.

    Raises:
        EnginehouseError: the stage failed; nothing is entered in the index.
        Interrupted: the stage ended early; a rerun goes on from there.
    """
    parts = job.parts()
    key = fingerprint(parts)

    def say_waiting() -> None:
        report(f"{job.stage.name}: another run is computing the same thing; waiting for it")

    with store.lock(key, say_waiting):
        found = look_up(store, job.stage, key)
        if isinstance(found, Record):
            if not only_cached:
                store.remember(f"slots/{job.slot}", parts)
                store.drop_resumable(job.slot, key, others=False)
            return Outcome(job, key, found, True, "same code, config and inputs; bytes verified")
        reason = found.reason or explain_change(store.recall(f"slots/{job.slot}"), parts, job.notes)
        if only_cached:
            return Missing(reason)
        with watch(job, key, report) as told:
            record = _compute(store, job, key, parts, reason, told, sources, stopping, profile)
    return Outcome(job, key, record, False, reason)


def _compute(
    store: Store,
    job: Job,
    key: str,
    parts: dict[str, Any],
    reason: str,
    report: Report,
    sources: Mapping[str, Source] | None,
    stopping: Callable[[], bool],
    profile: Path | None,
) -> Record:
    started = datetime.now(UTC)
    clock = time.perf_counter()
    line = {"stage": job.stage.name, "slot": job.slot, "key": key, "reason": reason}
    left = explain_unfinished(store, job, key, parts)
    notes: dict[str, Any] = {"not_resumed": left} if left else {}
    for each in left:
        report(each)
    with (
        store.open_scratch(key) as scratch,
        store.open_resumable(job.slot, key, parts) as folder,
    ):
        here = Workspace(store, scratch, report, sources, stopping, folder, profile)
        store.append_journal(event="execute", **line, **notes)
        record = job.stage.function(**job.inputs, config=job.config, here=here)
    made_by = MadeBy(
        stage=job.stage.name,
        key=key,
        parts=parts,
        started_at=started.isoformat(timespec="seconds"),
        seconds=round(time.perf_counter() - clock, 3),
    )
    record = record.model_copy(update={"made_by": made_by, "notes": {**record.notes, **notes}})
    store.write_text(store.record_path(job.stage.name, key), record.to_json())
    store.drop_resumable(job.slot, key, others=True)
    store.remember(f"slots/{job.slot}", parts)
    return record


def explain_unfinished(store: Store, job: Job, key: str, parts: dict[str, Any]) -> list[str]:
    """What was begun in the same place and will not be gone on with, naming what differs."""
    told = f"an unfinished {job.stage.name} of this place is not resumed"
    unfinished = store.list_unfinished(job.slot, key)
    return [f"{told}: {explain_change(before, parts, job.notes)}" for before in unfinished]


def explain_change(
    before: dict[str, Any] | None, now: dict[str, Any], notes: Mapping[str, str]
) -> str:
    """Why a key is new, naming each part that differs from the last run of the same place."""
    if before is None:
        return "first run"
    changes = []
    for part in ("python", "code", "libraries", "config", "inputs"):
        old, new = flatten(before.get(part)), flatten(now[part])
        for name in sorted(old.keys() | new.keys()):
            if old.get(name) != new.get(name):
                changes.append(_describe(part, name, old.get(name), new.get(name), notes))
    return "; ".join(changes) or "no entry in the store"


def _describe(part: str, name: str, old: Any, new: Any, notes: Mapping[str, str]) -> str:
    if part == "inputs":
        return f"input {name} changed" + (f" ({notes[name]})" if name in notes else "")
    if part == "code":
        return f"code {name} {'changed' if old and new else 'is new' if new else 'is gone'}"
    return f"{part} {name}: {old} -> {new}"
