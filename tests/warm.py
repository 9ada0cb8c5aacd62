"""Commands in processes that need not import what is slow: they are forked from one that has.

Most of a short run is the import of libraries. The process here imports those once, and nothing of
this project: each command finds `enginehouse`, `flows` and `tasks` anew, where its own PYTHONPATH
says. Prefect is not among them either, as it reads its settings when it is imported.

    python -P warm.py SOCKET_FD
"""

from __future__ import annotations

import array
import ctypes
import functools
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

LIBRARIES = (
    *("torch", "torch._dynamo", "torch.onnx", "torch.onnx._internal.exporter._core", "networkx"),
    *("torchvision", "torchao.quantization.pt2e.quantize_pt2e", "PIL.Image", "sqlalchemy.orm"),
    *("torchmetrics.functional.classification", "scipy.optimize", "pandas", "pyarrow.parquet"),
    *("onnx", "onnxscript", "onnxruntime", "openvino", "safetensors.torch", "cv2", "imagehash"),
    *("matplotlib.figure", "grimp", "great_expectations", "jinja2", "pydantic", "rich.console"),
    *("mlflow.tracking", "mlflow.store.tracking.sqlalchemy_store", "mlflow.pyfunc"),
)
PR_SET_PDEATHSIG = 1  # from linux/prctl.h
LIMIT = 300.0  # seconds that a command may take


class Warm:
    """The process that has imported them; it ends with this one."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.connection, theirs = socket.socketpair()
        self.connection.settimeout(LIMIT)
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-P", __file__, str(theirs.fileno())],
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )

    def run(
        self, command: Sequence[str], cwd: Path, environment: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """Run `python COMMAND` to its end; `-m MODULE`, `-c CODE` or a file, and arguments."""
        order = json.dumps([list(command), str(cwd), dict(environment)]).encode()
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            files = array.array("i", [out.fileno(), err.fileno()])
            self.connection.sendmsg(
                [len(order).to_bytes(8)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)]
            )
            self.connection.sendall(order)
            try:
                code = int.from_bytes(_receive(self.connection, 4), signed=True)
            except (TimeoutError, EOFError):
                self.process.kill()  # and the command with it
                start.cache_clear()
                raise
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess(command, code, out.read(), err.read())


@functools.cache
def start() -> Warm:
    """The one of this test process."""
    from flows import TELEMETRY_OFF
    from flows.environment import MLFLOW
    from tests.conftest import clean_environment

    return Warm({**clean_environment(), **TELEMETRY_OFF, **MLFLOW})


def _receive(connection: socket.socket, count: int) -> bytes:
    received = b""
    while len(received) < count:
        some = connection.recv(count - len(received))
        if not some:
            raise EOFError("the process of the imported libraries has ended")
        received += some
    return received


def _serve(connection: socket.socket) -> list[str] | None:
    """Fork for each order. Returns its command in the fork, and None where all is over."""
    while True:
        head, files, _, _ = socket.recv_fds(connection, 8, 2)
        if not head:
            return None
        order = json.loads(_receive(connection, int.from_bytes(head)))
        parent = os.getpid()
        child = os.fork()
        if child == 0:
            connection.close()
            _become(parent, files, *order[1:])
            command: list[str] = order[0]
            return command
        for file in files:
            os.close(file)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        connection.sendall(code.to_bytes(4, signed=True))


def _become(parent: int, files: Sequence[int], cwd: str, environment: dict[str, str]) -> None:
    """What a new process would find: its output, folder, environment, and where modules lie."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
    os.setsid()
    for number, file in enumerate(files, 1):
        os.dup2(file, number)
        os.close(file)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    places = os.environ.get("PYTHONPATH", "")
    sys.path[:0] = [place for place in places.split(os.pathsep) if place]
    importlib.invalidate_caches()


def _execute(command: Sequence[str]) -> None:
    """As the interpreter would."""
    how, *arguments = command
    if how == "-m":
        sys.argv = arguments
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    elif how == "-c":
        sys.argv = ["-c", *arguments[1:]]
        names: dict[str, Any] = {"__name__": "__main__"}
        exec(compile(arguments[0], "<string>", "exec"), names)
    else:
        sys.argv = [how, *arguments]
        runpy.run_path(how, run_name="__main__")


def main(connection: socket.socket) -> None:
    """Import the libraries, then serve; in a fork, execute its command."""
    sys.modules["openvino_telemetry"] = None  # type: ignore[assignment]  # as in `flows`
    for name in LIBRARIES:
        importlib.import_module(name)
    gc.freeze()
    command = _serve(connection)
    if command is not None:
        _execute(command)


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
