"""Where a loss that is no number comes from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from enginehouse.errors import NonFiniteLoss

NUM_NAMED = 8  # pictures

if TYPE_CHECKING:
    import torch

    from enginehouse.train.batches import Batch
    from enginehouse.train.state import State


def explain_nonfinite(
    state: State, batch: Batch, parts: int, dtype: torch.dtype, loss: float, grad_norm: float
) -> NonFiniteLoss:
    """The error to raise: the pictures, the first module with such an output, rate and scale.

    Args:
        state: before the step; the look runs its network once more.
        batch: of the step.
        parts: how many it was taken in; norms that agree among processes meet in each.
        dtype: of the matrix products.
        loss, grad_norm: what the step came to.
    """
    module, rows = _look(state.net, batch.inputs.tensor_split(parts), dtype)
    if not batch.inputs.isfinite().all():
        where = "the pictures themselves are no numbers"
    elif module is not None:
        where = f"first in module {module}" if module else "first in what the network returns"
    else:
        where = "in the gradients alone" if math.isfinite(loss) else "in the loss alone"
    names = [batch.names[row] for row in rows] or batch.names
    return NonFiniteLoss(
        f"The training loss became {loss} in epoch {state.progress.epoch} "
        f"(step {state.progress.steps + 1}, gradient norm {grad_norm:g}): {where}; "
        f"{_tell_rate(state)}; pictures {', '.join(names[:NUM_NAMED])}"
        + (f" and {len(names) - NUM_NAMED} more" if len(names) > NUM_NAMED else "")
        + ".",
        "Set a lower train.learning_rate or train.clip_norm, or train.precision: fp32. The last "
        "checkpoint holds the weights of before this step.",
    )


def explain_skips(state: State) -> NonFiniteLoss:
    """The error for gradients that are infinite at any scale of fp16."""
    progress = state.progress
    return NonFiniteLoss(
        f"The gradients were no numbers in {progress.skips} steps in a row (epoch "
        f"{progress.epoch}, step {progress.steps + 1}); {_tell_rate(state)}.",
        "Set train.precision to bf16 or fp32.",
    )


def _tell_rate(state: State) -> str:
    rate = max(group["lr"] for group in state.optimizer.param_groups)
    scaler = state.scaler
    scale = f", gradient scale {scaler.get_scale():g}" if scaler.is_enabled() else ""
    return f"learning rate {rate:g}{scale}"


def _look(
    net: torch.nn.Module, parts: Sequence[torch.Tensor], dtype: torch.dtype
) -> tuple[str | None, list[int]]:
    """Name of the first module, in order of execution, whose output is not finite, and the rows.

    The name is empty for the network itself, and None if all is finite. Rows are those whose
    logits are not finite, unless they are so in all.
    """
    import torch

    found: list[str] = []

    def watch(name: str) -> Any:
        def hook(_module: Any, _inputs: Any, output: Any) -> None:
            if isinstance(output, torch.Tensor) and not found and not output.isfinite().all():
                found.append(name)

        return hook

    hooks = [module.register_forward_hook(watch(name)) for name, module in net.named_modules()]
    device, enabled = parts[0].device.type, dtype != torch.float32
    try:
        with torch.no_grad(), torch.autocast(device, dtype, enabled=enabled):
            bad = torch.cat([~net(part).isfinite().all(dim=1) for part in parts])
    finally:
        for each in hooks:
            each.remove()
    rows = [] if bad.all() else [int(row) for row in bad.nonzero()]
    return (found[0] if found else None), rows
