"""Running out of memory: told from other errors, and what must be undone before a second try."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def is_out_of_memory(error: BaseException) -> bool:
    """Whether this error says that an allocation failed, on any device."""
    import torch

    return isinstance(error, torch.OutOfMemoryError | MemoryError) or (
        isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
    )


@dataclass(frozen=True)
class Moment:
    """Where a network and the random numbers stood before a step."""

    buffers: list[torch.Tensor]
    random: Any

    @classmethod
    def of(cls, net: torch.nn.Module) -> Moment:
        """Now."""
        import torch

        cuda = torch.cuda.get_rng_state() if torch.cuda.is_available() else None
        return cls([b.clone() for b in net.buffers()], (torch.get_rng_state(), cuda))

    def put_back(self, net: torch.nn.Module) -> None:
        """Undo what a forward pass changed: the statistics of norms, and random numbers drawn."""
        import torch

        with torch.no_grad():
            for buffer, before in zip(net.buffers(), self.buffers, strict=True):
                buffer.copy_(before)
        cpu, cuda = self.random
        torch.set_rng_state(cpu)
        if cuda is not None:
            torch.cuda.set_rng_state(cuda)
