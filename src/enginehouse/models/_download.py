"""Download a file of weights once: whole or not at all, and never waiting for long."""

from __future__ import annotations

import hashlib
import http.client
import os
import re
import shutil
import urllib.request
from pathlib import Path

from enginehouse.errors import RecipeError, first_line

PATIENCE = 15.0  # seconds without a byte
CHECKED = re.compile(r"-([0-9a-f]{8,})\.\w+$")  # torch's custom: the SHA-256 begins like this


def find_cache() -> Path:
    """The folder in which torch keeps weights ($TORCH_HOME/hub/checkpoints)."""
    import torch

    return Path(torch.hub.get_dir()) / "checkpoints"


def download(url: str, target: Path) -> Path:
    """The file behind an address; one that lies there already is used.

    Args:
        url: https address; a digest at the end of its name is checked.
        target: where to.

    Raises:
        RecipeError: no connection, no such file, or other bytes than promised.
    """
    if not target.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            with (
                urllib.request.urlopen(url, timeout=PATIENCE) as answer,
                draft.open("wb") as stream,
            ):
                shutil.copyfileobj(answer, stream)
                promised = answer.headers["Content-Length"]
                if promised and stream.tell() < int(promised):  # to urllib that is no error
                    raise OSError(f"it broke off after {stream.tell()} of {promised} bytes")
            draft.replace(target)
        except (OSError, http.client.HTTPException) as error:
            raise RecipeError(
                f"weights: default means {url}, which could not be downloaded: "
                f"{first_line(error)}.",
                f"Without network, put the file there as {target}, set weights to a file of your "
                "own, or to none for random weights.",
            ) from error
        finally:
            draft.unlink(missing_ok=True)
    _check_digest(target, url)
    return target


def _check_digest(path: Path, url: str) -> None:
    promised = CHECKED.search(url)
    if promised is None:
        return
    with path.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if not found.startswith(promised[1]):
        raise RecipeError(
            f"weights: {path} is not what {url} promises: its SHA-256 begins with "
            f"{found[: len(promised[1])]}.",
            "Remove the file and run again, or set weights to a file of your own.",
        )
