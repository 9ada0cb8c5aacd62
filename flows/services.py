"""Processes that serve: started under a guard, so that none outlives who started it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from enginehouse.errors import EnginehouseError
from enginehouse.project import Project
from flows.environment import child_environment

HOST = "127.0.0.1"
PYTHON = (sys.executable, "-P", "-m")  # -P: the folder we happen to be in is no place for modules
GUARD = Path(__file__).with_name("guard.py")
START_LIMIT = 180.0  # seconds; the first start of a database takes 8 s of one core
LOG_LINES = 12
LOG_LIMIT = 2**20  # bytes; a longer log starts anew with the next start
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # loopback needs none


@dataclass(frozen=True)
class Service:
    """A process under a guard.

    Attributes:
        health: address that answers when it serves; empty if it has none.
        log: where its output goes; this start's begins at `log_start` bytes.
    """

    name: str
    process: subprocess.Popen[bytes]
    health: str
    log: Path
    log_start: int

    @classmethod
    def start(
        cls,
        name: str,
        command: Sequence[str],
        log: Path,
        environment: Mapping[str, str],
        health: str = "",
        sockets: Sequence[socket.socket] = (),
        folder: Path | None = None,
    ) -> Service:
        """Start a command; it ends with this process, however that ends.

        Args:
            sockets: open ones that the command inherits under their own numbers.
            folder: where it works.
        """
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            if output.tell() > LOG_LIMIT:
                output.truncate(0)
            log_start = output.tell()
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(GUARD), str(os.getpid()), *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(environment),
                cwd=folder,
                pass_fds=[each.fileno() for each in sockets],
                start_new_session=True,  # Ctrl-C is for us; we end the service in our order
            )
        return cls(name, process, health, log, log_start)

    def ended(self) -> bool:
        """Whether the process is gone."""
        return self.process.poll() is not None

    def stop(self) -> None:
        """Ask it to end, and wait until it and all that it started are gone."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()

    def kill(self) -> None:
        """End it at once: the guard's death is the command's."""
        self.process.kill()
        self.process.wait()

    def failure(self) -> EnginehouseError:
        """The error that says how it ended, with the last lines of its log."""
        said = self.log.read_bytes()[self.log_start :].decode(errors="replace")
        tail = "".join(f"\n    {line}" for line in said.splitlines()[-LOG_LINES:]) or " nothing"
        return EnginehouseError(
            f"{self.name} ended with exit code {self.process.poll()}. It last said:{tail}",
            f"Look into {self.log}, then run again.",
        )

    def wait_healthy(self) -> None:
        """Wait until its health address answers.

        Raises:
            EnginehouseError: the process ended, or took longer than `START_LIMIT`.
        """
        deadline = time.monotonic() + START_LIMIT
        while (left := deadline - time.monotonic()) > 0:
            if self.ended():
                raise self.failure()
            try:
                # A bound socket queues us until the server reads, so this is one long request.
                DIRECT.open(self.health, timeout=left).close()
                return
            except (urllib.error.URLError, OSError):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(0.2)
        raise EnginehouseError(
            f"{self.name} did not answer at {self.health} within {START_LIMIT:.0f} s.",
            f"Look into {self.log}; on a very busy machine, run again.",
        )


def bind(port: int) -> socket.socket:
    """A listening loopback socket; port 0 takes a free one.

    Raises:
        OSError: the port is taken.
    """
    listener = socket.socket()
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, port))
        listener.listen(128)
    except OSError:
        listener.close()
        raise
    return listener


def start_prefect_server(
    project: Project, listener: socket.socket, environment: Mapping[str, str]
) -> tuple[Service, str]:
    """Start Prefect's API on a socket that is bound already; gives its address too."""
    url = f"http://{HOST}:{listener.getsockname()[1]}/api"
    lock = project.state / "prefect-start.lock"
    with listener:  # the child has a copy
        service = Service.start(
            "The Prefect server",
            [*PYTHON, "flows.prefect_server", str(listener.fileno()), str(lock)],
            log_path(project, "prefect-server"),
            {**environment, "PREFECT_SERVER_UI_API_URL": url},
            f"{url}/health",
            [listener],
        )
    return service, url


def log_path(project: Project, name: str) -> Path:
    """Where the log of a service lies."""
    return project.state / "logs" / f"{name}.log"


class TemporaryServer:
    """A Prefect API for this process alone, on the project's database, without UI or schedules.

    `start` returns at once; Prefect may be imported meanwhile, but used only after `wait`.
    """

    def __init__(self, project: Project) -> None:
        self._project = project
        self._settings = contextlib.ExitStack()
        self._healthy = False

    def start(self) -> None:
        """Start it, and point this process at it."""
        environment = child_environment(
            PREFECT_SERVER_UI_ENABLED="false",
            PREFECT__SERVER_EPHEMERAL="1",  # only the services that record runs
        )
        self._service, self.url = start_prefect_server(self._project, bind(0), environment)
        os.environ["PREFECT_API_URL"] = self.url
        self._settings.callback(os.environ.pop, "PREFECT_API_URL", None)

    def wait(self) -> None:
        """Wait until it answers.

        Raises:
            EnginehouseError: it ended, or is too slow.
        """
        self._service.wait_healthy()
        self._healthy = True
        from prefect.settings import PREFECT_API_URL, temporary_settings

        # Prefect may have read its settings before `start`.
        self._settings.enter_context(temporary_settings({PREFECT_API_URL: self.url}))

    def stop(self) -> None:
        """Hand over what Prefect still holds back, then end the server."""
        if not self._healthy:
            self._service.kill()  # it would finish the migrations first; SQLite rolls them back
        else:
            if "prefect.events.worker" in sys.modules:
                _send_what_is_held_back()
            self._service.stop()
        self._settings.close()


def _send_what_is_held_back() -> None:
    # Prefect would do so when the interpreter exits: too late, against a server that is gone.
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker

    EventsWorker.drain_all(timeout=10)
    APILogWorker.drain_all(timeout=10)


@contextlib.contextmanager
def temporary_prefect_server(project: Project) -> Iterator[TemporaryServer]:
    """A server that is starting; call its `wait` before Prefect is used. Ends on exit."""
    server = TemporaryServer(project)
    server.start()
    try:
        yield server
    finally:
        server.stop()
