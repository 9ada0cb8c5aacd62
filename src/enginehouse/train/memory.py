"""Running out of memory: told from other errors, and what must be undone before a second try."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginehouse.errors import TrainingError, first_line

if TYPE_CHECKING:
    import torch

# What libraries below torch say without raising its own error.
SAYINGS = ("can't allocate memory", "CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether this error says that an allocation failed, on any device."""
    import torch

    return isinstance(error, torch.OutOfMemoryError | MemoryError) or (
        isinstance(error, RuntimeError) and any(each in str(error) for each in SAYINGS)
    )


class TooManyAtOnce(TrainingError):
    """Memory ran out in one of several processes: they have to begin again, with less at once.

    Args:
        most_at_once: pictures to take at once from now on.
        warning: what happened, for people.
    """

    def __init__(self, most_at_once: int, warning: str) -> None:
        super().__init__(warning)
        self.most_at_once = most_at_once


def halve(most: int, num_pictures: int, error: BaseException) -> tuple[int, str]:
    """What to try next after an error, and a sentence that says so.

    Call it while the error is handled, and try again only after that: as long as it is handled,
    its traceback keeps the tensors of the failed try.

    Args:
        most: pictures at once, as it was.
        num_pictures: that there are.
        error: of the failed try.

    Returns:
        Half as many at once.

    Raises:
        BaseException: the error itself, if it is about something else.
        TrainingError: a single picture is too much.
    """
    if not is_out_of_memory(error):
        raise error
    failed = min(most, num_pictures)
    if failed == 1:
        raise TrainingError(
            f"Memory ran out with one picture at a time: {first_line(error)}",
            "Make prepare.size smaller, choose a smaller architecture, set "
            "train.speed.gradient_checkpointing: true, or end what else uses this memory.",
        ) from error
    less = -(-failed // 2)
    return less, f"memory ran out with {failed} pictures at once; from here on it is {less}"


def free_memory() -> None:
    """Give back what the failed try has left behind in torch's cache."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def has_batchnorm(net: torch.nn.Module) -> bool:
    """Whether a BatchNorm norms by the pictures that it sees together (a frozen one does not)."""
    import torch

    kind = torch.nn.modules.batchnorm._BatchNorm
    return any(isinstance(module, kind) and module.training for module in net.modules())


class Moment:
    """Where a network and the random numbers stood, so that a step can be undone.

    A step changes more than it returns: the statistics of norms, and the random numbers drawn.

    Args:
        net: whose buffers are kept, in tensors that every `mark` uses again.
    """

    def __init__(self, net: torch.nn.Module) -> None:
        import torch

        by_type: dict[torch.dtype, list[torch.Tensor]] = {}  # one kernel copies all of a type
        for buffer in net.buffers():
            by_type.setdefault(buffer.dtype, []).append(buffer)
        self.pairs = [
            (buffers, [torch.empty_like(buffer) for buffer in buffers])
            for buffers in by_type.values()
        ]

    def mark(self) -> None:
        """Remember now."""
        import torch

        with torch.no_grad():
            for buffers, kept in self.pairs:
                torch._foreach_copy_(kept, buffers)
        cuda = torch.cuda.get_rng_state() if torch.cuda.is_available() else None
        self.random = torch.get_rng_state(), cuda

    def put_back(self) -> None:
        """Undo what happened since, but for the weights."""
        import torch

        with torch.no_grad():
            for buffers, kept in self.pairs:
                torch._foreach_copy_(buffers, kept)
        cpu, cuda = self.random
        torch.set_rng_state(cpu)
        if cuda is not None:
            torch.cuda.set_rng_state(cuda)
