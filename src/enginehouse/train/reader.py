"""Reading rows of a split ahead of their use, in processes where that is wanted.

Every process maps the same shards; what a batch costs is copying its rows out of the page cache.
torch's DataLoader moves the batches, as shared memory. Knows nothing of what becomes of them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from enginehouse.train.splits import Split

if TYPE_CHECKING:
    import torch

    Rows = NDArray[np.int64]
    Pair = tuple[torch.Tensor, torch.Tensor]


class Reader:
    """Gives batches of one split; its processes live from the first batch to its own end.

    Args:
        split: what is read.
        num_workers: processes; 0: this one reads, when a batch is asked for.
        pinned: batches lie in page-locked memory, from which a GPU copies by itself.
    """

    def __init__(self, split: Split, num_workers: int, pinned: bool) -> None:
        import torch
        from torch.utils.data import DataLoader

        self.waited = 0.0  # seconds that the last batch took to come
        self._batches: list[Rows] = []
        self._loader: DataLoader[Any] = DataLoader(
            cast("Any", _Rows(split)),  # no Dataset by type, as that would import torch here
            batch_sampler=cast("Any", self._batches),
            collate_fn=cast("Any", _keep),
            num_workers=num_workers,
            persistent_workers=num_workers > 0,
            multiprocessing_context=_start_server() if num_workers else None,
            pin_memory=pinned,
            generator=torch.Generator(),  # for its own seeds, lest it draws from torch's
        )

    def read(self, batches: Sequence[Rows]) -> Iterator[Pair]:
        """Pictures (uint8 [n, 3, size, size]) and targets (float32 [n, classes]) of each batch.

        A pass that is not read to its end is over when the next begins.
        """
        self._batches[:] = batches
        pairs = iter(self._loader)
        while True:
            clock = time.perf_counter()
            pair = next(pairs, None)
            self.waited = time.perf_counter() - clock
            if pair is None:
                return
            yield pair


class _Rows:
    """A split as torch's DataLoader wants it: asked for a batch of rows at once."""

    def __init__(self, split: Split) -> None:
        self.split = split

    def __len__(self) -> int:
        return len(self.split)

    def __getitems__(self, rows: Rows) -> Pair:
        return self.split.pick(rows)


def _keep(batch: Pair) -> Pair:
    """A batch is made whole already."""
    return batch


def _start_server() -> Any:
    """A clean process from which readers are forked; it imports torch once for all of them.

    Forking this process itself would copy locks that its threads hold, and its GPU context.
    """
    import multiprocessing

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", __name__])
    return context
