"""Gradient checkpointing: what a block computed is computed again when its gradient is due.

Only the inputs of blocks stay in memory (Chen et al., https://arxiv.org/abs/1604.06174). The
weights that come of it are those of plain training: random numbers are drawn again as they were,
and the second pass leaves the statistics of BatchNorm alone.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from enginehouse.errors import RecipeError

if TYPE_CHECKING:
    import torch


def checkpoint_blocks(net: torch.nn.Module) -> None:
    """Let every block of the network keep its input only. Names of parameters stay as they are.

    Raises:
        RecipeError: the network has no blocks.
    """
    from torch.utils.checkpoint import checkpoint

    blocks = list(_iter_blocks(net))
    if not blocks:
        raise RecipeError(
            f"speed.gradient_checkpointing: {type(net).__name__} has no blocks of several layers.",
            "Leave it out, or use a smaller train.micro_batch.",
        )
    for block in blocks:
        contexts = functools.partial(_make_contexts, block)
        block.forward = functools.partial(
            checkpoint, block.forward, use_reentrant=False, context_fn=contexts
        )


def _iter_blocks(net: torch.nn.Module) -> Iterator[torch.nn.Module]:
    """The outermost members of sequences that hold several layers with weights."""
    import torch

    for child in net.children():
        if isinstance(net, torch.nn.Sequential) and _count_layers(child) > 1:
            yield child
        else:
            yield from _iter_blocks(child)


def _count_layers(module: torch.nn.Module) -> int:
    """Modules within it that have weights of their own."""
    return sum(any(True for _ in each.parameters(False)) for each in module.modules())


def _make_contexts(
    block: torch.nn.Module,
) -> tuple[contextlib.AbstractContextManager[None], contextlib.AbstractContextManager[None]]:
    """What the first pass and the second run in."""
    return contextlib.nullcontext(), _keep_statistics(block)


@contextlib.contextmanager
def _keep_statistics(block: torch.nn.Module) -> Iterator[None]:
    """BatchNorms norm by the batch as ever, and remember nothing of it."""
    import torch

    norms = [m for m in block.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]
    kept = [(norm, norm.running_mean, norm.running_var, norm.num_batches_tracked) for norm in norms]
    try:
        for norm, mean, var, count in kept:
            norm.running_mean = None if mean is None else mean.clone()
            norm.running_var = None if var is None else var.clone()
            norm.num_batches_tracked = None if count is None else count.clone()
        yield
    finally:
        for norm, mean, var, count in kept:
            norm.running_mean, norm.running_var, norm.num_batches_tracked = mean, var, count
