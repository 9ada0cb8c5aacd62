"""Gates: rules over scorecards. Pure: numbers in, verdicts with reasons out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import Field

from enginehouse.artifact import Config
from enginehouse.evaluate.record import Scorecard


class GateConfig(Config):
    """What a candidate must meet to serve."""

    min_macro_f1: float = Field(
        0.9, ge=0, le=1, description="Quality floor: macro F1 of each required engine on test."
    )
    max_drop: float = Field(
        0.02, ge=0, le=1, description="Largest loss of macro F1 against the fp32 engine."
    )
    champion_margin: float = Field(
        0.0, ge=0, le=1, description="How far below the champion a candidate may score."
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
        scorecards: of the candidate's required engines, by target name.
        references: by target name, of its fp32 twin on the same pictures.
        champions: by target name, of the champion's engine on the same pictures; or, where
            there is nothing to compare with, why not.
    """
    results = []
    for name, card in scorecards.items():
        score = card.macro_f1
        results.append(
            GateResult(
                *("quality floor", name, score >= config.min_macro_f1),
                f"macro F1 {score:.4f}, wanted at least {config.min_macro_f1:.4f}",
            )
        )
        twin = references[name].macro_f1
        drop = twin - score
        results.append(
            GateResult(
                *("precision drop", name, drop <= config.max_drop),
                f"macro F1 {score:.4f} against {twin:.4f} in fp32: drop "
                f"{max(drop, 0):.4f}, allowed {config.max_drop:.4f}",
            )
        )
        champion = champions[name]
        if isinstance(champion, str):
            results.append(GateResult("champion", name, True, champion))
            continue
        results.append(
            GateResult(
                *("champion", name, score >= champion.macro_f1 - config.champion_margin),
                f"macro F1 {score:.4f}, the champion has {champion.macro_f1:.4f} on the same "
                f"pictures (margin {config.champion_margin:.4f})",
            )
        )
    return results
