"""Choose: which candidate ships on a target, by rules over what each scored on validation.

Reads the answers that the scorecards hold, and runs nothing. Latency decides, but only the notes
of the decision hold it: in the identity it counts through what is chosen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from enginehouse.artifact import Workspace
from enginehouse.choose.flips import list_flips
from enginehouse.choose.judge import judge, judge_plain
from enginehouse.choose.ladder import climb
from enginehouse.choose.record import ChooseConfig, Decision
from enginehouse.choose.side import Side, take_side
from enginehouse.engine import Device
from enginehouse.errors import EngineMismatch
from enginehouse.evaluate.answers import list_pictures, make_answers
from enginehouse.evaluate.record import Scorecard
from enginehouse.measure.record import Latency
from enginehouse.prepare.index import read_index
from enginehouse.prepare.record import Pack
from enginehouse.quantize.record import PLAIN

if TYPE_CHECKING:
    import pandas as pd

LIBRARIES = ("numpy", "pandas", "scipy", "torch")


def choose(
    pack: Pack,
    device: Device,
    latency: Latency,
    config: ChooseConfig,
    here: Workspace,
    **cards: Scorecard,
) -> Decision:
    """Take the smallest precision that keeps to the rules and is faster than the larger ones.

    Args:
        pack: what all candidates were scored on.
        device: where they were timed.
        latency: of all candidates' engines, in one run.
        config: rules and candidates; `none`, as the network was trained, is the first.
        here: workspace.
        **cards: what each candidate's engine scored on validation, by name.

    Raises:
        EngineMismatch: cards, latency, pack and device do not belong together.
        DataError: the pack's index does not fit its pictures.
    """
    first, *others = config.rungs
    assert first.name == PLAIN and {rung.name for rung in config.rungs} == cards.keys()
    _check_latency(latency, device, cards)
    _check_cards(cards, pack)
    index = read_index(pack, "val", here)
    pictures = list_pictures(index, pack)
    sides = {name: _read_side(card, index, pack, here) for name, card in cards.items()}
    plain = sides[PLAIN]
    judged = [judge_plain(first, plain)]
    judged += [judge(rung, plain, sides[rung.name], config.rules) for rung in others]
    rows = cast(list[dict[str, Any]], latency.notes["rows"])
    milliseconds = {row["name"]: row["milliseconds"] for row in rows}
    ladder = climb(judged, milliseconds, config.rules.min_speedup)
    flips = {rung.name: list_flips(pictures, plain, sides[rung.name]) for rung in others}
    return Decision(
        chosen=ladder.chosen,
        judged=tuple(judged),
        notes={
            "reasons": {each.name: ladder.reasons[each.name] for each in judged},
            "milliseconds": {each.name: milliseconds[each.name] for each in judged},
            "against": cast(Any, ladder.against),
            "speedup": cast(Any, ladder.speedup),
            "flips": cast(Any, flips),
            "device": device.describe(),
        },
    )


def _check_latency(latency: Latency, device: Device, cards: dict[str, Scorecard]) -> None:
    for name, card in cards.items():
        if latency.engines.get(name) != card.engine:
            timed = latency.engines.get(name, "no engine of that name")
            raise EngineMismatch(
                f"The scorecard of {name} is of the engine {card.engine[:12]}; what was timed is "
                f"{timed[:22]}.",
                "Measure the engines that were scored, all in one run.",
            )
    if latency.device != device.identity:
        raise EngineMismatch(
            f"The latency was taken on another device than {device.describe()}.",
            "Measure on the device that the decision is for.",
        )


def _check_cards(cards: dict[str, Scorecard], pack: Pack) -> None:
    point = cards[PLAIN].point
    for name, card in cards.items():
        if (card.split, card.pack) != ("val", pack.identity):
            raise EngineMismatch(
                f"Candidates are compared on this pack's validation split; the scorecard of "
                f"{name} is of the split {card.split}, pack {card.pack[:12]}.",
                "Evaluate every candidate's engine on validation first.",
            )
        found = card.point and (card.point.rules, card.point.good)
        if found != (point and (point.rules, point.good)):
            raise EngineMismatch(
                f"The operating points of {name} and {PLAIN} were fixed by different rules.",
                "Evaluate every candidate's engine with the same recipe.",
            )


def _read_side(card: Scorecard, index: pd.DataFrame, pack: Pack, here: Workspace) -> Side:
    scores = np.load(here.path(card, "predictions.npy"))
    good = card.point.good if card.point else ""
    return take_side(make_answers(index, scores, pack, good), card.point)
