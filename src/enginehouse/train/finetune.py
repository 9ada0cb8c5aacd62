"""What of a network learns, and how fast: frozen parts, and rates that fall with depth."""

from __future__ import annotations

import fnmatch
from typing import TYPE_CHECKING, Any

from pydantic import Field

from enginehouse.artifact import Config
from enginehouse.choices import suggest
from enginehouse.errors import RecipeError

if TYPE_CHECKING:
    import torch


class FinetuneConfig(Config):
    """What of the network learns, and how fast. As it stands, all of it at one rate."""

    frozen: tuple[str, ...] = Field(
        (),
        max_length=64,
        description="Patterns of parameter names that do not learn (layer1.*); the BatchNorms "
        "among them keep their statistics.",
    )
    unfreeze_epoch: int = Field(
        0, ge=0, le=1000, description="Epoch from which frozen parts learn as well; 0: never."
    )
    freeze_batchnorm: bool = Field(
        False, description="No BatchNorm changes its statistics, wherever it is."
    )
    layer_decay: float = Field(
        1.0,
        gt=0,
        le=1,
        description="Each stage learns at this share of the rate of the stage after it.",
    )


class Policy:
    """Applies a `FinetuneConfig` to a network, epoch by epoch.

    Raises:
        RecipeError: a pattern fits no parameter, or nothing is left to learn.
    """

    def __init__(self, net: torch.nn.Module, config: FinetuneConfig) -> None:
        self.net = net
        self.config = config
        names = [name for name, _ in net.named_parameters()]
        for pattern in config.frozen:
            if not fnmatch.filter(names, pattern):
                raise RecipeError(
                    f"finetune.frozen: no parameter fits {pattern!r}{suggest(pattern, names)}.",
                    f"The network has {names[0]}, ..., {names[-1]}.",
                )
        self.frozen = {n for n in names if any(fnmatch.fnmatch(n, p) for p in config.frozen)}
        if len(self.frozen) == len(names):
            raise RecipeError("finetune.frozen: all is frozen.", "Leave a part free to learn.")

    def begin_epoch(self, epoch: int) -> None:
        """Put the network in training mode as the policy wants it in this epoch (from 1)."""
        import torch

        thawed = 0 < self.config.unfreeze_epoch <= epoch
        frozen = set() if thawed else self.frozen
        self.net.train()
        for name, parameter in self.net.named_parameters():
            parameter.requires_grad_(name not in frozen)
        for prefix, module in self.net.named_modules():
            if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
                own = {f"{prefix}.{name}" for name, _ in module.named_parameters()}
                if self.config.freeze_batchnorm or (own and own <= frozen):
                    module.eval()


def group_parameters(
    net: torch.nn.Module, config: FinetuneConfig, weight_decay: float
) -> list[dict[str, Any]]:
    """The optimizer's groups: `params`, `weight_decay`, and `share`, of the learning rate.

    Biases and the scales of norms are not decayed (they are vectors).
    """
    groups: dict[tuple[float, float], list[Any]] = {}
    for parameter in net.parameters():
        decay = weight_decay if parameter.ndim > 1 else 0.0
        groups.setdefault((1.0, decay), []).append(parameter)
    return [
        {"params": params, "weight_decay": decay, "share": share}
        for (share, decay), params in groups.items()
    ]
