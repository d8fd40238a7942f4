"""The public state as the page shows it: rings, charts, series. Everything here was public before."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from treering.errors import TreeringError
from treering.pictures.rings import Ring, drawn, merged
from treering.pictures.strips import Column, bar, budget, columns
from treering.words import readable

if TYPE_CHECKING:
    from numpy.random import Generator

    from treering.vault.reader import Appended
    from treering.vault.vault import Vault

KINDS: Final = ("measured", "easy", "cached", "hard", "synthetic", "sql")
"""Kinds of answers, in the order in which they are stacked; the style sheet has a colour for each place."""
_SPANS: Final = (1, 5, 15, 60, 240, 1440)
"""How many minutes one column of the chart may stand for."""
_COLUMNS: Final = 24
KEPT: Final = 0.2
"""Seconds for which one view of the state does for everybody: less than the script waits after a change."""


class Board:
    """What all visitors see, made anew a few times a second at most, however many look."""

    def __init__(self, vault: Vault, minutes: Callable[[], Mapping[int, Mapping[str, int]]]) -> None:
        """``minutes`` tells what was answered, as `answered` takes it."""
        self._vault, self._minutes = vault, minutes
        self._lock = threading.Lock()
        self._batches: list[Appended] = []
        """All batches so far. Their lines in the ledger are read once: only new ones are looked for."""
        self._drawing: str | None = None
        self._made, self._view = -math.inf, dict[str, Any]()

    def view(self, *, now: bool = False) -> dict[str, Any]:
        """What the template of the status needs; made anew if it is old, or if it is wanted as it is ``now``."""
        with self._lock:
            if now or time.monotonic() - self._made > KEPT:
                status = self._vault.status()
                self._view = view(status, self._rings(status), self._minutes())
                self._made = time.monotonic()
            return self._view

    def drawing(self, generator: Generator) -> str | None:
        """The name of the first mechanism that draws rows, if there is one. (Drawing one row is free, and shows it.)"""
        for each in self._vault.status()["mechanisms"] if self._drawing is None else ():
            with suppress(TreeringError):
                self._vault.synthesize(1, each["name"], generator)
                self._drawing = str(each["name"])
                break
        return self._drawing

    def _rings(self, status: Mapping[str, Any]) -> list[Ring]:
        """The rings, each with what its first row has left."""
        if status["batches"] > len(self._batches):
            self._batches += self._vault.batches(after=self._batches[-1].seq if self._batches else 0)
        return [self._with_left(*each, status) for each in _placed(merged(_named(self._batches)))]

    def _with_left(self, first: int, ring: Ring, status: Mapping[str, Any]) -> Ring:
        total = status["total"]
        left = self._vault.left(first) + status["share_left"] * total
        return replace(ring, left=min(1.0, max(0.0, left / total)))


def _named(batches: Sequence[Appended]) -> list[Ring]:
    """A ring for each batch, named by when it came."""
    moments = [datetime.fromtimestamp(each.time, UTC) for each in batches]
    form = "%H:%M" if len({moment.date() for moment in moments}) == 1 else "%Y-%m-%d"
    return [Ring(f"{moment:{form}}", each.rows) for moment, each in zip(moments, batches, strict=True)]


def _placed(rings: Sequence[Ring]) -> list[tuple[int, Ring]]:
    """Each ring with the position of its first row."""
    ends = accumulate(ring.rows for ring in rings)
    return [(end - ring.rows + 1, ring) for end, ring in zip(ends, rings, strict=True)]


def answered(minutes: Mapping[int, Mapping[str, int]], now: float) -> list[Column]:
    """What was answered, by kind, in columns of equal spans of time that end now; none if nothing was.

    ``minutes`` has the counts of each minute since 1970 in which something was.
    """
    if not minutes:
        return []
    last = int(now // 60)
    age = last - min(minutes) + 1
    span = next((each for each in _SPANS if each * _COLUMNS >= age), _SPANS[-1])
    many = min(_COLUMNS, max(8, -(-age // span)))
    stacked: list[Counter[str]] = [Counter() for _ in range(many)]
    for minute, counts in minutes.items():
        place = many - 1 - (last - minute) // span
        if 0 <= place < many:
            stacked[place].update(counts)
    begin = datetime.fromtimestamp(60 * (last + 1 - many * span), UTC)
    form = "%H:%M" if span < 1440 else "%d %b"
    return [Column(f"{begin + timedelta(minutes=place * span):{form}}", counts) for place, counts in enumerate(stacked)]


def view(status: Mapping[str, Any], rings: Sequence[Ring], minutes: Mapping[int, Mapping[str, int]]) -> dict[str, Any]:
    """What the template of the status needs."""
    stacked = answered(minutes, time.time())
    totals = sum((Counter(each.counts) for each in stacked), Counter[str]())
    shown = [(kind, place) for place, kind in enumerate(KINDS) if totals[kind]]
    return {
        **{name: status[name] for name in ("size", "batches", "epsilon", "delta", "unit", "total")},
        "left": percent(status["remaining"] / status["total"]),
        "answers": sum(sum(each.values()) for each in minutes.values()),
        "rings": rings,
        "rings_svg": drawn(rings, width=400) if rings else "",
        "budget_svg": budget(rings) if rings else "",
        "answers_svg": columns(stacked, KINDS) if stacked else "",
        "kinds": shown,
        "series": _series(status),
    }


def percent(share: float) -> str:
    """A share of the budget, with no more digits than tell something; what is not all is never shown as all.

    >>> percent(1.0), percent(0.99999), percent(0.9345), percent(0.1), percent(0.032), percent(0.00012), percent(0.0)
    ('100%', '99.99%', '93.5%', '10%', '3.2%', '0.012%', '0%')
    """
    if 0.99 < share < 1:
        return f"{min(share, 0.9999):.2%}"
    return f"{readable(100 * share, 3 if share >= 0.1 else 2)}%"


def _series(status: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The series of all mechanisms, each margin as a bar beside the others."""
    found = [each for mechanism in status["mechanisms"] for each in mechanism.get("series", ())]
    widest = max((each["margin"] for each in found), default=0.0)
    return [
        {
            **each,
            "svg": bar(each["margin"], None, (0.0, widest)),
            "paid": percent(each["price"] / status["total"]),
        }
        for each in found
    ]
