"""Everything that changes while training, as one thing that is saved and taken up again."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from enginehouse.artifact import Report
from enginehouse.errors import TrainingError
from enginehouse.train.scores import Scores

if TYPE_CHECKING:
    import torch
    from torch.optim.swa_utils import AveragedModel

Weights = dict[str, "torch.Tensor"]

WITHOUT = "going on without would not give the model that an uninterrupted training gives."
REMEDY = "Train from the beginning: remove the checkpoint."


@dataclass
class Progress:
    """How far training is.

    Attributes:
        epoch: the one that runs, from 1.
        batch: batches of it that are over.
        steps: batches that are over, in all epochs.
        updates: steps that the optimizer took; fp16 scaling skips some.
        skips: steps in a row that it skipped last.
        micro_batch: most pictures at once on a device; gets smaller where memory runs out.
        score_batch: likewise where nothing is learned; 0: the same.
        sums: of this epoch so far, by name.
        history: one row of numbers per epoch that is over.
        best: the best epoch so far, 0 for none, and its scores.
        resumed: steps at which a rerun went on.
        warnings: what a person should know.
    """

    micro_batch: int
    score_batch: int = 0
    epoch: int = 1
    batch: int = 0
    steps: int = 0
    updates: int = 0
    skips: int = 0
    sums: dict[str, float] = field(default_factory=dict)
    history: list[dict[str, float]] = field(default_factory=list)
    best_epoch: int = 0
    best_scores: dict[str, float] | None = None
    resumed: list[int] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def advance(self, updated: bool) -> None:
        """One more batch is over."""
        self.batch += 1
        self.steps += 1
        self.updates += updated

    def end_epoch(self, row: dict[str, float]) -> None:
        """The epoch is over and came to this row of numbers."""
        self.history.append({"epoch": self.epoch, **row})
        self.epoch, self.batch, self.sums = self.epoch + 1, 0, {}

    @property
    def best(self) -> Scores | None:
        """The scores of the best epoch so far."""
        return Scores(**self.best_scores) if self.best_scores else None


@dataclass
class State:
    """What a checkpoint holds.

    Attributes:
        forward: the network as training calls it, compiled where that is wanted.
        ema: moving average of the weights; None where the recipe wants none.
        best: weights of the best epoch so far, on the CPU.
    """

    net: torch.nn.Module
    forward: torch.nn.Module
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    ema: AveragedModel | None
    progress: Progress
    best: Weights | None = None

    @property
    def judged(self) -> torch.nn.Module:
        """The network that is scored and kept."""
        return self.net if self.ema is None else self.ema.module

    def capture(self) -> dict[str, Any]:
        """All of it, as tensors, numbers and text."""
        return {
            "net": self.net.state_dict(),
            "ema": None if self.ema is None else self.ema.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "random": _capture_random(),
            "progress": asdict(self.progress),
            "best": self.best,
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Take up where `capture` was called.

        Raises:
            TrainingError: a part is missing, or does not fit; names it.
        """
        missing = {"net", "ema", "optimizer", "scaler", "random", "progress", "best"} - saved.keys()
        if self.ema is not None and saved.get("ema") is None:
            missing.add("ema")
        if missing:
            told = f"The checkpoint has no {', '.join(sorted(missing))}; {WITHOUT}"
            raise TrainingError(told, REMEDY)
        takers: dict[str, Callable[[Any], Any]] = {
            "net": self.net.load_state_dict,
            **({} if self.ema is None else {"ema": self.ema.load_state_dict}),
            "optimizer": self.optimizer.load_state_dict,
            "scaler": self.scaler.load_state_dict,
            "progress": self._take_progress,
            "random": _restore_random,
        }
        for name, take in takers.items():
            try:
                take(saved[name])
            except (RuntimeError, ValueError, TypeError, KeyError) as error:
                reason = " ".join(str(error).split("\n\t")[:2])  # torch names the tensors so
                told = f"The checkpoint's {name} does not fit ({reason}); {WITHOUT}"
                raise TrainingError(told, REMEDY) from error
        self.best = saved["best"]

    def _take_progress(self, saved: dict[str, Any]) -> None:
        self.progress = Progress(**saved)


def make_warn(state: State, report: Report) -> Callable[[str], None]:
    """A function that reports a warning, and keeps it in the state's progress; each one once."""

    def warn(message: str) -> None:
        if message not in state.progress.warnings:
            state.progress.warnings.append(message)
            report(message)

    return warn


def copy_weights(net: torch.nn.Module) -> Weights:
    """The state on the CPU, each tensor whole and its own, as safetensors wants them."""
    import torch

    return {
        name: value.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
        for name, value in net.state_dict().items()
    }


def _capture_random() -> dict[str, Any]:
    """Where every source of random numbers stands."""
    import torch

    kind, keys, *rest = np.random.get_state()
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state() if torch.cuda.is_available() else None,
        "numpy": [kind, torch.from_numpy(np.asarray(keys).astype(np.int64)), *rest],
        "python": list(random.getstate()),
    }


def _restore_random(saved: dict[str, Any]) -> None:
    import torch

    torch.set_rng_state(saved["torch"])
    if saved["cuda"] is not None and torch.cuda.is_available():
        torch.cuda.set_rng_state(saved["cuda"])
    kind, keys, *rest = saved["numpy"]
    np.random.set_state((kind, keys.numpy().astype(np.uint32), *rest))
    version, words, gauss = saved["python"]
    random.setstate((version, tuple(words), gauss))
