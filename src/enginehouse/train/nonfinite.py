"""Where a loss that is no number comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginehouse.errors import NonFiniteLoss

NUM_NAMED = 8

if TYPE_CHECKING:
    import torch

    from enginehouse.train.batches import Batch
    from enginehouse.train.state import State


def explain_nonfinite(
    state: State, batch: Batch, dtype: torch.dtype, loss: float, grad_norm: float
) -> NonFiniteLoss:
    """The error to raise: the pictures, the first module with such an output, rate and scale.

    Args:
        state: before the step.
        batch: of the step.
        dtype: of the matrix products.
        loss, grad_norm: what the step came to.
    """
    module = _find_first_module(state.net, batch.inputs, dtype)
    where = f"first in module {module}" if module else "in the gradients alone"
    rate = max(group["lr"] for group in state.optimizer.param_groups)
    scaler = state.scaler
    scale = f", gradient scale {scaler.get_scale():g}" if scaler.is_enabled() else ""
    progress = state.progress
    names = ", ".join(batch.names[:NUM_NAMED]) + (", ..." if len(batch.names) > NUM_NAMED else "")
    return NonFiniteLoss(
        f"The training loss became {loss} in epoch {progress.epoch} (step {progress.steps + 1}, "
        f"gradient norm {grad_norm:g}): {where}; learning rate {rate:g}{scale}; "
        f"pictures {names}.",
        "Set a lower train.learning_rate or train.clip_norm, or train.precision: fp32. The "
        "weights before this step are kept in the last checkpoint.",
    )


def _find_first_module(
    net: torch.nn.Module, inputs: torch.Tensor, dtype: torch.dtype
) -> str | None:
    """Name of the first module, in order of execution, whose output is not finite."""
    import torch

    found: list[str] = []

    def look(name: str) -> Any:
        def hook(_module: Any, _inputs: Any, output: Any) -> None:
            if isinstance(output, torch.Tensor) and not found and not output.isfinite().all():
                found.append(name)

        return hook

    hooks = [m.register_forward_hook(look(name)) for name, m in net.named_modules() if name]
    try:
        with torch.no_grad(), torch.autocast(inputs.device.type, dtype, dtype != torch.float32):
            net(inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return found[0] if found else None
