"""Gates: rules over scorecards. Pure: numbers in, verdicts with reasons out.

Scores are held against their limits as they are. Escapes and overkill are few, so a limit on them
is broken only where the whole 95 % interval lies above it: chance alone then rejects no engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pydantic import Field

from enginehouse.artifact import Config
from enginehouse.evaluate.point import OperatingPoint, Rate
from enginehouse.evaluate.record import Outcome, Scorecard

JUDGED_LIMIT = 1.0  # false alarms per megapixel of clean windows; one of those that are scored


class GateConfig(Config):
    """What a candidate must meet to serve."""

    min_macro_f1: float = Field(
        0.9, ge=0, le=1, description="Quality floor: macro F1 of each required engine on test."
    )
    min_defect_recall: float = Field(
        0.5,
        ge=0,
        le=1,
        description="With tiles: least share of the labelled defects that each required engine "
        "finds at one false alarm per megapixel of windows without defects.",
    )
    max_escape_rate: float | None = Field(
        None,
        ge=0,
        le=1,
        description="Largest share of the defects of test that may pass as good at the operating "
        "point. Empty: what validation can vouch for, the upper end of its own interval. Broken "
        "only where the whole interval lies above it.",
    )
    max_overkill_rate: float | None = Field(
        None,
        ge=0,
        le=1,
        description="Largest share of the good of test that may be rejected at the operating "
        "point. Empty: any. Broken only where the whole interval lies above it.",
    )
    max_drop: float = Field(
        0.02,
        ge=0,
        le=1,
        description="Largest loss of any score against the fp32 engine, and largest rise of "
        "escapes at the operating point.",
    )
    champion_margin: float = Field(
        0.0, ge=0, le=1, description="How much worse than the champion a candidate may be."
    )


@dataclass(frozen=True)
class GateResult:
    """One rule applied to one engine."""

    gate: str
    engine: str
    passed: bool
    reason: str


def judge(
    config: GateConfig,
    scorecards: Mapping[str, Scorecard],
    references: Mapping[str, Scorecard],
    champions: Mapping[str, Scorecard | str],
) -> list[GateResult]:
    """Apply every gate to every engine.

    Args:
        config: the limits.
        scorecards: of the candidate's required engines on test, by target name.
        references: by target name, of its fp32 twin on the same pictures.
        champions: by target name, of the champion's engine on the same pictures; or, where
            there is nothing to compare with, why not.
    """
    results = []
    for name, card in scorecards.items():
        champion = champions[name]
        twin = references[name]
        results.append(_judge_drop(config, name, "accuracy", card.accuracy, twin.accuracy))
        for measure in list_measures(config, card):
            score, reference = measure.read(card), measure.read(twin)
            results.append(_judge_floor(name, measure, score))
            results.append(_judge_drop(config, name, measure.name, score, reference))
            if isinstance(champion, Scorecard):
                results.append(_judge_champion(config, name, measure, card, champion))
        results += _judge_limits(config, name, card)
        results += _compare_escapes(config, name, card, twin, champion)
        if isinstance(champion, str):
            results.append(GateResult("champion", name, True, champion))
    return results


def _judge_floor(engine: str, measure: Measure, score: float) -> GateResult:
    return GateResult(
        *("quality floor", engine, score >= measure.floor),
        f"{measure.name} {score:.4f}, wanted at least {measure.floor:.4f}",
    )


def _judge_drop(
    config: GateConfig, engine: str, name: str, score: float, reference: float
) -> GateResult:
    drop = reference - score
    return GateResult(
        *("precision drop", engine, drop <= config.max_drop),
        f"{name} {score:.4f} against {reference:.4f} in fp32: drop "
        f"{max(drop, 0):.4f}, allowed {config.max_drop:.4f}",
    )


def _judge_champion(
    config: GateConfig, engine: str, measure: Measure, card: Scorecard, champion: Scorecard
) -> GateResult:
    score, best = measure.read(card), measure.read(champion)
    return GateResult(
        *("champion", engine, score >= best - config.champion_margin),
        f"{measure.name} {score:.4f}, the champion has {best:.4f} on the same pictures "
        f"(margin {config.champion_margin:.4f})",
    )


def _judge_limits(config: GateConfig, engine: str, card: Scorecard) -> list[GateResult]:
    """Escapes and overkill at the operating point against their limits."""
    limits = {"escapes": config.max_escape_rate, "overkill": config.max_overkill_rate}
    if card.point is None or card.outcome is None:
        return [
            GateResult(
                name,
                engine,
                False,
                f"wanted at most {limit:.2%}; there is no operating "
                "point: a good class has to be named, and validation needs defects",
            )
            for name, limit in limits.items()
            if limit is not None
        ]
    if limits["escapes"] is None:
        limits["escapes"] = find_vouched(card.point)
    rates = {"escapes": card.outcome.escapes, "overkill": card.outcome.overkill}
    return [
        GateResult(
            *(name, engine, rate.low <= limit),
            f"{_tell(name, rate, card.outcome)}, wanted at most {limit:.2%}",
        )
        for name, limit in limits.items()
        if limit is not None and (rate := rates[name]) is not None
    ]


def find_vouched(point: OperatingPoint) -> float:
    """The escape rate that validation vouches for: of few defects more than the limit it met."""
    return max(point.rules.max_escape_rate, point.escapes.high)


def _compare_escapes(
    config: GateConfig,
    engine: str,
    card: Scorecard,
    twin: Scorecard,
    champion: Scorecard | str,
) -> list[GateResult]:
    """Escapes against those of the fp32 twin and of the champion, each at its own point."""
    others = [("precision drop", "the fp32 engine", twin, config.max_drop)]
    if isinstance(champion, Scorecard):
        others.append(("champion", "the champion", champion, config.champion_margin))
    results = []
    for gate, who, other, margin in others:
        mine, best = card.outcome, other.outcome
        if mine is None or best is None or mine.escapes is None or best.escapes is None:
            continue
        results.append(
            GateResult(
                *(gate, engine, mine.escapes.low <= best.escapes.share + margin),
                f"{_tell('escapes', mine.escapes, mine)}; {who} has {best.escapes.share:.2%} on "
                f"the same pictures (margin {margin:.2%})",
            )
        )
    return results


def _tell(name: str, rate: Rate, outcome: Outcome) -> str:
    """`escapes 3 of 120 pictures, 2.50% (0.52% to 7.13%)`."""
    return (
        f"{name} {rate.num} of {rate.of} {outcome.unit}s, {rate.share:.2%} ({rate.low:.2%} to "
        f"{rate.high:.2%})"
    )


@dataclass(frozen=True)
class Measure:
    """A number that engines are judged by; more is better."""

    name: str
    floor: float
    read: Callable[[Scorecard], float]


def list_measures(config: GateConfig, card: Scorecard) -> list[Measure]:
    """Macro F1 over pictures; of a tiled pack also the share of defects that is found.

    Where every picture has a defect, an engine that always alarms is right of every picture.
    """
    measures = [Measure("macro F1", config.min_macro_f1, lambda card: card.macro_f1)]
    if card.defects is not None:
        name = f"defects found at {JUDGED_LIMIT:g} false alarm per megapixel"
        measures.append(Measure(name, config.min_defect_recall, _find_recall))
    return measures


def _find_recall(card: Scorecard) -> float:
    assert card.defects is not None  # all cards are of one pack and split
    recalls = {point.limit: point.recall for point in card.defects.points}
    return recalls.get(JUDGED_LIMIT, card.defects.recall)
