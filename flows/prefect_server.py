"""Prefect's API server as one process, on a socket that it is given.

    python -m flows.prefect_server SOCKET_FD LOCK_FILE

Where it keeps its data, and whether it serves the UI, is read from the environment.
"""

from __future__ import annotations

import gc
import socket
import sys
from pathlib import Path


def main(fd: int, lock_file: Path) -> None:
    """Serve until told to end. Start-up is exclusive, so that only one migrates the database."""
    gc.disable()  # a fifth of the start-up would be spent looking for garbage among modules
    import uvicorn
    from filelock import FileLock
    from prefect.server.api.server import create_app

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            with FileLock(lock_file):
                await super().startup(sockets)

    app = create_app()
    gc.enable()
    gc.freeze()
    config = uvicorn.Config(app, log_level="error", lifespan="on", timeout_graceful_shutdown=3)
    Server(config).run(sockets=[socket.socket(fileno=fd)])


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
