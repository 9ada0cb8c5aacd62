"""Which candidate ships on a target: by which rules, and what they came to."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from enginehouse.artifact import Config, Record
from enginehouse.engine import Precision


class ChooseRules(Config):
    """When a smaller precision may ship: what it may lose against fp32, and what it must gain.

    All losses are those on validation, picture by picture (or part by part): what fp32 gets right
    and the candidate does not, less the reverse.
    """

    margin_escapes: float = Field(
        0.05,
        ge=0,
        le=1,
        description="The share of the defects that escape may be higher than in fp32 by no more, "
        "with 95 % confidence. Few defects vouch for little: none lost of 60 for 0.043.",
    )
    margin_overkill: float = Field(
        0.05, ge=0, le=1, description="Likewise the share of the good parts that are rejected."
    )
    margin_errors: float = Field(
        0.05, ge=0, le=1, description="Likewise the share of pictures whose class is wrong."
    )
    max_lost_defects: float = Field(
        0.01,
        ge=0,
        le=1,
        description="Largest share of the defects that fp32 rejects and the candidate passes, "
        "whatever it gains elsewhere. Of few, none may be: 0.01 of 60 is less than one.",
    )
    pictures_per_loss: int = Field(
        60,
        ge=1,
        le=100_000,
        description="A class may lose one picture (net) for each so many that it has, begun ones "
        "included.",
    )
    min_speedup: float = Field(
        1.1,
        ge=0,
        le=100,
        description="How many times as fast as the next higher precision that may ship on the "
        "same target; 0: speed does not matter.",
    )


class Rung(Config):
    """A candidate by name, and the precision that it comes to."""

    name: str
    precision: Precision


class ChooseConfig(Config):
    """The rules, and the candidates that were scored, in the recipe's order; `none` first."""

    rules: ChooseRules = ChooseRules()
    rungs: tuple[Rung, ...]


class Excess(Config):
    """How much more often something bad happens than in fp32, on the same units.

    Attributes:
        lost: units that only the candidate gets wrong. gained: only fp32. of: units.
        bound: what the true difference of the shares does not exceed, with 95 % confidence.
    """

    lost: int
    gained: int
    of: int
    bound: float

    @property
    def share(self) -> float:
        """The difference that was found, -1..1."""
        return (self.lost - self.gained) / self.of if self.of else 0.0


class Judged(Config):
    """What the rules say of one candidate's quality, on validation against fp32.

    Attributes:
        errors: of the answers by class. escapes, overkill: at the operating point of each; None
            without one, or without such units.
        lost_defects: defects that fp32 rejects and the candidate passes.
        worst_class, worst_loss, worst_allowed: class with the largest net loss beyond what it may
            lose, the loss and the allowance, in pictures; "" where none loses.
        broken: sentences, one per rule that does not hold; () for one that may ship.
    """

    name: str
    precision: Precision
    errors: Excess
    escapes: Excess | None
    overkill: Excess | None
    lost_defects: int
    worst_class: str
    worst_loss: int
    worst_allowed: int
    broken: tuple[str, ...]


class Decision(Record):
    """What ships on one target.

    Notes, all by candidate name: `reasons` (one sentence: why it ships, or why not),
    `milliseconds` (the median), `against` (who it was held against), `speedup` (how many times
    as fast as that), and `flips`: a list of `kind`, `path`, `part`, `truth`, `fp32` and `answer`
    (class names), `alarm_fp32` and `alarm`. The kinds: `lost defect`, `lost good`,
    `gained defect`, `gained good`, and `class` where only the answer differs. And `device`.

    Attributes:
        chosen: name of the candidate.
        judged: in the recipe's order; `none` first, with nothing lost.
    """

    kind: ClassVar[str] = "decision"

    chosen: str
    judged: tuple[Judged, ...]
