"""How MLflow is reached, and its failures told so that one knows what to do."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock

from enginehouse.errors import RegistryError

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

TAG = "enginehouse."  # before the name of every tag that we write


class Connection:
    """A tracking server or database, reached through MLflow's client.

    Args:
        state: folder of the local state.

    Raises:
        RegistryError: (every method) MLflow cannot be reached or refuses.
    """

    def __init__(self, state: Path) -> None:
        self.uri = os.environ["MLFLOW_TRACKING_URI"]
        self.state = state
        # The first look at a new database makes its tables; two processes must not do so at once.
        with FileLock(state / "mlflow-start.lock"), self._reaching():
            self._client: MlflowClient = _quiet_client()
            self._client.search_registered_models(max_results=1)

    @contextlib.contextmanager
    def _reaching(self) -> Iterator[None]:
        from mlflow.exceptions import MlflowException

        try:
            yield
        except (MlflowException, OSError) as error:
            said = str(error).replace(self.uri, hide_password(self.uri)).splitlines()[0][:300]
            raise RegistryError(
                f"MLflow at {hide_password(self.uri)} did not do what was asked: {said}",
                "Nothing is lost: every finished stage is in the store. Bring MLflow back (or set "
                "MLFLOW_TRACKING_URI) and run `enginehouse run` with the same recipe again; it "
                "registers without rebuilding.",
            ) from error


def hide_password(uri: str) -> str:
    """An address without the password in it."""
    head, at, tail = uri.rpartition("@")
    scheme, mark, user = head.partition("://")
    return f"{scheme}{mark}{user.partition(':')[0]}:***@{tail}" if at and ":" in user else uri


def _quiet_client() -> MlflowClient:
    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)
    from mlflow.tracking import MlflowClient

    return MlflowClient()
