"""What the page says of the operating point: escapes, overkill, and where they come from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter

from enginehouse.evaluate.point import OperatingPoint, Rate
from enginehouse.evaluate.record import Masked, Outcome, Scorecard, Slice, TradeOff
from enginehouse.report.page import PageData

NOTES = TypeAdapter(list[str])


def make_operating(page: PageData) -> dict[str, Any]:
    """Everything about the point, as text; {} where no engine was scored."""
    card, twin = page.shipped, page.reference
    if card is None:
        return {}
    return {
        "notes": NOTES.validate_python(card.notes.get("operating", [])),
        "point": _describe_point(card.point) if card.point else {},
        "outcomes": list_outcomes(card, twin, page.road.validations.get(page.target.name)),
        "classes": _list_classes(card),
        "trades": _list_trades(card),
        "masked": _describe_masked(card.masked, card) if card.masked else {},
        "slices": [_describe_slice(each) for each in card.slices],
        "intervals": {
            name: f"{each.low:.3f} to {each.high:.3f}" for name, each in card.intervals.items()
        },
    }


def _describe_point(point: OperatingPoint) -> dict[str, Any]:
    return {
        "good": point.good,
        "unit": point.rules.unit,
        "limit": f"{point.rules.max_escape_rate:.2%}",
        "class_limits": [
            (name, f"{limit:.2%}") for name, limit in sorted(point.rules.class_limits.items())
        ],
        "threshold": f"{point.threshold:.4g}",
        "band": (
            f"{point.recheck_low:.4g} to {point.recheck_high:.4g}"
            if point.recheck_low < point.recheck_high
            else ""
        ),
        "class_thresholds": [
            (name, f"{share:.4g}") for name, share in point.class_thresholds.items()
        ],
    }


def list_outcomes(
    card: Scorecard, twin: Scorecard | None, validation: Scorecard | None
) -> list[dict[str, str]]:
    """A row per engine, split and unit; parts only where they are fewer than pictures."""
    sides = [
        ("this engine, validation", validation),
        ("fp32, test", twin),
        ("this engine, test", card),
    ]
    rows = []
    for what, scored in sides:
        if scored is None or scored.pictures is None or scored.parts is None:
            continue
        units = [scored.pictures]
        if scored.num_parts < scored.num_pictures:
            units.append(scored.parts)
        rows += [_describe_outcome(what, outcome) for outcome in units]
    return rows


def _describe_outcome(what: str, outcome: Outcome) -> dict[str, str]:
    return {
        "what": what,
        "unit": f"{outcome.unit}s",
        "escapes": _show_rate(outcome.escapes, outcome.escapes_rechecked),
        "overkill": _show_rate(outcome.overkill, outcome.overkill_rechecked),
        "rechecked": _show_rate(outcome.rechecked),
    }


def _show_rate(rate: Rate | None, rechecked: int = 0) -> str:
    """`3 of 120 (0.5% to 7.1%), 1 seen again`."""
    if rate is None:
        return "–"
    seen = f", {rechecked} seen again" if rechecked else ""
    return f"{rate.num} of {rate.of} ({rate.low:.1%} to {rate.high:.1%}){seen}"


def _list_classes(card: Scorecard) -> list[tuple[str, str]]:
    """Escapes of the unit of the point, the class with the largest share first."""
    if card.outcome is None:
        return []
    found = card.outcome.escapes_by_class.items()
    ranked = sorted(found, key=lambda item: -item[1].share)
    return [(name, _show_rate(rate)) for name, rate in ranked]


def _list_trades(card: Scorecard) -> list[dict[str, Any]]:
    """Both curves at their limits."""
    if card.outcome is None:
        return []
    sides: Sequence[tuple[str, str, tuple[TradeOff, ...]]] = (
        ("Overkill at most", "Escapes", card.outcome.escapes_at),
        ("Escapes at most", "Overkill", card.outcome.overkill_at),
    )
    return [
        {
            "held": held,
            "found": found,
            "rows": [(f"{each.limit:.1%}", _show_rate(each.rate)) for each in trades],
        }
        for held, found, trades in sides
        if trades
    ]


def _describe_masked(masked: Masked, card: Scorecard) -> dict[str, Any]:
    return {
        "holes": masked.holes,
        "side": masked.side,
        "macro_f1": f"{masked.macro_f1:.3f} instead of {card.macro_f1:.3f}",
        "escapes": _show_rate(masked.escapes) if masked.escapes else "",
        "rows": [
            (name, f"{card.recalls[name]:.3f}", f"{recall:.3f}")
            for name, recall in masked.recalls.items()
        ],
    }


def _describe_slice(each: Slice) -> dict[str, Any]:
    between = f" ({each.interval.low:.3f} to {each.interval.high:.3f})" if each.interval else ""
    return {
        "name": each.name,
        "value": each.value,
        "num": each.num_pictures,
        "macro_f1": f"{each.macro_f1:.3f}{between}",
        "escapes": _show_rate(each.escapes),
        "overkill": _show_rate(each.overkill),
        "worse": each.worse,
    }
