"""What a stage reports, as lines for people: one per epoch of training, and of other steps some.

Knows no logger: who calls decides which lines are shown where.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from enginehouse.train.loop import STEPS

EPOCH = "epoch"  # how the message about a finished epoch begins


@dataclass(frozen=True)
class Line:
    """One line.

    Attributes:
        kind: `said` and `epoch` stand for themselves; a `step` is outdated by the next; `moment`
            is of the live line alone.
    """

    text: str
    kind: str


class Teller:
    """Turns the reports of one stage into lines.

    Args:
        place: where the stage stands in its recipe; each line begins with it.
        clock: seconds that only rise.
    """

    def __init__(self, place: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.place = place
        self._clock = clock
        self._begun = clock()
        self._num_epochs = 0  # seen here; a training that goes on has more behind it

    def tell(self, message: str, done: int, total: int, metrics: dict[str, float]) -> Line:
        """The line of one report."""
        if message.startswith(EPOCH) and metrics:
            return Line(self._tell_epoch(message, done, total, metrics), "epoch")
        if message == STEPS:
            kind = "moment"
        else:
            kind = "step" if done or total else "said"
            if not self._num_epochs:
                self._begun = self._clock()  # what was before is no time of an epoch
        steps = f" {done}/{total}" if total else ""
        numbers = "".join(f" {name} {value:.4g}" for name, value in metrics.items())
        return Line(f"{self.place}: {message}{steps}{numbers}", kind)

    def _tell_epoch(self, message: str, done: int, total: int, metrics: dict[str, float]) -> str:
        """Loss, score, rate, the time so far, and how much more all epochs will take."""
        self._num_epochs += 1
        elapsed = self._clock() - self._begun
        left = elapsed / self._num_epochs * (total - done)
        return (
            f"{self.place}: {message}: loss {metrics['loss']:.4g}, validation macro F1 "
            f"{metrics['macro_f1']:.4f}, {metrics['images_per_s']:.0f} images/s, elapsed "
            f"{format_time(elapsed)}, ETA {format_time(left)}"
        )


def format_time(seconds: float) -> str:
    """`0:42`, `12:05` or `1:12:05`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
