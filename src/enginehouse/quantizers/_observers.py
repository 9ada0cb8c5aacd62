"""The observers that stand in a graph while it is calibrated: what passes them gets a scale.

Imports torch and torchao: import it where a network is worked on. Knows no graph.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torchao.quantization.pt2e import ObserverBase, PerChannelMinMaxObserver

Method = Literal["histogram", "minmax", "percentile"]

NUM_BINS = 2048
_HIGHEST = 127
_STEP = 8  # bins between the ranges that are tried
_SMALLEST_SCALE = 2**-24  # keeps a tensor of zeros from dividing by nothing
# A channel that is this much smaller than the largest one is dead (BatchNorm switched it off).
# Its weights become 0 at the largest scale: at one of its own, its bias would not fit int32.
_DEAD = 2**-16


class ActivationObserver(ObserverBase):  # type: ignore[misc]
    """Watches one tensor go by: first its range, then how its numbers lie in that range.

    The state is `min_val`, `max_val` and the resulting `scale`. Bins are fixed by the range before
    anything is counted, so batches make no difference; torchao's histogram, whose bins move as
    batches come, does differ.

    Args:
        method: how the range is found. `minmax`: all of it. `percentile`: what holds that share of
            the numbers. `histogram`: what minimises the squared error of rounding and cutting off.
        percentile: per cent of the numbers, zeros aside, that stay in the range.
        dtype, quant_min, quant_max, qscheme, is_dynamic: as torchao wants them.
    """

    def __init__(
        self,
        dtype: torch.dtype,
        quant_min: int,
        quant_max: int,
        qscheme: torch.qscheme,
        method: Method,
        percentile: float,
        is_dynamic: bool = False,
    ) -> None:
        super().__init__(dtype, is_dynamic)
        self.quant_min, self.quant_max, self.qscheme = quant_min, quant_max, qscheme
        self.method, self.percentile = method, percentile
        self.watch: Literal["", "range", "counts"] = ""
        self.register_buffer("min_val", torch.tensor(torch.inf))
        self.register_buffer("max_val", torch.tensor(-torch.inf))
        self.register_buffer("scale", torch.tensor([0.0]))
        self.register_buffer("counts", torch.zeros(NUM_BINS, dtype=torch.int64), persistent=False)

    @property
    def needs_counts(self) -> bool:
        """Whether the range alone does not do."""
        return self.method != "minmax"

    @property
    def magnitude(self) -> torch.Tensor:
        """The largest magnitude so far, a scalar."""
        return torch.maximum(-self.min_val, self.max_val)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The tensor as it is."""
        if self.watch == "range":
            low, high = torch.aminmax(x.detach())
            self.min_val.copy_(torch.minimum(self.min_val, low))
            self.max_val.copy_(torch.maximum(self.max_val, high))
        elif self.watch == "counts" and self.magnitude > 0:
            self._count(x.detach())
        return x

    def _count(self, x: torch.Tensor) -> None:
        """Count magnitudes; zeros do not count, as they are rounded to themselves."""
        bins = x.abs().div_(self.magnitude).mul_(NUM_BINS).long().clamp_(max=NUM_BINS - 1)
        self.counts += torch.bincount(bins.flatten(), minlength=NUM_BINS)
        self.counts[0] -= x.numel() - x.count_nonzero()

    def settle(self) -> None:
        """Fix the scale by what was seen."""
        self.watch = ""
        share = 1.0
        if self.needs_counts and self.magnitude > 0:
            if self.method == "histogram":
                share = find_range(self.counts)
            else:
                share = find_percentile(self.counts, self.percentile)
        self.scale.copy_(self.magnitude * share / _HIGHEST).clamp_(min=_SMALLEST_SCALE)

    def calculate_qparams(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Scale and zero point, [1] each."""
        assert bool(self.scale > 0), "not calibrated"
        return self.scale, torch.zeros(1, dtype=torch.int64)


# torchao gives a channel axis to classes with PerChannel in their name.
class PerChannelWeightObserver(PerChannelMinMaxObserver):  # type: ignore[misc]
    """The range of each output channel of a weight, which is looked at once.

    Its state also holds `shift`, float32 [channels]: what is added to the bias where this weight
    is in INT8; empty for nothing.
    """

    shift: torch.Tensor

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.register_buffer("shift", torch.empty(0))

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *rest: Any) -> None:
        if f"{prefix}shift" in state:
            self.shift.resize_(state[f"{prefix}shift"].shape)
        super()._load_from_state_dict(state, prefix, *rest)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The weight as it is."""
        if not self.min_val.numel():
            super().forward(x)
        return x

    def calculate_qparams(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Scales and zero points, [channels] each."""
        scale, zero_point = super().calculate_qparams()
        largest = scale.max()
        return torch.where(scale < largest * _DEAD, largest, scale), zero_point


def find_range(counts: torch.Tensor) -> float:
    """The range that costs least, as a share of the whole one.

    Cost is the squared error of rounding to 127 steps within the range and of cutting off beyond
    it, with numbers spread evenly within each bin.

    Args:
        counts: magnitudes per bin of the whole range, [bins].
    """
    num_bins = len(counts)
    edges = torch.arange(num_bins + 1, dtype=torch.float64)
    limits = edges[num_bins // 16 :: _STEP, None]
    step = limits / _HIGHEST
    inside = torch.minimum(edges, limits)
    nearest = (inside / step).round()
    # Integrals from 0 of the squared distance to the nearest step, and to the limit.
    rounded = nearest * step**3 / 12 + (inside - nearest * step) ** 3 / 3
    cut = (edges - limits).clamp(min=0) ** 3 / 3
    costs = ((rounded + cut).diff(dim=1) * counts).sum(dim=1)
    best = int(costs.argmin())
    place = float(best)
    if 0 < best < len(costs) - 1:
        # The lowest point of a parabola: it moves little where the counts change little.
        before, low, after = (float(cost) for cost in costs[best - 1 : best + 2])
        bend = before - 2 * low + after
        place += (before - after) / (2 * bend) if bend > 0 else 0.0
    return (num_bins // 16 + _STEP * place) / num_bins


def find_percentile(counts: torch.Tensor, percentile: float) -> float:
    """The range that holds `percentile` per cent of the numbers, as a share of the whole one.

    Args:
        counts: magnitudes per bin of the whole range, [bins].
        percentile: above 0, up to 100.
    """
    total = counts.cumsum(0).double()
    wanted = total[-1] * percentile / 100
    last = int(torch.searchsorted(total, wanted).clamp(max=len(counts) - 1))
    before = float(total[last - 1]) if last else 0.0
    share = (float(wanted) - before) / max(float(counts[last]), 1.0)
    return (last + share) / len(counts)
