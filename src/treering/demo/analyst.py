"""What is asked about the flights: standing figures every day, and an analyst's own questions, one from another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final, TypeAlias

from treering.answer import Answer
from treering.demo.flights import CARRIERS, HOURS, ORIGINS

Ask: TypeAlias = Callable[[Sequence[str]], list[Answer]]
"""Questions in, answers out, in the same order."""

LATE, VERY_LATE, LOST = "delay >= 15", "delay >= 60", "delay IS NULL"
_BLOCKS: Final = (*(f"hour >= {low} AND hour < {high}" for low, high in pairwise(HOURS[:-1])), f"hour >= {HOURS[-2]}")

DASHBOARD: Final = (
    *(LATE, VERY_LATE, LOST),
    *(f"origin = '{origin}' AND {what}" for what in (LATE, VERY_LATE, LOST) for origin in ORIGINS),
    *(f"carrier = '{carrier}'" for carrier in CARRIERS),
    *(f"carrier = '{carrier}' AND {LATE}" for carrier in CARRIERS),
    *(f"{block} AND {LATE}" for block in _BLOCKS),
)
"""The standing figures, looked at every day."""


def drill_down(ask: Ask, month: int) -> str:
    """An afternoon's work: where are flights late, who is worst, and where and when is that one worst?

    Some 250 questions, the later ones depending on the answers to the earlier; the last finding.
    """
    _table(ask, [f"origin = '{origin}'" for origin in ORIGINS])
    _table(ask, [f"month = {each}" for each in range(1, month + 1)])
    carriers = _table(ask, [f"carrier = '{carrier}'" for carrier in CARRIERS])
    worst = carriers[:3]
    for carrier in worst:
        places = _table(ask, [f"{carrier} AND origin = '{origin}'" for origin in ORIGINS])
        _table(ask, [f"{places[0]} AND {block}" for block in _BLOCKS])
    hours = _table(ask, list(_BLOCKS))
    return _table(ask, [f"{carrier} AND {hours[0]}" for carrier in worst])[0]


def _table(ask: Ask, groups: Sequence[str]) -> list[str]:
    """Ask how many flights each group has and how many were late, very late and cancelled: the groups, those with the
    most late flights first."""
    asked = [*groups, *(f"{group} AND {what}" for what in (LATE, VERY_LATE, LOST) for group in groups)]
    answers = ask(asked)
    late = {group: answer.value for group, answer in zip(groups, answers[len(groups) :], strict=False)}
    return sorted(groups, key=lambda group: -late[group])
