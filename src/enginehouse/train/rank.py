"""One of several processes that train together. Torchrun starts it; see `launch.py`."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from pathlib import Path

from enginehouse.artifact import Workspace, silent
from enginehouse.errors import Interrupted
from enginehouse.store import Store
from enginehouse.train.launch import end_with
from enginehouse.train.order import MODEL, STOP, Failure, Order, ReportWriter


def main(folder: Path, launcher: int) -> int:
    """Do this process's part of the order in a folder; returns the exit code."""
    end_with(launcher)
    number = int(os.environ["RANK"])
    try:
        _train(Order.read(folder), folder, number)
    except Interrupted as error:
        Failure.of(error, number).write(folder, f"failure-{number}")
    except Exception as error:
        Failure.of(error, number).write(folder, f"failure-{number}")
        traceback.print_exc()
        return 1
    return 0


def _train(order: Order, folder: Path, number: int) -> None:
    import torch

    from enginehouse.train.together import join_world
    from enginehouse.train.train import fit_pack

    torch.set_num_threads(order.threads)
    scratch = order.scratch
    if number > 0:  # what the others would leave behind is the same again
        scratch = folder / f"scratch-{number}"
        scratch.mkdir()
    here = Workspace(
        Store(order.store),
        scratch,
        ReportWriter(folder) if number == 0 else silent,
        stopping=_Wish(folder / STOP),
        resumable=order.resumable,
        profile=order.profile,
    )
    with join_world() as world:
        model = fit_pack(order.pack, order.config, here, order.pretrained, world, order.restart)
    if number == 0:
        here.store.write_text(folder / MODEL, model.to_json())


class _Wish:
    """Whether this process shall stop: the stage asked for it, or a signal did."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.signalled = False
        signal.signal(signal.SIGTERM, self._note)

    def _note(self, *_: object) -> None:
        self.signalled = True

    def __call__(self) -> bool:
        return self.signalled or self.file.exists()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
