"""Where things are: the checkout, its local state, the store. Knows no service."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from enginehouse.errors import EnginehouseError
from enginehouse.store import Store

MARK = "prefect.yaml"


@dataclass(frozen=True)
class Project:
    """A checkout.

    Attributes:
        root: the folder that holds `prefect.yaml`.
        state: local state (`.enginehouse`, or $ENGINEHOUSE_STATE).
    """

    root: Path
    state: Path

    def open_store(self) -> Store:
        """The store: $ENGINEHOUSE_STORE, or `store` in the state folder."""
        return Store(Path(os.environ.get("ENGINEHOUSE_STORE") or self.state / "store"))


def find_project(start: Path | None = None) -> Project:
    """The checkout at or above `start`, else the one this code is installed from.

    Raises:
        EnginehouseError: there is none; or `start` was given and holds none.
    """
    here = (start or Path.cwd()).absolute()
    places = [here, *here.parents]
    if start is None:
        places.append(Path(__file__).absolute().parents[2])
    for folder in places:
        if (folder / MARK).is_file() and (folder / "flows").is_dir():
            state = Path(os.environ.get("ENGINEHOUSE_STATE") or folder / ".enginehouse")
            return Project(folder, state.absolute())
    raise EnginehouseError(
        f"No checkout of Enginehouse at or above {here}: no folder holds {MARK} and flows/.",
        "Run inside the checkout, or name it with --project FOLDER.",
    )
