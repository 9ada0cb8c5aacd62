"""Which manifests of a recipe were let through, in order, so that drift can be told from them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from enginehouse.artifact import RecordUnreadable
from enginehouse.ingest.record import Manifest
from enginehouse.store import Store
from tasks._stage import PROGRESS


@dataclass(frozen=True)
class Accepted:
    """The list of one recipe, oldest first; it only grows.

    Only its order decides what the version before is, so data that comes back (A, B, then A
    again) is compared with what it was compared with at first, and nothing is computed anew.
    """

    store: Store
    recipe: str

    def find_previous(self, manifest: Manifest) -> Manifest | None:
        """The version that was accepted before this one, else the last; None if there is none.

        Versions whose bytes are gone, or whose record this code cannot read, are passed over.
        """
        known = list(self._read())
        identities = [each.identity if each else "" for each in known]
        place = len(known)
        if manifest.identity in identities:
            place = identities.index(manifest.identity)
        for each in reversed(known[:place]):
            if each and not any(map(self.store.find_fault, each.files.values())):
                return each
        if place:
            PROGRESS.info("validate: no earlier data is left in the store to tell drift from")
        return None

    def add(self, manifest: Manifest) -> None:
        """Append a manifest that was let through, unless it is known."""
        with self.store.lock(f"accepted-{self.recipe}", lambda: None):
            if all(each is None or each.identity != manifest.identity for each in self._read()):
                texts = self.store.recall(self._name) or []
                self.store.remember(self._name, [*texts, manifest.to_json()])

    def _read(self) -> Iterator[Manifest | None]:
        for text in self.store.recall(self._name) or []:
            try:
                yield Manifest.from_json(text)
            except RecordUnreadable:
                yield None

    @property
    def _name(self) -> str:
        return f"accepted/{self.recipe}"
