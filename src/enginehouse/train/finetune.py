"""What of a network learns, and how fast: frozen parts, and rates that fall with depth."""

from __future__ import annotations

import fnmatch
from typing import TYPE_CHECKING, Any

from pydantic import Field, model_validator

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
        description="Each stage learns at this share of the rate of the stage after it; the "
        "class head learns at the full rate.",
    )

    @model_validator(mode="after")
    def _check_unfreeze(self) -> FinetuneConfig:
        if self.unfreeze_epoch and not self.frozen:
            raise ValueError("unfreeze_epoch wants frozen: nothing is frozen that could learn then")
        if self.unfreeze_epoch == 1:
            raise ValueError("unfreeze_epoch must be 2 or more: from epoch 1 on, nothing is frozen")
        return self


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
            if not any(fnmatch.fnmatchcase(name, pattern) for name in names):
                raise RecipeError(
                    f"finetune.frozen: no parameter fits {pattern!r}{suggest(pattern, names)}.",
                    f"The network has {names[0]}, ..., {names[-1]}.",
                )
        self.frozen = {name for name in names if self._fits(name)}
        if len(self.frozen) == len(names):
            raise RecipeError("finetune.frozen: all is frozen.", "Leave a part free to learn.")

    def begin_epoch(self, epoch: int) -> None:
        """Put the network in training mode as the policy wants it in this epoch (from 1)."""
        thawed = 0 < self.config.unfreeze_epoch <= epoch
        frozen = set() if thawed else self.frozen
        self.net.train()
        for name, parameter in self.net.named_parameters():
            parameter.requires_grad_(name not in frozen)
        for name, norm in list_norms(self.net):
            if self.config.freeze_batchnorm or (not thawed and self._is_frozen(name, norm)):
                norm.eval()  # norms by its statistics, and leaves them as they are

    def _is_frozen(self, name: str, norm: torch.nn.Module) -> bool:
        """Whether all that a BatchNorm has is frozen; one without scales has statistics alone."""
        own = [inner for inner, _ in norm.named_parameters()]
        own = own or [inner for inner, _ in norm.named_buffers()]
        return bool(own) and all(self._fits(f"{name}.{inner}") for inner in own)

    def _fits(self, name: str) -> bool:
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in self.config.frozen)


def list_norms(net: torch.nn.Module) -> list[tuple[str, torch.nn.Module]]:
    """Every BatchNorm of a network, by name."""
    import torch

    kind = torch.nn.modules.batchnorm._BatchNorm
    return [(name, module) for name, module in net.named_modules() if isinstance(module, kind)]


def group_parameters(
    net: torch.nn.Module, config: FinetuneConfig, weight_decay: float
) -> list[dict[str, Any]]:
    """The optimizer's groups: `params`, `weight_decay`, and `share`, of the learning rate.

    Biases and the scales of norms are not decayed (they are vectors). With a `layer_decay` d, the
    stage that lies k stages before the head has share d^k (Bao et al.,
    https://arxiv.org/abs/2106.08254, appendix). All parameters are in a group, frozen ones as
    well, so that the groups stay the same from the first epoch to the last.
    """
    stages: dict[str, int] = {}
    if config.layer_decay < 1:
        from enginehouse.architecture.stages import number_stages

        stages = number_stages(net)
    last = max(stages.values(), default=0)
    groups: dict[tuple[float, float], list[Any]] = {}
    for name, parameter in net.named_parameters():
        decay = weight_decay if parameter.ndim > 1 else 0.0
        share = config.layer_decay ** (last - stages.get(name, last))
        groups.setdefault((share, decay), []).append(parameter)
    return [
        {"params": params, "weight_decay": decay, "share": share}
        for (share, decay), params in groups.items()
    ]
