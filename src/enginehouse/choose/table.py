"""The decision table: one row per candidate, as plain data for the report, Prefect and MLflow."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

from enginehouse.choose.record import Decision, Excess, Judged

if TYPE_CHECKING:
    from enginehouse.road import Tried


def list_rows(decision: Decision, tried: Iterable[Tried]) -> list[dict[str, Any]]:
    """One row per candidate, in the order of `tried`; what is not known is None.

    The keys: `candidate`, `precision`, `ships` (bool), `reason` (one sentence), `bytes` (of the
    engine's files), `milliseconds`, `speedup` (times as fast as `against`, the candidate that it
    was held against); `errors_lost`, `errors_gained`, `errors_of` (pictures) and `errors_bound`
    (a share), the same four of `escapes` and `overkill`; `lost_defects`; `worst_class`,
    `worst_loss`, `worst_allowed`.

    Args:
        decision: of one target.
        tried: the target's candidates, those that came to no scorecard included.
    """
    judged = {each.name: each for each in decision.judged}
    return [_make_row(decision, each, judged.get(each.name)) for each in tried]


def _make_row(decision: Decision, tried: Tried, judged: Judged | None) -> dict[str, Any]:
    notes = cast(dict[str, dict[str, Any]], decision.notes)
    name, files = tried.name, tried.engine.files if tried.engine else {}
    row = {
        "candidate": name,
        "precision": tried.precision,
        "ships": name == decision.chosen,
        "reason": notes["reasons"].get(name) or tried.failed or tried.waiting,
        "bytes": sum(blob.size for blob in files.values()) if files else None,
        "milliseconds": notes["milliseconds"].get(name),
        "speedup": notes["speedup"].get(name),
        "against": notes["against"].get(name),
    }
    for kind in ("errors", "escapes", "overkill"):
        excess: Excess | None = getattr(judged, kind, None)
        for field in ("lost", "gained", "of", "bound"):
            row[f"{kind}_{field}"] = getattr(excess, field, None)
    row["lost_defects"] = judged.lost_defects if judged and judged.escapes else None
    for field in ("worst_class", "worst_loss", "worst_allowed"):
        row[field] = getattr(judged, field) if judged and judged.worst_class else None
    return row
