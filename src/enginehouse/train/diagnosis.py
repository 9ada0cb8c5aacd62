"""A small diagnosis of a training that is over: symptom, evidence, remedy.

Reads the rows of numbers that training wrote per epoch, and nothing else. The limits are wide: a
finding is worth a person's time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from enginehouse.train.config import TrainConfig

Row = Mapping[str, float]

GAP = 2.0  # validation loss over training loss
MIN_GAP = 0.15  # ... and their difference, as a share of the untrained loss
FLAT = 0.95  # a loss that never fell below this share of the untrained loss
RISE = 1.5  # a training loss over its own lowest value so far
MIN_RISE = 0.1  # ... and the difference, as a share of the untrained loss
CLIPPED = 0.95  # share of steps
SKIPPED = 0.05  # share of steps
WAIT = 0.10  # share of the time
FULL = 0.90  # share of the device's memory
STILL_RISING = 0.01  # macro F1 gained in the last fifth of the epochs
FEW = 200  # validation pictures
NOISE = 0.03  # macro F1 that comes and goes between one epoch and the next


@dataclass(frozen=True)
class Finding:
    """What looks wrong, the numbers that say so, and which field of the recipe to change."""

    symptom: str
    evidence: str
    remedy: str


@dataclass(frozen=True)
class Course:
    """How a training went.

    Attributes:
        rows: one per epoch, in order, as `history` in the notes of a trained model.
        best_epoch: whose weights were kept, from 1.
        untrained_loss: of a network that knows nothing.
        num_val: pictures (or windows) that were validated on.
    """

    rows: Sequence[Row]
    best_epoch: int
    untrained_loss: float
    num_val: int
    config: TrainConfig

    @property
    def steady(self) -> Sequence[Row]:
        """The epochs without the first, which is slower and rougher than the rest."""
        return self.rows[1:] or self.rows

    @property
    def late(self) -> Sequence[Row]:
        """The second half of the epochs."""
        return self.rows[len(self.rows) // 2 :]

    def mean(self, name: str, rows: Sequence[Row]) -> float:
        """The mean of a number over those epochs that have it, else 0."""
        return fmean([row[name] for row in rows if name in row] or [0.0])


def diagnose(course: Course) -> list[Finding]:
    """What looks wrong with a training, the gravest first; [] if nothing does."""
    found = [look(course) for look in LOOKS]
    return [finding for finding in found if finding is not None]


def _find_flat_loss(course: Course) -> Finding | None:
    lowest = min(row["loss"] for row in course.rows)
    if len(course.rows) < 2 or lowest < FLAT * course.untrained_loss:
        return None
    return Finding(
        "nothing was learnt",
        f"in {len(course.rows)} epochs the training loss never fell below {lowest:.3g}; that of "
        f"an untrained network is {course.untrained_loss:.3g}",
        f"raise train.learning_rate (now {course.config.learning_rate:g}) or train.epochs, free "
        "what train.finetune.frozen holds, and look in the report whether the labels of the first "
        "batch fit its pictures",
    )


def _find_rising_loss(course: Course) -> Finding | None:
    low, worst = course.rows[0], None
    for row in course.rows:
        low = min(low, row, key=lambda each: each["loss"])
        rise = row["loss"] - low["loss"]
        enough = row["loss"] > RISE * low["loss"] and rise > MIN_RISE * course.untrained_loss
        if enough and (worst is None or rise > worst[1]["loss"] - worst[0]["loss"]):
            worst = (low, row)
    if worst is None:
        return None
    return Finding(
        "the training loss rises",
        f"from {worst[0]['loss']:.3g} in epoch {worst[0]['epoch']:.0f} to "
        f"{worst[1]['loss']:.3g} in epoch {worst[1]['epoch']:.0f}",
        f"lower train.learning_rate (now {course.config.learning_rate:g}), or raise "
        f"train.warmup_epochs (now {course.config.warmup_epochs:g})",
    )


def _find_overfitting(course: Course) -> Finding | None:
    last = course.rows[-1]
    val = last.get("val_loss", 0.0)
    gap = val - last["loss"]
    if val <= GAP * last["loss"] or gap <= MIN_GAP * course.untrained_loss:
        return None
    return Finding(
        "overfitting",
        f"in epoch {last['epoch']:.0f} the validation loss is {val:.3g}, the training loss "
        f"{last['loss']:.3g}",
        "vary the pictures more (train.augment), raise train.weight_decay (now "
        f"{course.config.weight_decay:g}) or train.model.head.dropout (now "
        f"{course.config.model.head.dropout:g}), or add pictures",
    )


def _find_skipped_steps(course: Course) -> Finding | None:
    skipped = course.mean("skipped", course.steady)
    if skipped <= SKIPPED:
        return None
    return Finding(
        "steps are skipped",
        f"in {skipped:.0%} of the steps a gradient was too large for fp16",
        "set train.precision to bf16, or to fp32 where the GPU has no bf16",
    )


def _find_clipping(course: Course) -> Finding | None:
    clipped = course.mean("clipped", course.late)
    if clipped < CLIPPED:
        return None
    norm = course.mean("grad_norm", course.late)
    return Finding(
        "the gradient is always clipped",
        f"in {clipped:.0%} of the later steps its norm, {norm:.3g} in the mean, was cut to "
        f"{course.config.clip_norm:g}",
        f"raise train.clip_norm to about {2 * norm:.1g}, or lower train.learning_rate (now "
        f"{course.config.learning_rate:g})",
    )


def _find_waiting(course: Course) -> Finding | None:
    wait = course.mean("data_wait", course.steady)
    if wait <= WAIT:
        return None
    waiting = f"training waits for pictures {wait:.0%} of the time"
    workers = f"train.workers (now {course.config.workers})"
    memory = max(row.get("memory_share", 0.0) for row in course.rows)
    if memory > FULL:
        return Finding(
            "the device idles although its memory is full",
            f"{waiting}; {memory:.0%} of the memory is in use",
            f"raise {workers}; a larger train.batch_size would not help",
        )
    return Finding("training waits for data", waiting, f"raise {workers}")


def _find_noise(course: Course) -> Finding | None:
    scores = [row["macro_f1"] for row in course.late]
    steps = [after - before for before, after in pairwise(scores)]
    if len(steps) < 2 or course.num_val >= FEW:
        return None
    # What goes up and down again; a steady rise is no noise.
    noise = (sum(map(abs, steps)) - abs(sum(steps))) / len(steps)
    if noise <= NOISE:
        return None
    return Finding(
        "the validation score is noisy",
        f"macro F1 goes up and down by {noise:.3f} per epoch on {course.num_val} pictures, so "
        "that the best epoch is partly luck",
        "raise prepare.val_share, or add pictures; train.ema_decay (now "
        f"{course.config.ema_decay:g}) makes it steadier",
    )


def _find_early_end(course: Course) -> Finding | None:
    rows, window = course.rows, max(1, len(course.rows) // 5)
    before = max((row["macro_f1"] for row in rows[:-window]), default=0.0)
    gain = rows[-1]["macro_f1"] - before
    stopped = rows[-1]["epoch"] < course.config.epochs
    if len(rows) < 3 or stopped or course.best_epoch < rows[-1]["epoch"] or gain < STILL_RISING:
        return None
    last = "the last epoch" if window == 1 else f"the last {window} epochs"
    return Finding(
        "it was still getting better",
        f"the last epoch is the best one; {last} brought {gain:.3f} of macro F1",
        f"raise train.epochs (now {course.config.epochs})",
    )


LOOKS: tuple[Callable[[Course], Finding | None], ...] = (
    _find_flat_loss,
    _find_rising_loss,
    _find_overfitting,
    _find_skipped_steps,
    _find_clipping,
    _find_waiting,
    _find_noise,
    _find_early_end,
)
