"""Records: what a stage left behind, and the workspace that turns them into paths.

Knows the store, and nothing of Prefect, MLflow, DVC or of any stage. A stage sees this module
only; its code counts in every key through `FORMAT`, so raise that number when the meaning of a
record or of its bytes changes.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from enginehouse.errors import StoreError
from enginehouse.memo import Memo
from enginehouse.store import Blob, Store

FORMAT = 1


class Config(BaseModel):
    """Base of every config: frozen, no unknown fields, no coercion of surprises.

    Attributes:
        aside: fields that no result depends on (a number of workers); no key hashes them.
    """

    aside: ClassVar[frozenset[str]] = frozenset()

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Report(Protocol):
    """Where a stage sends progress and metrics while it works."""

    def __call__(self, message: str, done: int = 0, total: int = 0, **metrics: float) -> None:
        """Say `message`, that `done` of `total` steps are over, and the metrics so far."""


def silent(message: str, done: int = 0, total: int = 0, **metrics: float) -> None:
    """The report that nobody reads."""


def never() -> bool:
    """Nobody asked to stop."""
    return False


def canonical(value: Any) -> Any:
    """Plain JSON data with one spelling, for hashing.

    Raises:
        TypeError: the value has no stable spelling (a set, a path, an object, a NaN).
    """
    if isinstance(value, Record):
        return value.facts()
    if isinstance(value, BaseModel):
        aside = value.aside if isinstance(value, Config) else ()
        names = [name for name in type(value).model_fields if name not in aside]
        return {name: canonical(getattr(value, name)) for name in names}
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, tuple | list):
        return [canonical(item) for item in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: canonical(value[key]) for key in sorted(value)}
    raise TypeError(f"{type(value).__name__} {value!r} cannot be hashed stably.")


def fingerprint(value: Any) -> str:
    """SHA-256 (hex) of the canonical spelling of a value."""
    text = json.dumps(canonical(value), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


class MadeBy(Config):
    """What made a record: shown by `explain` and in the lineage, never hashed."""

    stage: str
    key: str
    parts: dict[str, JsonValue]
    started_at: str
    seconds: float


class RecordUnreadable(Exception):
    """A stored record that this code cannot read; the reason is the message."""


class Record(Config):
    """The small frozen description of what a stage left behind.

    The identity is made of `kind`, `files` and the fields that subclasses add. `reports`, `notes`
    and `made_by` stand beside it: no key ever hashes them.

    Attributes:
        files: name to digest and size of the bytes in the store.
        reports: likewise, for pages and pictures that nothing computes with.
        notes: numbers and words for people (curves, latencies, what was dropped and why).
    """

    kind: ClassVar[str]
    schema_number: ClassVar[int] = 1
    beside: ClassVar[frozenset[str]] = frozenset({"reports", "notes", "made_by"})

    files: dict[str, Blob] = {}
    reports: dict[str, Blob] = {}
    notes: dict[str, JsonValue] = {}
    made_by: MadeBy | None = None

    def facts(self) -> dict[str, Any]:
        """What the identity is made of."""
        stable = {
            name: canonical(getattr(self, name))
            for name in type(self).model_fields
            if name not in self.beside
        }
        return {"kind": self.kind, "schema": self.schema_number, **stable}

    @property
    def identity(self) -> str:
        """SHA-256 (hex) over kind, bytes and stable facts; independent of history."""
        return fingerprint(self.facts())

    def to_json(self) -> str:
        """The record as text, for the index and for the registry."""
        body = self.model_dump(mode="json")
        head = {"kind": self.kind, "schema": self.schema_number, "format": FORMAT}
        return json.dumps({**head, "record": body}, indent=1, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read a record.

        Raises:
            RecordUnreadable: broken text, another kind, or a schema this code does not know.
        """
        try:
            data = json.loads(text)
            head = (data["kind"], data["schema"], data["format"])
        except (ValueError, KeyError, TypeError) as error:
            raise RecordUnreadable("its record cannot be parsed") from error
        if head != (cls.kind, cls.schema_number, FORMAT):
            raise RecordUnreadable(
                f"its record is {head[0]} schema {head[1]} format {head[2]}, this code reads "
                f"{cls.kind} schema {cls.schema_number} format {FORMAT}"
            )
        try:
            return cls.model_validate(data["record"])
        except ValidationError as error:
            raise RecordUnreadable("its record does not fit this code's fields") from error


def flatten(value: Any, prefix: str = "") -> dict[str, Any]:
    """Nested dictionaries as one; the names are joined by dots."""
    if not isinstance(value, dict):
        return {prefix: value}
    flat: dict[str, Any] = {}
    for name, item in value.items():
        flat |= flatten(item, f"{prefix}.{name}" if prefix else name)
    return flat


@dataclass(frozen=True)
class Source:
    """Where a data version lies now: its folder, and each file's MD5 by relative path."""

    folder: Path
    listing: Mapping[str, str]


class Workspace:
    """Where a stage works: turns records into paths, gives a scratch folder, seals output.

    Args:
        store: where the bytes lie.
        scratch: an empty folder of this execution's own; removed afterwards.
        report: where progress and metrics go.
        sources: data digest to where that data lies now.
        stopping: says whether the work shall end early, as somebody asked for it.
        resumable: a folder that survives a failure, of whoever computes the same; None: none does.
        profile: where a stage shall write where its time went; None: nobody wants to know. It
            changes no result.
    """

    def __init__(
        self,
        store: Store,
        scratch: Path,
        report: Report = silent,
        sources: Mapping[str, Source] | None = None,
        stopping: Callable[[], bool] = never,
        resumable: Path | None = None,
        profile: Path | None = None,
    ) -> None:
        self.store = store
        self.scratch = scratch
        self.report = report
        self.sources = sources or {}
        self.stopping = stopping
        self.profile = profile
        self._resumable = resumable

    @property
    def resumable(self) -> Path:
        """A folder for what a rerun can go on from; nobody else uses it meanwhile.

        It survives failures and kills, and goes once the stage has succeeded.
        """
        folder = self._resumable or self.scratch / "resumable"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def path(self, record: Record, name: str) -> Path:
        """The path of one file of a record, its digest checked.

        Raises:
            StoreError: the bytes are gone or changed.
        """
        blob = {**record.files, **record.reports}[name]
        if reason := self.store.find_fault(blob):
            raise StoreError(
                f"{record.kind}: {name} {reason}.",
                "Run the pipeline again: the stage that made it runs anew.",
            )
        return self.store.blob_path(blob)

    def paths(self, record: Record) -> dict[str, Path]:
        """All files of a record by name, digests checked."""
        return {name: self.path(record, name) for name in record.files}

    def copy_out(self, record: Record, folder: Path, reports: bool = False) -> Path:
        """Copy a record's files under their names into `folder`; returns the folder."""
        for name in [*record.files, *(record.reports if reports else ())]:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.path(record, name), folder / name)
        return folder

    def seal(self, names: Iterable[str]) -> dict[str, Blob]:
        """Move files of the scratch folder into the store, by name."""
        return {name: self.store.seal(self.scratch / name) for name in sorted(names)}

    def memo(self, module: str) -> Memo:
        """What a module computed of single files before, by the MD5 of their content.

        It belongs to the code of that module and all it reaches, and to the versions of its
        LIBRARIES: after a change of these it is empty. It can never change a result.

        Args:
            module: dotted name.
        """
        from enginehouse.code_digest import digest_modules, find_libraries

        code = fingerprint([digest_modules(module, ()), find_libraries([module])])
        return Memo(self.store.memo_path(code))

    def source(self, digest: str) -> Source:
        """Where the data version with this digest lies now."""
        return self.sources[digest]
