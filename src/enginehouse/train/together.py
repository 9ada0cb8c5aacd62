"""Several processes that train one network, as torchrun started them: what they tell each other.

Every method is called by all of them at the same point of their work.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, cast

from enginehouse.train.machine import choose_device
from enginehouse.train.randomness import seed_of
from enginehouse.train.world import Value, World

if TYPE_CHECKING:
    import torch

STOP_EVERY = 4  # steps between two questions whether to stop


@contextlib.contextmanager
def join_world() -> Iterator[Together]:
    """Join the others: NCCL between GPUs, Gloo between CPUs.

    Torchrun says in the environment which process this is, and where the others are. After an
    error the connections are left to the end of the process: closing them would wait for others.
    """
    import torch
    import torch.distributed as dist

    rank, size, local = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    device = choose_device()
    if device.type == "cuda":
        device = torch.device("cuda", local)
        torch.cuda.set_device(device)
        dist.init_process_group("nccl", device_id=device)
    else:
        dist.init_process_group("gloo")
    yield Together(rank, size, device)
    dist.barrier()
    dist.destroy_process_group()


class Together(World):
    """One process of several, in a process group of torch's."""

    def prepare(self, net: torch.nn.Module, warn: Callable[[str], None]) -> torch.nn.Module:
        """On GPUs, BatchNorms norm by the whole batch; there is no such thing for CPUs."""
        import torch

        norm = torch.nn.modules.batchnorm._BatchNorm
        if self.device.type == "cuda":
            convert: Any = torch.nn.SyncBatchNorm.convert_sync_batchnorm
            return cast("torch.nn.Module", convert(net))
        if any(isinstance(module, norm) for module in net.modules()):
            warn(
                f"On CPUs each of the {self.size} processes norms by its own share of a batch, so "
                "the weights differ from those of one process; model.norm: group makes them alike."
            )
        return net

    def wrap(self, net: torch.nn.Module) -> torch.nn.Module:
        """The network under DistributedDataParallel, for its parameters that learn now."""
        from torch.nn.parallel import DistributedDataParallel

        on_gpu = self.device.type == "cuda"
        return DistributedDataParallel(
            net,
            device_ids=[self.device] if on_gpu else None,
            broadcast_buffers=not on_gpu,  # on GPUs the norms agree by themselves
            gradient_as_bucket_view=True,
        )

    def no_sync(self, model: torch.nn.Module, wanted: bool) -> AbstractContextManager[None]:
        """Within it, gradients of a wrapped network stay here, if that is wanted."""
        from torch.nn.parallel import DistributedDataParallel

        assert isinstance(model, DistributedDataParallel)
        return model.no_sync() if wanted else nullcontext()

    def reseed(self, seed: int, step: int) -> None:
        """A seed for this step of this process, so that a checkpoint of the leader is enough."""
        import torch

        torch.manual_seed(seed_of(seed, step, self.rank))

    def mean(self, value: torch.Tensor) -> torch.Tensor:
        """The mean over all processes."""
        import torch.distributed as dist

        total = value.detach().clone()
        dist.all_reduce(total)
        return total / self.size

    def gather(self, rows: torch.Tensor) -> torch.Tensor:
        """What all processes have along the first axis, by rank; any number of rows each."""
        import torch
        import torch.distributed as dist

        counts = self.share(len(rows))
        padded = rows.new_zeros(max(counts), *rows.shape[1:])
        padded[: len(rows)] = rows
        parts = [torch.empty_like(padded) for _ in counts]
        dist.all_gather(parts, padded)
        return torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)])

    def share(self, value: Value) -> list[Value]:
        """A small value of each process, by rank."""
        import torch.distributed as dist

        values: list[Value | None] = [None] * self.size
        dist.all_gather_object(values, value)
        return cast("list[Value]", values)

    def align(self, net: torch.nn.Module) -> None:
        """Take over the leader's statistics (of norms); parameters are alike anyway."""
        import torch.distributed as dist

        for buffer in net.buffers():
            dist.broadcast(buffer, 0)

    def agree_to_stop(self, wish: bool, step: int) -> bool:
        """Whether all stop now, as some process wishes it; asked every few steps."""
        return step % STOP_EVERY == 0 and any(self.share(wish))
